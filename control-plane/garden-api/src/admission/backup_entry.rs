//! A BackupEntry's name is that of the object in the seed, where all projects meet, and of the place where the backups
//! lie. Gardener takes any name; here none that is, or looks like, that of another project's Shoot: who could choose it
//! could lay hands on the backups of others.

use api_meta::names;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Extract, Extracted, Operation, Review};
use serde_json::Value;

use super::{Plugin, Verdict, project_of, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, refuse, text};

/// How technical IDs of Shoots begin.
const TECHNICAL_ID: &str = "shoot--";

/// Validates the name of a new BackupEntry.
pub(crate) struct OfOwnShoot;

impl Plugin for OfOwnShoot {
    fn name(&self) -> Option<AdmissionPlugin> {
        // Gardener has no such rule.
        None
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let new = writes_object(&review.call) && review.call.operation == Operation::Create;
            let Some(entry) = review.object.filter(|_| new) else {
                return Ok(Vec::new());
            };
            let (namespace, name) = (text(entry, "/metadata/namespace"), text(entry, "/metadata/name"));
            let project = project_of(review.objects, namespace).await?;
            let own = project.map(|project| format!("{TECHNICAL_ID}{}--", text(&project, "/metadata/name")));
            let is_own = own.is_some_and(|own| name.starts_with(&own));
            let is_anothers = |shoot: &Extracted<'_>| {
                shoot.namespace != Some(namespace) && shoot.texts.iter().any(|theirs| theirs == name)
            };
            let found = review.objects.find(CORE, "shoots", &NAMES, &is_anothers).await?;
            let is_foreign = found.is_some();
            if is_foreign || name.starts_with(TECHNICAL_ID) && !is_own {
                let words = format!(
                    "is the name of a Shoot outside of namespace {namespace}; leave it to the Shoot's gardenlet, which makes \
                     its entry, or take a name that does not begin with {TECHNICAL_ID:?}"
                );
                refuse(
                    "BackupEntry",
                    name,
                    &[FieldError::invalid("metadata.name", name, words)],
                )?;
            }
            Ok(Vec::new())
        })
    }
}

/// What the entries of all Shoots are called.
const NAMES: Extract = Extract {
    name: "backup entries",
    read: |shoot| name_for(shoot).into_iter().collect(),
};

/// What the entry of a Shoot is called; none as long as the Shoot has no technical ID.
fn name_for(shoot: &Value) -> Option<String> {
    let technical_id = Some(text(shoot, "/status/technicalID")).filter(|id| !id.is_empty())?;
    Some(names::backup_entry(technical_id, text(shoot, "/metadata/uid")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn an_entry_is_not_named_after_a_shoot_of_another_namespace() {
        let shoot = |namespace: &str, id: Option<&str>, uid: &str| json!({"metadata": {"name": uid, "namespace": namespace, "uid": uid}, "status": {"technicalID": id}});
        let fixture = Fixture::default()
            .with(
                "projects",
                json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}}),
            )
            .with("shoots", shoot("garden-p", Some("shoot--p--s"), "1"))
            .with("shoots", shoot("garden-p", None, "2"))
            .with("shoots", shoot("garden-q", Some("shoot--q--s"), "3"));
        let checked = |operation: Operation, name: &str| {
            let entry = json!({"kind": "BackupEntry", "metadata": {"name": name, "namespace": "garden-p"}});
            review(&OfOwnShoot, operation, Some(&entry), None, &fixture)
        };
        for own in ["shoot--p--s--1", "shoot--p--gone--2", "any"] {
            assert!(checked(Operation::Create, own).is_ok(), "{own}");
        }
        for foreign in ["shoot--q--s--3", "shoot--q--gone--4", "shoot--pp--s--1"] {
            let refusal = checked(Operation::Create, foreign).expect_err(foreign);
            for part in ["metadata.name", foreign, "outside of namespace garden-p", "leave it to"] {
                assert!(refusal.contains(part), "{refusal} lacks {part}");
            }
        }
        assert!(
            checked(Operation::Update, "any").is_ok(),
            "it stays when its Shoot is gone"
        );
    }
}
