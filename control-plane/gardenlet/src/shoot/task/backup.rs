//! The garden's BackupEntry of a shoot. What works on it is the backup entry controller.

use api_core::v1beta1::{BackupEntry, BackupEntrySpec};
use api_meta::{Fault, LastOperationState};
use base_client::{Judgement, Waited, apply};
use base_controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use crate::context::MANAGER;
use crate::extension::fault_of_report;

/// Asks for a place for the shoot's backups.
pub(crate) async fn deploy_entry(op: &Operation) -> Result<(), Fault> {
    let shoot = &op.shoot;
    let entry = BackupEntry {
        metadata: ObjectMeta {
            name: Some(shoot.backup_entry()),
            namespace: Some(shoot.garden_namespace.clone()),
            owner_references: Some(vec![shoot.owner_reference()]),
            ..ObjectMeta::default()
        },
        spec: BackupEntrySpec {
            bucket_name: op.observed.seed.uid().unwrap_or_default(),
            seed_name: Some(op.context.config.seed_name().to_owned()),
            shoot_ref: None,
        },
        status: None,
    };
    apply(&op.context.in_garden(&shoot.garden_namespace), &entry, MANAGER)
        .await
        .map(drop)
}

/// Waits until it is there.
pub(crate) async fn wait_entry(op: &Operation, until: Option<Instant>) -> Result<(), Fault> {
    let key = ObjectKey::namespaced(&op.shoot.garden_namespace, op.shoot.backup_entry());
    let title = format!("BackupEntry {key}");
    let not_yet = |why: &str| {
        op.waiting.note(&title, Fault::untold(why).0);
        Judgement::NotYet(why.to_owned())
    };
    let judge = |entry: Option<&BackupEntry>| {
        let Some(entry) = entry else {
            return not_yet("it is not visible yet");
        };
        let status = entry.status.clone().unwrap_or_default();
        if status.observed_generation != entry.metadata.generation {
            return not_yet("the backup entry controller has not seen it yet");
        }
        if status
            .last_operation
            .is_some_and(|last| last.state == LastOperationState::Succeeded)
        {
            return Judgement::Done(());
        }
        match status.last_error {
            Some(error) => {
                let fault = fault_of_report(&title, &error.description, &error.codes);
                if fault.retryable() {
                    not_yet(&error.description)
                } else {
                    Judgement::Failed(fault)
                }
            }
            None => not_yet("it has not been reconciled yet"),
        }
    };
    let entries = &op.context.garden_caches.backup_entries;
    let waited = entries.wait_until(&key, left(until), judge).await;
    op.waiting.over(&title);
    waited.map_err(fault)
}

/// What ended the wait. The hint of whoever works on the entry is the better one, and the only one.
fn fault(waited: Waited) -> Fault {
    let Waited::TimedOut { what, after, reason } = waited else {
        return Fault::from(waited);
    };
    let (text, hint) = Fault::untold(&reason);
    let fault = |reason| Fault::from(Waited::TimedOut { what, after, reason });
    match hint {
        Some(hint) => fault(text.to_owned()).hint(hint),
        None => fault(reason),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_entry_that_keeps_failing_is_told_with_one_hint_which_is_its_own() {
        let told = |reason: &str| {
            let (what, after, reason) = ("BackupEntry n/e".to_owned(), Duration::from_secs(9), reason.to_owned());
            fault(Waited::TimedOut { what, after, reason }).told()
        };
        let said = Fault::dependency("bucket b is gone").hint("make it anew").told();
        let text = told(&said);
        assert!(text.ends_with("bucket b is gone (to do: make it anew)"), "{text}");
        assert_eq!(told("not seen yet").matches("(to do: ").count(), 1);
    }
}
