//! The status of a garden object on whose behalf an extension object was worked on.

use api_meta::{Fault, FaultClass, LastError, LastOperation, LastOperationState, LastOperationType};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// `lastOperation` and `lastError` after a turn.
pub(crate) fn outcome(
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
        Err(fault) => (LastOperationState::Error, 50, fault.chain()),
    };
    let error = result.err().map(|fault| LastError {
        description: fault.chain(),
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

fn codes(fault: &Fault) -> Vec<api_meta::ErrorCode> {
    match (fault.codes.as_slice(), fault.class) {
        ([], FaultClass::User) => vec![api_meta::ErrorCode::ConfigurationProblem],
        (codes, _) => codes.to_vec(),
    }
}

/// Create until it has succeeded once.
pub(crate) fn type_of(last: Option<&LastOperation>, deleting: bool) -> LastOperationType {
    match last {
        _ if deleting => LastOperationType::Delete,
        None => LastOperationType::Create,
        Some(last) if last.type_ == LastOperationType::Create && last.state != LastOperationState::Succeeded => {
            LastOperationType::Create
        }
        Some(_) => LastOperationType::Reconcile,
    }
}
