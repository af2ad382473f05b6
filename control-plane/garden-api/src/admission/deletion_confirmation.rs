//! Some kinds are only deleted after an annotation says so
//! (gardener/gardener v1.150 plugin/pkg/global/deletionconfirmation).

use api_meta::annotations::CONFIRMATION_DELETION;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};

use super::{Plugin, Verdict};
use crate::convert::{CORE, annotation, is_leaving, text};

/// The plug-in `DeletionConfirmation`.
pub(crate) struct DeletionConfirmation;

impl Plugin for DeletionConfirmation {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(old) = review.old.filter(|_| review.call.operation == Operation::Delete) else {
                return Ok(Vec::new());
            };
            if is_leaving(old) || annotation(old, CONFIRMATION_DELETION) == "true" {
                return Ok(Vec::new());
            }
            let resource = format!("{}s", text(old, "/kind").to_lowercase());
            let name = text(old, "/metadata/name");
            let namespace = match text(old, "/metadata/namespace") {
                "" => String::new(),
                namespace => format!("-n {namespace} "),
            };
            let why = format!(
                "must have a {CONFIRMATION_DELETION:?} annotation to delete; run: kubectl annotate {namespace}{resource} {name} {CONFIRMATION_DELETION}=true"
            );
            Err(Status::forbidden(CORE, &resource, name, &why))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn deletion_needs_a_confirmation_that_says_true() {
        let delete = |annotations| {
            let shoot =
                json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "n", "annotations": annotations}});
            review(
                &DeletionConfirmation,
                Operation::Delete,
                None,
                Some(&shoot),
                &Fixture::default(),
            )
        };
        assert!(delete(json!({"confirmation.gardener.cloud/deletion": "true"})).is_ok());
        let refusal = delete(json!({"confirmation.gardener.cloud/deletion": "yes"})).expect_err("not true");
        assert!(refusal.contains("kubectl annotate -n n shoots s"), "{refusal}");
        assert!(delete(json!({})).is_err());
    }
}
