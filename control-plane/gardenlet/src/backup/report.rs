//! The status of a garden object on whose behalf an extension object was worked on.

use api_core::v1beta1::{BackupBucket, BackupEntry};
use api_meta::{Fault, LastError, LastOperation, LastOperationState, LastOperationType, OperationReport, Problem};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Resource;

use crate::outcome::{codes, create_or_reconcile, deletion_waits};

/// The fields that the status of each of these kinds has.
pub(super) struct Parts<'s> {
    observed_generation: &'s mut Option<i64>,
    last_operation: &'s mut Option<LastOperation>,
    last_error: &'s mut Option<LastError>,
}

/// A kind of the garden that has them.
pub(super) trait Reports: Resource<DynamicType = ()> {
    fn parts(&mut self) -> Parts<'_>;

    /// Whether its extension has succeeded with what it is now.
    fn is_content(&self) -> bool;
}

macro_rules! reports {
    ($kind:ty) => {
        impl Reports for $kind {
            fn parts(&mut self) -> Parts<'_> {
                let status = self.status.get_or_insert_default();
                Parts {
                    observed_generation: &mut status.observed_generation,
                    last_operation: &mut status.last_operation,
                    last_error: &mut status.last_error,
                }
            }

            fn is_content(&self) -> bool {
                self.status.as_ref().is_some_and(|status| {
                    let last = status.last_operation.as_ref();
                    last.is_some_and(|last| last.state == LastOperationState::Succeeded)
                        && status.last_error.is_none()
                        && status.observed_generation == self.metadata.generation
                })
            }
        }
    };
}

reports!(BackupBucket);
reports!(BackupEntry);

/// Writes into `object` what came of a turn. A repeated success is not written again.
pub(super) fn write_outcome<K: Reports>(object: &mut K, result: Result<(), &Fault>, now: Timestamp) {
    let (generation, deleting) = (object.meta().generation, object.meta().deletion_timestamp.is_some());
    let settled = object.is_content();
    let Parts {
        observed_generation,
        last_operation,
        last_error,
    } = object.parts();
    *observed_generation = generation;
    if result.is_ok() && settled {
        return;
    }
    let type_ = match deleting {
        true => LastOperationType::Delete,
        false => create_or_reconcile(last_operation.as_ref()),
    };
    let (last, error) = outcome(type_, &K::kind(&()), result, now);
    *last_operation = Some(last);
    *last_error = error;
    let errors = result.err().map(|fault| Problem::of(None, fault, codes(fault)));
    report(object, errors.into_iter().collect());
}

/// Writes the same as data, for gardenlets that wait for the object.
fn report<K: Reports>(object: &mut K, errors: Vec<Problem>) {
    let parts = object.parts();
    let (generation, last) = (*parts.observed_generation, parts.last_operation.clone());
    let report = OperationReport {
        errors,
        ..OperationReport::default()
    };
    report.put(&mut object.meta_mut().annotations, generation, last.as_ref());
}

/// Writes into `object` that its deletion waits, and for what. An unchanged report is not written again.
pub(super) fn waits<K: Reports>(object: &mut K, description: String, now: Timestamp) {
    let generation = object.meta().generation;
    let parts = object.parts();
    *parts.observed_generation = generation;
    *parts.last_error = None;
    deletion_waits(parts.last_operation, description, now);
    report(object, Vec::new());
}

/// `lastOperation` and `lastError` after a turn.
fn outcome(
    type_: LastOperationType,
    kind: &str,
    result: Result<(), &Fault>,
    now: Timestamp,
) -> (LastOperation, Option<LastError>) {
    let (state, progress, description) = match result {
        Ok(()) => (
            LastOperationState::Succeeded,
            100,
            format!("{kind} has been successfully reconciled."),
        ),
        Err(fault) => (LastOperationState::Error, 50, fault.text_with_hint()),
    };
    let error = result.err().map(|fault| LastError {
        description: fault.text_with_hint(),
        task_id: None,
        codes: codes(fault),
        last_update_time: Some(Time(now)),
    });
    (
        LastOperation {
            description,
            last_update_time: Time(now),
            progress,
            state,
            type_,
        },
        error,
    )
}
