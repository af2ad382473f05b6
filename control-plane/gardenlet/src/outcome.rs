//! What Seeds, Shoots, buckets and entries report in the same form of an operation and its errors.

use std::future::Future;

use api_meta::{ErrorCode, Fault, FaultClass, LastOperation, LastOperationState, LastOperationType};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Create until it has succeeded once (rule of gardener/gardener v1.150 `ComputeOperationType`).
pub(crate) fn create_or_reconcile(last: Option<&LastOperation>) -> LastOperationType {
    let created =
        |last: &LastOperation| last.type_ != LastOperationType::Create || last.state == LastOperationState::Succeeded;
    match last.is_some_and(created) {
        true => LastOperationType::Reconcile,
        false => LastOperationType::Create,
    }
}

/// The fault's codes; a user's mistake has one even if none was set.
pub(crate) fn codes(fault: &Fault) -> Vec<ErrorCode> {
    match (fault.codes.as_slice(), fault.class) {
        ([], FaultClass::User) => vec![ErrorCode::ConfigurationProblem],
        (codes, _) => codes.to_vec(),
    }
}

/// Does all of them side by side, each to its end, because none may hide what becomes of the others. Gives what they give,
/// in their order.
///
/// # Errors
/// Those of all that failed, joined.
pub(crate) async fn all<T, W>(works: impl IntoIterator<Item = W>) -> Result<Vec<T>, Fault>
where
    W: Future<Output = Result<T, Fault>>,
{
    let (mut given, mut faults) = (Vec::new(), Vec::new());
    for ended in futures::future::join_all(works).await {
        match ended {
            Ok(one) => given.push(one),
            Err(fault) => faults.push(fault),
        }
    }
    Fault::check_none(faults)?;
    Ok(given)
}

/// Writes that a deletion waits, and for what. An unchanged report is not written again.
pub(crate) fn deletion_waits(last: &mut Option<LastOperation>, description: String, now: Timestamp) {
    let is_written = |last: &LastOperation| {
        (&last.type_, &last.state) == (&LastOperationType::Delete, &LastOperationState::Processing)
            && last.description == description
    };
    if !last.as_ref().is_some_and(is_written) {
        *last = Some(LastOperation {
            description,
            last_update_time: Time(now),
            progress: 0,
            state: LastOperationState::Processing,
            type_: LastOperationType::Delete,
        });
    }
}
