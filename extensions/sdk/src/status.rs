//! How the common status moves. Pure functions, and one writer that keeps what others wrote.

use api_extensions::ExtensionObject;
use api_meta::conditions::{ACTION_REQUIRED, ERROR_REPORTED};
use api_meta::{Condition, ConditionStatus, Fault, FaultClass, LastError, LastOperation, LastOperationState};
use base_client::{patch_status_if_changed, read_again};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Api;

use crate::context::title;
use crate::operation::{Operation, requested_at};
use crate::outcome::{Outcome, Saved};

/// Progress when work has begun, in percent (upstream's value).
const PROGRESS_BEGUN: i32 = 1;
/// Progress shown when it failed (upstream's value).
const PROGRESS_FAILED: i32 = 50;
/// How often a status is rewritten on a fresh copy when others keep writing it.
pub(crate) const ATTEMPTS_MAX: usize = 5;

/// Writes what `edit` changes in the status of `object`; on a conflict on a fresh copy again.
pub(crate) async fn edit_status<K: ExtensionObject>(
    api: &Api<K>,
    object: &K,
    edit: impl Fn(&mut K) + Send,
) -> Result<K, Fault> {
    let mut before = object.clone();
    let mut attempt = 1;
    loop {
        let mut after = before.clone();
        edit(&mut after);
        match patch_status_if_changed(api, &before, &after).await {
            Ok(written) => return Ok(written.unwrap_or(before)),
            Err(fault) if fault.class == FaultClass::Transient && attempt < ATTEMPTS_MAX => attempt += 1,
            Err(fault) => return Err(fault),
        }
        before = read_again(api, object).await?.ok_or_else(|| gone(object))?;
    }
}

/// The fault of a write to an object that no longer exists.
pub(crate) fn gone<K: ExtensionObject>(object: &K) -> Fault {
    Fault::transient(format!("{} was deleted meanwhile", title(object)))
}

fn last_operation(
    operation: Operation,
    state: LastOperationState,
    progress: i32,
    text: String,
    now: Timestamp,
) -> LastOperation {
    LastOperation {
        description: text,
        last_update_time: Time(now),
        progress,
        state,
        type_: operation.type_(),
    }
}

/// No answer is older than its request: gardenlet would wait for another one, for as long as a clock was put back.
fn answered<K: ExtensionObject>(object: &K, now: Timestamp) -> Timestamp {
    requested_at(object).map_or(now, |requested| now.max(requested))
}

/// Work has begun. The last error stays until an attempt succeeds, the observed generation until one ends.
pub(crate) fn begin<K: ExtensionObject>(object: &mut K, operation: Operation, now: Timestamp) {
    let text = format!("{} the {}", operation.under_way(), K::ROW.noun());
    let now = answered(object, now);
    let status = object.common_status();
    *status.last_operation = Some(last_operation(
        operation,
        LastOperationState::Processing,
        PROGRESS_BEGUN,
        text,
        now,
    ));
}

/// Work goes on and waits for something.
pub(crate) fn show<K: ExtensionObject>(object: &mut K, text: &str, now: Timestamp) {
    let now = answered(object, now);
    if let Some(last) = object.common_status().last_operation
        && last.state == LastOperationState::Processing
        && last.description != text
    {
        text.clone_into(&mut last.description);
        last.last_update_time = Time(now);
    }
}

/// Work has failed with `fault`. Its hint goes with it, in the text for people and as a condition for programs: whoever reads
/// the status may know no other.
pub(crate) fn fail<K: ExtensionObject>(
    object: &mut K,
    operation: Operation,
    generation: i64,
    fault: &Fault,
    now: Timestamp,
) {
    let text = format!(
        "Error {} {}: {}",
        operation.under_way().to_lowercase(),
        K::ROW.noun(),
        fault.text_with_hint()
    );
    let now = answered(object, now);
    let status = object.common_status();
    *status.last_error = Some(LastError {
        description: text.clone(),
        task_id: None,
        codes: fault.codes.clone(),
        last_update_time: Some(Time(now)),
    });
    match fault.hint.as_str() {
        "" => status.conditions.retain(|one| one.type_ != ACTION_REQUIRED),
        hint => {
            let condition = Condition::new(ACTION_REQUIRED, ConditionStatus::True, ERROR_REPORTED, hint, now);
            condition.put_into(status.conditions);
        }
    }
    *status.last_operation = Some(last_operation(
        operation,
        LastOperationState::Error,
        PROGRESS_FAILED,
        text,
        now,
    ));
    *status.observed_generation = Some(generation);
}

/// Work has succeeded.
pub(crate) fn succeed<K: ExtensionObject>(object: &mut K, operation: Operation, generation: i64, now: Timestamp) {
    let text = format!("Successfully {} {}", operation.done(), K::ROW.noun());
    let now = answered(object, now);
    let status = object.common_status();
    *status.last_error = None;
    status.conditions.retain(|one| one.type_ != ACTION_REQUIRED);
    *status.last_operation = Some(last_operation(operation, LastOperationState::Succeeded, 100, text, now));
    *status.observed_generation = Some(generation);
}

/// The operation goes on later, and has nothing to complain of: gardenlet takes an error of an earlier attempt for one of this.
pub(crate) fn rest<K: ExtensionObject>(object: &mut K, reason: &str, now: Timestamp) {
    let status = object.common_status();
    *status.last_error = None;
    status.conditions.retain(|one| one.type_ != ACTION_REQUIRED);
    show(object, reason, now);
}

/// Writes what an actuator reports.
pub(crate) fn put_outcome<K: ExtensionObject>(object: &mut K, outcome: &Outcome<K>) {
    let Outcome {
        provider_status,
        state,
        resources,
        conditions,
        own,
    } = outcome.clone();
    let saved = Saved {
        state,
        provider_status,
        resources,
    };
    put_saved(object, &saved);
    let status = object.common_status();
    for condition in conditions {
        condition.put_into(status.conditions);
    }
    if let Some(own) = own.or_default() {
        object.set_own(own);
    }
}

/// Writes what is left to a successor.
pub(crate) fn put_saved<K: ExtensionObject>(object: &mut K, saved: &Saved) {
    let Saved {
        state,
        provider_status,
        resources,
    } = saved.clone();
    let status = object.common_status();
    state.put_into(status.state);
    provider_status.put_into(status.provider_status);
    if let Some(resources) = resources.or_default() {
        *status.resources = resources;
    }
}

#[cfg(test)]
mod tests {
    use api_extensions::{Infrastructure, InfrastructureOwn};
    use api_meta::{ErrorCode, RawJson, annotations};

    use super::*;
    use crate::outcome::Change;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn no_answer_is_older_than_its_request_though_the_clock_was_put_back() {
        let mut object = Infrastructure::default();
        let notes = [(annotations::TIMESTAMP.to_owned(), at(50).to_string())];
        object.metadata.annotations = Some(notes.into());
        let stamped = |object: &mut Infrastructure| {
            let status = object.common_status();
            status.last_operation.as_ref().map(|last| last.last_update_time.0)
        };
        begin(&mut object, Operation::Reconcile, at(1));
        assert_eq!(stamped(&mut object), Some(at(50)));
        fail(&mut object, Operation::Reconcile, 1, &Fault::bug("b"), at(2));
        assert_eq!(stamped(&mut object), Some(at(50)));
        succeed(&mut object, Operation::Reconcile, 1, at(51));
        assert_eq!(stamped(&mut object), Some(at(51)));
    }

    #[test]
    fn the_hint_is_a_condition_as_long_as_the_error_exists() {
        let mut object = Infrastructure::default();
        let action_required = |object: &mut Infrastructure| {
            let status = object.common_status();
            let found = Condition::find(status.conditions, ACTION_REQUIRED);
            found.map(|one| (one.status.clone(), one.message.clone()))
        };
        let fault = Fault::user("no such zone").hint("name another zone");
        fail(&mut object, Operation::Create, 1, &fault, at(1));
        let expected = Some((ConditionStatus::True, "name another zone".to_owned()));
        assert_eq!(action_required(&mut object), expected);
        begin(&mut object, Operation::Create, at(2));
        assert_eq!(action_required(&mut object), expected, "as the error itself");
        fail(&mut object, Operation::Create, 1, &Fault::user("no"), at(3));
        assert_eq!(action_required(&mut object), None);
        fail(&mut object, Operation::Create, 1, &fault, at(4));
        succeed(&mut object, Operation::Create, 1, at(5));
        assert_eq!(action_required(&mut object), None);
    }

    #[test]
    fn an_error_stays_until_an_attempt_succeeds_and_raw_status_keeps_its_bytes() {
        let mut object = Infrastructure::default();
        let fault = Fault::quota("no more cores").code(ErrorCode::InfraQuotaExceeded);
        fail(&mut object, Operation::Create, 3, &fault, at(1));
        begin(&mut object, Operation::Create, at(2));
        let status = object.common_status();
        assert_eq!(
            status.last_error.as_ref().unwrap().codes,
            [ErrorCode::InfraQuotaExceeded]
        );
        assert_eq!(*status.observed_generation, Some(3));
        assert_eq!(status.last_operation.as_ref().unwrap().progress, 1);

        let raw = r#"{"z": 9007199254740993, "a":"\u00e9"}"#;
        let outcome = Outcome::<Infrastructure> {
            provider_status: Change::Set(RawJson::parse(raw).unwrap()),
            ..Outcome::own(InfrastructureOwn {
                nodes_cidr: Some("10.0.0.0/16".into()),
                ..Default::default()
            })
        };
        put_outcome(&mut object, &outcome);
        succeed(&mut object, Operation::Create, 4, at(3));
        let status = object.common_status();
        assert_eq!(*status.last_error, None);
        assert_eq!(*status.observed_generation, Some(4));
        assert_eq!(
            status.last_operation.as_ref().unwrap().description,
            "Successfully created infrastructure"
        );
        let printed = serde_json::to_string(&object).unwrap();
        assert!(printed.contains(raw), "{printed}");
    }
}
