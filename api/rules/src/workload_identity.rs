//! Rules of WorkloadIdentities (gardener/gardener v1.150 pkg/api/security/validation/workloadidentity.go).

use api_core::security::WorkloadIdentity;

use crate::checks::{distinct, name, not_empty};
use crate::{FieldError, Path};

/// Longest subject of a token, in ASCII letters (OpenID Connect Core 1.0, section 2).
const SUBJECT_BYTES_MAX: usize = 255;

/// The subject of the identity's tokens: it names the identity for good.
pub fn subject_of_workload_identity(namespace: &str, name: &str, uid: &str) -> String {
    format!("gardener.cloud:workloadidentity:{namespace}:{name}:{uid}")
}

/// Everything that is wrong with an identity by itself.
pub fn validate_workload_identity(identity: &WorkloadIdentity) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let audiences = Path::new("spec.audiences");
    if identity.spec.audiences.is_empty() {
        errors.push(audiences.required("name at least one audience of the tokens"));
    }
    for (index, audience) in identity.spec.audiences.iter().enumerate() {
        not_empty(&mut errors, &audiences.index(index), audience);
    }
    distinct(
        &mut errors,
        identity.spec.audiences.iter().map(String::as_str),
        |index| audiences.index(index),
    );
    let (type_, path) = (&identity.spec.target_system.type_, Path::new("spec.targetSystem.type"));
    not_empty(&mut errors, &path, type_);
    if type_.contains(',') {
        errors.push(path.invalid(type_, "must be one provider type"));
    }
    let meta = &identity.metadata;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let expected = subject_of_workload_identity(&part(&meta.namespace), name(meta), &part(&meta.uid));
    let subject = identity.status.as_ref().map_or("", |status| status.sub.as_str());
    let path = Path::new("status.sub");
    if subject != expected {
        errors.push(path.invalid(
            subject,
            format!("must be {expected:?}, which the server writes; leave it as it is"),
        ));
    }
    if expected.len() > SUBJECT_BYTES_MAX {
        errors.push(path.invalid(
            &expected,
            format!("must not be longer than {SUBJECT_BYTES_MAX} characters; take a shorter name"),
        ));
    }
    errors
}

/// Everything that is wrong with a change of an identity.
pub fn validate_workload_identity_update(new: &WorkloadIdentity, old: &WorkloadIdentity) -> Vec<FieldError> {
    let mut errors = validate_workload_identity(new);
    let types = (&new.spec.target_system.type_, &old.spec.target_system.type_);
    errors.extend(Path::new("spec.targetSystem.type").immutable(types.0, types.1));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_identity_has_audiences_one_provider_and_the_subject_that_the_server_wrote() {
        let identity = |audiences: &[&str], type_: &str, subject: &str| -> WorkloadIdentity {
            serde_json::from_value(json!({"metadata": {"name": "i", "namespace": "n", "uid": "u"},
                "spec": {"audiences": audiences, "targetSystem": {"type": type_}}, "status": {"sub": subject}}))
            .unwrap()
        };
        let right = "gardener.cloud:workloadidentity:n:i:u";
        let paths = |identity: &WorkloadIdentity| -> Vec<String> {
            validate_workload_identity(identity)
                .into_iter()
                .map(|error| error.path)
                .collect()
        };
        assert_eq!(paths(&identity(&["a"], "p", right)), [""; 0]);
        assert_eq!(paths(&identity(&[], "p", right)), ["spec.audiences"]);
        assert_eq!(paths(&identity(&["a", "a"], "p", right)), ["spec.audiences[1]"]);
        assert_eq!(paths(&identity(&[""], "p", right)), ["spec.audiences[0]"]);
        assert_eq!(paths(&identity(&["a"], "p,q", right)), ["spec.targetSystem.type"]);
        assert_eq!(paths(&identity(&["a"], "", right)), ["spec.targetSystem.type"]);
        assert_eq!(paths(&identity(&["a"], "p", "x")), ["status.sub"]);
        let moved = validate_workload_identity_update(&identity(&["a"], "q", right), &identity(&["a"], "p", right));
        assert_eq!(moved.len(), 1);
        let mut long = identity(&["a"], "p", "");
        long.metadata.name = Some("i".repeat(SUBJECT_BYTES_MAX));
        let subject = subject_of_workload_identity("n", name(&long.metadata), "u");
        long.status.as_mut().unwrap().sub = subject;
        assert_eq!(paths(&long), ["status.sub"]);
    }
}
