//! Who changes the credentials of a Shoot must be allowed to read the old and the new ones: otherwise a member could move
//! a Shoot into another account and leave in the former one what belongs to its owner (gardener/gardener v1.150
//! plugin/pkg/shoot/validator, `validateCredentialsBindingChange` and `validateSecretBindingToCredentialsBindingMigration`).

use std::sync::Arc;

use api_core::v1beta1::Shoot;
use cluster_apiserver::Status;
use cluster_apiserver::fields::{FieldError, FieldErrorKind};
use cluster_apiserver::kind::Review;
use serde_json::Value;

use crate::convert::{CORE, SECURITY, text};

/// Errors for bindings that the Shoot names first and that are missing or of another provider.
pub(super) async fn check_bindings(
    review: &Review<'_>,
    shoot: &Shoot,
    old: Option<&Shoot>,
    errors: &mut Vec<FieldError>,
) -> Result<(), Status> {
    let spec = &shoot.spec;
    let before = old.map(|old| &old.spec);
    let bindings = [
        (
            CORE,
            "secretbindings",
            "spec.secretBindingName",
            &spec.secret_binding_name,
            before.map(|b| &b.secret_binding_name),
        ),
        (
            SECURITY,
            "credentialsbindings",
            "spec.credentialsBindingName",
            &spec.credentials_binding_name,
            before.map(|b| &b.credentials_binding_name),
        ),
    ];
    for (group, resource, path, name, before) in bindings {
        let Some(text_name) = name
            .as_deref()
            .filter(|name| !name.is_empty() && before != Some(&Some((*name).to_owned())))
        else {
            continue;
        };
        let Some(binding) = review
            .objects
            .get(group, resource, review.call.namespace, text_name)
            .await?
        else {
            let words = format!(
                "create it in namespace {}, or name another",
                review.call.namespace.unwrap_or_default()
            );
            errors.push(FieldError::new(
                path,
                FieldErrorKind::NotFound,
                Some(text_name.into()),
                words,
            ));
            continue;
        };
        let types = text(&binding, "/provider/type");
        let fits = types.is_empty()
            || types
                .split(',')
                .any(|type_| type_.trim().eq_ignore_ascii_case(&spec.provider.type_));
        if !fits {
            let words = format!(
                "is for provider type {types:?}, not {:?}; name a binding of the shoot's provider",
                spec.provider.type_
            );
            errors.push(FieldError::invalid(path, text_name, words));
        }
    }
    Ok(())
}

/// Refuses a change of the binding, or from a SecretBinding to another Secret.
pub(super) async fn check_change(review: &Review<'_>, shoot: &Shoot, old: &Shoot) -> Result<(), Status> {
    let (now, before) = (&shoot.spec, &old.spec);
    match (&before.credentials_binding_name, &now.credentials_binding_name) {
        (Some(before), Some(now)) if before != now => {
            let previous = binding(review, before).await?;
            check_readable(review, &previous, "previously").await?;
            let next = binding(review, now).await?;
            check_readable(review, &next, "newly").await
        }
        (None, Some(next)) => match (&before.secret_binding_name, &now.secret_binding_name) {
            (Some(previous), None) => check_migration(review, previous, next).await,
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

async fn check_readable(review: &Review<'_>, binding: &Value, which: &str) -> Result<(), Status> {
    let to = &binding["credentialsRef"];
    let kind = text(to, "/kind");
    let (group, resource) = match kind {
        "WorkloadIdentity" => (SECURITY, "workloadidentities"),
        "InternalSecret" => (CORE, "internalsecrets"),
        _ => ("", "secrets"),
    };
    let (namespace, name) = (text(to, "/namespace"), text(to, "/name"));
    let user = review.call.user;
    if review
        .objects
        .allowed(user, "get", group, resource, Some(namespace), name)
        .await?
    {
        return Ok(());
    }
    let why = format!(
        "user {:?} is not allowed to read the {which} referenced {kind} {namespace}/{name}; ask who may read both to change the binding",
        user.name
    );
    Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
}

async fn check_migration(review: &Review<'_>, previous: &str, next: &str) -> Result<(), Status> {
    let namespace = review.call.namespace;
    let previous = found(
        review.objects.get(CORE, "secretbindings", namespace, previous).await?,
        "SecretBinding",
        previous,
    )?;
    let next = binding(review, next).await?;
    let (from, to) = (&previous["secretRef"], &next["credentialsRef"]);
    let is_same = text(to, "/kind") == "Secret"
        && text(to, "/name") == text(from, "/name")
        && text(to, "/namespace") == text(from, "/namespace");
    if is_same {
        return Ok(());
    }
    let why = format!(
        "it is not allowed to change the referenced Secret when migrating from secretBindingName to credentialsBindingName; name a CredentialsBinding of Secret {}/{} first",
        text(from, "/namespace"),
        text(from, "/name")
    );
    Err(Status::forbidden(CORE, "shoots", review.call.name, &why))
}

async fn binding(review: &Review<'_>, name: &str) -> Result<Arc<Value>, Status> {
    let binding = review
        .objects
        .get(SECURITY, "credentialsbindings", review.call.namespace, name)
        .await?;
    found(binding, "CredentialsBinding", name)
}

fn found(object: Option<Arc<Value>>, kind: &str, name: &str) -> Result<Arc<Value>, Status> {
    object.ok_or_else(|| Status::internal(format!("could not find referenced {kind} {name:?}; create it first")))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::User;
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, call};

    fn landscape() -> Fixture {
        let binding = |name: &str, kind: &str, to: &str| {
            json!({"metadata": {"name": name, "namespace": "garden-p"},
                "credentialsRef": {"apiVersion": "v1", "kind": kind, "name": to, "namespace": "garden-q"}})
        };
        let old = json!({"metadata": {"name": "old", "namespace": "garden-p"}, "secretRef": {"name": "a", "namespace": "garden-q"}});
        Fixture::default()
            .with("secretbindings", old)
            .with("credentialsbindings", binding("a", "Secret", "a"))
            .with("credentialsbindings", binding("b", "Secret", "b"))
            .with("credentialsbindings", binding("i", "WorkloadIdentity", "i"))
    }

    fn change(objects: &Fixture, before: Value, now: Value) -> Result<(), String> {
        let shoot = |spec: Value| -> Shoot { serde_json::from_value(json!({ "spec": spec })).unwrap() };
        let user = User::new("alice", &[]);
        let review = Review {
            call: call(Operation::Update, None, &user),
            object: None,
            old: None,
            objects,
        };
        let (now, before) = (shoot(now), shoot(before));
        let checked = check_change(&review, &now, &before);
        futures::executor::block_on(checked).map_err(|status| status.to_string())
    }

    #[test]
    fn a_change_of_credentials_needs_the_right_to_read_both() {
        let to = |name: &str| json!({ "credentialsBindingName": name });
        assert!(change(&landscape(), to("a"), to("b")).is_ok());
        assert!(change(&landscape(), to("a"), to("a")).is_ok());
        let mut denied = landscape();
        denied.denied.push("workloadidentities");
        assert!(change(&denied, to("a"), to("b")).is_ok());
        let newly = change(&denied, to("a"), to("i")).unwrap_err();
        assert!(
            newly.contains("newly referenced WorkloadIdentity garden-q/i"),
            "{newly}"
        );
        let previously = change(&denied, to("i"), to("a")).unwrap_err();
        assert!(
            previously.contains("previously referenced WorkloadIdentity"),
            "{previously}"
        );
    }

    #[test]
    fn a_secret_binding_becomes_a_credentials_binding_of_the_same_secret() {
        let from = || json!({"secretBindingName": "old"});
        let to = |name: &str| json!({ "credentialsBindingName": name });
        assert!(change(&landscape(), from(), to("a")).is_ok());
        for other in ["b", "i"] {
            let refusal = change(&landscape(), from(), to(other)).unwrap_err();
            assert!(
                refusal.contains("not allowed to change the referenced Secret"),
                "{refusal}"
            );
        }
    }
}
