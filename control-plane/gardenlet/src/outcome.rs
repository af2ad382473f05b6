//! What Shoots, buckets and entries say alike of an operation and of what went wrong with it.

use api_meta::{ErrorCode, Fault, FaultClass, LastOperation, LastOperationState, LastOperationType};

/// Create until it has succeeded once (rule of gardener/gardener v1.150 `ComputeOperationType`).
pub(crate) fn create_or_reconcile(last: Option<&LastOperation>) -> LastOperationType {
    let created =
        |last: &LastOperation| last.type_ != LastOperationType::Create || last.state == LastOperationState::Succeeded;
    match last.is_some_and(created) {
        true => LastOperationType::Reconcile,
        false => LastOperationType::Create,
    }
}

/// The fault's codes; a user's mistake has one even if nobody gave it.
pub(crate) fn codes(fault: &Fault) -> Vec<ErrorCode> {
    match (fault.codes.as_slice(), fault.class) {
        ([], FaultClass::User) => vec![ErrorCode::ConfigurationProblem],
        (codes, _) => codes.to_vec(),
    }
}
