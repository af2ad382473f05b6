//! Some kinds are only deleted after an annotation confirms it, Shoots of some projects only by another person than the
//! one who wrote it (gardener/gardener v1.150 plugin/pkg/global/deletionconfirmation). Who confirmed stands in an
//! annotation that the server alone writes.

use std::collections::BTreeMap;

use api_core::v1beta1::Project;
use api_meta::annotations::{CONFIRMATION_DELETION, DELETION_CONFIRMED_BY, is_true};
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects, Operation, Review};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Plugin, Verdict, project_of, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, annotation, decode_stored, is_leaving, text};
use crate::prepare::remove_annotation;

/// The plug-in `DeletionConfirmation`.
pub(crate) struct DeletionConfirmation;

impl Plugin for DeletionConfirmation {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::DeletionConfirmation)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        _objects: &'a dyn Objects,
    ) -> Verdict<'a> {
        if writes_object(&call) && text(object, "/kind") == "Shoot" {
            note_confirmation(&call, object, old);
        }
        Box::pin(async { Ok(Vec::new()) })
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(old) = review.old.filter(|_| review.call.operation == Operation::Delete) else {
                return Ok(Vec::new());
            };
            if is_leaving(old) {
                return Ok(Vec::new());
            }
            let resource = format!("{}s", text(old, "/kind").to_lowercase());
            let why = if is_confirmed(old) {
                second_person(&review, &resource, old).await?
            } else {
                Some(unconfirmed(&resource, old))
            };
            match why {
                Some(why) => Err(Status::forbidden(CORE, &resource, text(old, "/metadata/name"), &why)),
                None => Ok(Vec::new()),
            }
        })
    }
}

fn is_confirmed(object: &Value) -> bool {
    is_true(annotation(object, CONFIRMATION_DELETION))
}

/// Writes who confirmed the deletion: the user who sets the confirmation; later writes keep the name until it is removed.
fn note_confirmation(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    if !is_confirmed(object) {
        remove_annotation(object, DELETION_CONFIRMED_BY);
        return;
    }
    let by = match old.filter(|old| is_confirmed(old)) {
        Some(old) => annotation(old, DELETION_CONFIRMED_BY).to_owned(),
        None => call.user.name.clone(),
    };
    object["metadata"]["annotations"][DELETION_CONFIRMED_BY] = json!(by);
}

fn unconfirmed(resource: &str, object: &Value) -> String {
    let name = text(object, "/metadata/name");
    let namespace = match text(object, "/metadata/namespace") {
        "" => String::new(),
        namespace => format!("-n {namespace} "),
    };
    format!(
        "must have a {CONFIRMATION_DELETION:?} annotation to delete; run: kubectl annotate {namespace}{resource} {name} {CONFIRMATION_DELETION}=true"
    )
}

/// Why the user may not delete what they confirmed themselves.
async fn second_person(review: &Review<'_>, resource: &str, object: &Value) -> Result<Option<String>, Status> {
    let user = &review.call.user.name;
    if annotation(object, DELETION_CONFIRMED_BY) != user {
        return Ok(None);
    }
    let Some(project) = project_of(review.objects, text(object, "/metadata/namespace")).await? else {
        return Ok(None);
    };
    let project: Project = decode_stored("Project", &project)?;
    let labels = BTreeMap::deserialize(&object["metadata"]["labels"]).unwrap_or_default();
    Ok(api_rules::needs_second_person(&project, resource, &labels, user).then(|| {
        format!(
            "{user:?} confirmed the deletion, and the project demands that another person deletes; ask one of them to run the same command"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::tests::{Fixture, admitted, review};

    #[test]
    fn deletion_needs_a_confirmation_with_a_value_that_go_reads_as_true() {
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
        for word in ["1", "t", "T", "TRUE", "true", "True"] {
            assert!(delete(json!({ CONFIRMATION_DELETION: word })).is_ok(), "{word}");
        }
        for word in ["yes", "tRUE", "0", "false", ""] {
            let refusal = delete(json!({ CONFIRMATION_DELETION: word })).expect_err(word);
            assert!(refusal.contains("kubectl annotate -n n shoots s"), "{refusal}");
        }
        assert!(delete(json!({})).is_err());
    }

    fn shoot(annotations: Value) -> Value {
        json!({"kind": "Shoot", "metadata": {"name": "s", "namespace": "garden-p", "annotations": annotations}})
    }

    #[test]
    fn the_confirming_user_is_written_by_the_server_and_never_forged() {
        let confirmed = json!({CONFIRMATION_DELETION: "true", DELETION_CONFIRMED_BY: "carol"});
        let by = |new: Value, old: Option<&Value>| {
            let made = admitted(&DeletionConfirmation, None, shoot(new), old, &Fixture::default()).unwrap();
            annotation(&made, DELETION_CONFIRMED_BY).to_owned()
        };
        assert_eq!(by(confirmed.clone(), None), "alice");
        assert_eq!(by(confirmed.clone(), Some(&shoot(json!({})))), "alice");
        let before = shoot(json!({CONFIRMATION_DELETION: "true", DELETION_CONFIRMED_BY: "bob"}));
        assert_eq!(by(confirmed, Some(&before)), "bob", "it was confirmed before");
        assert_eq!(by(json!({DELETION_CONFIRMED_BY: "carol"}), None), "");
    }

    #[test]
    fn a_project_can_demand_a_second_person() {
        let project = |approval: Value| json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p", "dualApprovalForDeletion": approval}});
        let delete = |approval: Value, by: &str| {
            let old = shoot(json!({CONFIRMATION_DELETION: "true", DELETION_CONFIRMED_BY: by}));
            let objects = Fixture::default().with("projects", project(approval));
            review(&DeletionConfirmation, Operation::Delete, None, Some(&old), &objects)
        };
        let dual = json!([{"resource": "shoots", "selector": {}}]);
        assert!(delete(dual.clone(), "alice").unwrap_err().contains("another person"));
        assert!(delete(dual, "bob").is_ok());
        assert!(delete(json!([]), "alice").is_ok());
    }
}
