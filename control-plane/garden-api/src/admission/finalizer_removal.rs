//! The finalizer `gardener` stays while it protects something: on a Shoot until its deletion has succeeded, on a
//! binding while Shoots use it (gardener/gardener v1.150 plugin/pkg/global/finalizerremoval).

use api_meta::finalizers::GARDENER;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict};
use crate::AdmissionPlugin;
use crate::convert::{CORE, text};

/// The plug-in `FinalizerRemoval`.
pub(crate) struct FinalizerRemoval;

impl Plugin for FinalizerRemoval {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::FinalizerRemoval)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let (Some(object), Some(old)) = (review.object, review.old) else {
                return Ok(Vec::new());
            };
            if review.call.operation != Operation::Update || has_finalizer(object) || !has_finalizer(old) {
                return Ok(Vec::new());
            }
            let name = text(old, "/metadata/name");
            let kind = text(old, "/kind");
            match kind {
                "Shoot" if !deletion_succeeded(old) => Err(Status::forbidden(
                    CORE,
                    "shoots",
                    name,
                    "finalizer \"gardener\" cannot be removed because shoot deletion has not completed successfully yet; wait for it",
                )),
                "SecretBinding" | "CredentialsBinding" => {
                    let field = if kind == "SecretBinding" {
                        "secretBindingName"
                    } else {
                        "credentialsBindingName"
                    };
                    let shoots = review.objects.list(CORE, "shoots", review.call.namespace).await?;
                    match shoots.iter().find(|shoot| shoot["spec"][field] == name) {
                        None => Ok(Vec::new()),
                        Some(shoot) => {
                            let why = format!(
                                "finalizer \"gardener\" must not be removed while Shoot {} uses the {kind}; delete it first",
                                text(shoot, "/metadata/name")
                            );
                            Err(Status::forbidden(
                                CORE,
                                &format!("{}s", kind.to_lowercase()),
                                name,
                                &why,
                            ))
                        }
                    }
                }
                _ => Ok(Vec::new()),
            }
        })
    }
}

fn has_finalizer(object: &Value) -> bool {
    let finalizers = object.pointer("/metadata/finalizers").and_then(Value::as_array);
    finalizers.into_iter().flatten().any(|finalizer| finalizer == GARDENER)
}

/// Also true when nothing was ever created.
fn deletion_succeeded(shoot: &Value) -> bool {
    let operation = &shoot["status"]["lastOperation"];
    if text(shoot, "/status/technicalID").is_empty() || !operation.is_object() {
        return true;
    }
    operation["type"] == "Delete" && operation["state"] == "Succeeded" && operation["progress"] == 100
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_shoots_finalizer_goes_only_after_its_deletion_succeeded() {
        let shoot = |operation: Value, finalizers: Value| {
            json!({"kind": "Shoot", "metadata": {"name": "s", "finalizers": finalizers},
                "status": {"technicalID": "t", "lastOperation": operation}})
        };
        let remove = |operation: Value| {
            let old = shoot(operation.clone(), json!(["gardener", "x"]));
            let new = shoot(operation, json!(["x"]));
            review(
                &FinalizerRemoval,
                Operation::Update,
                Some(&new),
                Some(&old),
                &Fixture::default(),
            )
        };
        assert!(remove(json!({"type": "Delete", "state": "Succeeded", "progress": 100})).is_ok());
        assert!(remove(json!({"type": "Delete", "state": "Processing", "progress": 99})).is_err());
        assert!(remove(json!({"type": "Create", "state": "Succeeded", "progress": 100})).is_err());
        assert!(remove(Value::Null).is_ok());
    }

    #[test]
    fn a_binding_in_use_keeps_its_finalizer() {
        let binding = |finalizers: Value| json!({"kind": "CredentialsBinding", "metadata": {"name": "b", "finalizers": finalizers}});
        let shoot =
            json!({"metadata": {"name": "s", "namespace": "garden-p"}, "spec": {"credentialsBindingName": "b"}});
        let remove = |fixture: &Fixture| {
            let (old, new) = (binding(json!(["gardener"])), binding(json!([])));
            review(&FinalizerRemoval, Operation::Update, Some(&new), Some(&old), fixture)
        };
        assert!(remove(&Fixture::default()).is_ok());
        assert!(
            remove(&Fixture::default().with("shoots", shoot))
                .expect_err("in use")
                .contains("Shoot s uses")
        );
    }
}
