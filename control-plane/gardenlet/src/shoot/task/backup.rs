//! The garden's BackupEntry of a shoot. What works on it is the backup entry controller.

use std::sync::{Mutex, PoisonError};

use api_core::v1beta1::{BackupEntry, BackupEntrySpec};
use api_meta::{ErrorCode, Fault, FaultClass, LastOperationState, ObjectName, OperationReport, Problem, Subject};
use base_client::{WaitState, Waited, apply};
use base_controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use tokio::time::Instant;

use super::super::operation::{Operation, left};
use crate::context::MANAGER;
use crate::extension::{fault_of_report, object_name};

/// Requests the shoot's BackupEntry.
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
    let object = object_name::<BackupEntry>(&key);
    let subject = Subject::Object(object.clone());
    // The last error of the entry's controller, while it may pass.
    let standing: Mutex<Option<Fault>> = Mutex::default();
    let stand = |fault: Option<Fault>| *standing.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    let not_yet = |why: &str| {
        op.waiting.note(&subject, why);
        WaitState::NotYet(why.to_owned())
    };
    let check = |entry: Option<&BackupEntry>| {
        stand(None);
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
            return WaitState::Done(());
        }
        let Some(Problem { text, hint, codes, .. }) = error_of(entry) else {
            return not_yet("it has not been reconciled yet");
        };
        let fault = fault_of_report(&object, &text, &hint, &codes);
        if !fault.retryable() {
            return WaitState::Failed(fault);
        }
        let not_yet = not_yet(&text);
        stand(Some(fault));
        not_yet
    };
    let entries = &op.context.garden_caches.backup_entries;
    let waited = entries.wait_until(&key, left(until), check).await;
    op.waiting.over(&subject);
    let standing = standing.lock().unwrap_or_else(PoisonError::into_inner).take();
    waited.map_err(|waited| late(waited, object, standing))
}

/// The last error of the entry: as data, or as the status describes it where there is no data about this status.
fn error_of(entry: &BackupEntry) -> Option<Problem> {
    let status = entry.status.as_ref()?;
    let described = status.last_error.as_ref()?;
    let (generation, last) = (status.observed_generation, status.last_operation.as_ref());
    let report = OperationReport::current(entry.metadata.annotations.as_ref(), generation, last);
    let known = report.and_then(|report| report.errors.into_iter().next());
    Some(known.unwrap_or_else(|| Problem {
        task: None,
        object: None,
        text: described.description.clone(),
        hint: String::new(),
        class: described.codes.first().map_or(FaultClass::Dependency, ErrorCode::class),
        codes: described.codes.clone(),
        webhook: None,
    }))
}

/// What ended the wait. The hint of the entry's controller is the better one, and the only one.
fn late(waited: Waited, object: ObjectName, standing: Option<Fault>) -> Fault {
    let is_late = matches!(waited, Waited::TimedOut { .. });
    let fault = Fault::from(waited).about(object);
    match standing.filter(|_| is_late) {
        Some(standing) => fault.hint(standing.hint),
        None => fault,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_failing_entry_is_reported_with_its_own_hint_alone() {
        let reported = |standing: Option<Fault>| {
            let (what, after, reason) = ("BackupEntry n/e", Duration::from_secs(9), "bucket b is gone");
            let (what, reason) = (what.to_owned(), reason.to_owned());
            let object = ObjectName::new("BackupEntry", Some("n"), "e");
            late(Waited::TimedOut { what, after, reason }, object, standing).text_with_hint()
        };
        let text = reported(Some(Fault::dependency("bucket b is gone").hint("recreate it")));
        assert!(text.ends_with("bucket b is gone (to do: recreate it)"), "{text}");
        assert_eq!(reported(None).matches("(to do: ").count(), 1);
    }
}
