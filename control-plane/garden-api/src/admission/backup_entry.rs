//! A BackupEntry is a Shoot's, and its name says whose: it is the name of the object in the seed, where all projects meet,
//! and of the place where the backups lie. Who could choose it freely could lay hands on the backups of others.

use api_meta::names;
use cluster_apiserver::kind::{Operation, Review};
use cluster_apiserver::schema::FieldError;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::convert::{CORE, refuse, text};

/// Judges the name of a new BackupEntry.
pub(crate) struct OfOwnShoot;

impl Plugin for OfOwnShoot {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let new = writes_object(&review.call) && review.call.operation == Operation::Create;
            let Some(entry) = review.object.filter(|_| new) else {
                return Ok(Vec::new());
            };
            let (namespace, name) = (text(entry, "/metadata/namespace"), text(entry, "/metadata/name"));
            let shoots = review.objects.list(CORE, "shoots", Some(namespace)).await?;
            if !shoots.iter().any(|shoot| name_for(shoot).as_deref() == Some(name)) {
                let words = format!(
                    "must be the technical ID and the uid of a Shoot of namespace {namespace}, joined by \"--\"; leave it to \
                     the Shoot's gardenlet, which makes its entry"
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
    fn an_entry_is_named_after_a_shoot_of_its_own_namespace() {
        let shoot = |namespace: &str, id: Option<&str>, uid: &str| json!({"metadata": {"name": uid, "namespace": namespace, "uid": uid}, "status": {"technicalID": id}});
        let fixture = Fixture::default()
            .with("shoots", shoot("garden-p", Some("shoot--p--s"), "1"))
            .with("shoots", shoot("garden-p", None, "2"))
            .with("shoots", shoot("garden-q", Some("shoot--q--s"), "3"));
        let judged = |operation: Operation, name: &str| {
            let entry = json!({"kind": "BackupEntry", "metadata": {"name": name, "namespace": "garden-p"}});
            review(&OfOwnShoot, operation, Some(&entry), None, &fixture)
        };
        assert!(judged(Operation::Create, "shoot--p--s--1").is_ok());
        for foreign in ["shoot--q--s--3", "shoot--p--s--2", "--2", "shoot--p--s", "any"] {
            let refusal = judged(Operation::Create, foreign).expect_err(foreign);
            for part in [
                "metadata.name",
                foreign,
                "of a Shoot of namespace garden-p",
                "leave it to",
            ] {
                assert!(refusal.contains(part), "{refusal} lacks {part}");
            }
        }
        assert!(
            judged(Operation::Update, "any").is_ok(),
            "it stays when its Shoot is gone"
        );
    }
}
