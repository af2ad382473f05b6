//! Says what became of a shoot: an event, and while no seed fits, `status.lastOperation` and beside it the reasons as data,
//! in one write. It is written when it changes, not each time the scheduler looks.

use api_core::v1beta1::{Shoot, ShootStatus};
use api_meta::{Fault, LastOperation, LastOperationState, LastOperationType, OperationReport, Unscheduled};
use base_client::patch_status_if_changed;
use base_controller::{EventType, Next};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};

use crate::Context;
use crate::apply::Done;

const SUCCESSFUL: &str = "SchedulingSuccessful";
const FAILED: &str = "SchedulingFailed";

pub(crate) async fn report(shoot: &Shoot, done: &Done, context: &Context) -> Result<Next, Fault> {
    match done {
        Done::Nothing => {}
        Done::Waiting(why) => tracing::debug!(shoot = shoot.name_any(), "waiting: {why}"),
        Done::Bound(seed) => {
            let message = format!("Scheduled to seed '{seed}'");
            context
                .recorder
                .record(shoot, EventType::Normal, SUCCESSFUL, &message)
                .await;
        }
        Done::Rejected(why) => {
            let message = format!("Failed to schedule Shoot: {why}");
            let Some(after) = pending(shoot, why, &message, context.clock.now()) else {
                return Ok(Next::Change);
            };
            let api: Api<Shoot> = Api::namespaced(context.client.clone(), &shoot.namespace().unwrap_or_default());
            patch_status_if_changed(&api, shoot, &after).await?;
            if !is_described(shoot.status.as_ref(), &message) {
                context
                    .recorder
                    .record(shoot, EventType::Warning, FAILED, &message)
                    .await;
            }
        }
    }
    Ok(Next::Change)
}

fn is_described(status: Option<&ShootStatus>, message: &str) -> bool {
    let last = status.and_then(|status| status.last_operation.as_ref());
    last.is_some_and(|last| last.description == message)
}

/// The Shoot with this message and its data, or nothing if it has both already. Where only the data is missing or damaged,
/// as in a status of an earlier version, it is added to the operation as it is.
fn pending(before: &Shoot, why: &Unscheduled, message: &str, now: Timestamp) -> Option<Shoot> {
    let mut after = before.clone();
    let status = after.status.get_or_insert_default();
    let annotations = &mut after.metadata.annotations;
    if is_described(Some(status), message) {
        let (generation, last) = (status.observed_generation, status.last_operation.as_ref());
        let known = OperationReport::current(annotations.as_ref(), generation, last);
        if known.and_then(|report| report.unscheduled).as_ref() == Some(why) {
            return None;
        }
    } else {
        status.last_operation = Some(LastOperation {
            description: message.to_owned(),
            last_update_time: Time(now),
            progress: 0,
            state: LastOperationState::Pending,
            type_: LastOperationType::Create,
        });
    }
    let report = OperationReport {
        unscheduled: Some(why.clone()),
        ..OperationReport::default()
    };
    report.put(annotations, status.observed_generation, status.last_operation.as_ref());
    Some(after)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api_meta::SeedMismatch;
    use api_meta::annotations::OPERATION_REPORT;

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn full(room: usize) -> Unscheduled {
        let mismatch = SeedMismatch::Full { shoots: room, room };
        Unscheduled::none_fits(BTreeMap::from([("a".to_owned(), mismatch)]))
    }

    fn reported(before: &Shoot, why: &Unscheduled, second: i64) -> Option<Shoot> {
        pending(before, why, &format!("Failed: {why}"), at(second))
    }

    #[test]
    fn the_same_reason_is_written_once() {
        let first = reported(&Shoot::default(), &full(3), 1).unwrap();
        let last = first.status.as_ref().unwrap().last_operation.as_ref().unwrap();
        assert_eq!(last.state, LastOperationState::Pending);
        assert_eq!(reported(&first, &full(3), 2), None);
        assert!(reported(&first, &full(4), 2).is_some());
    }

    #[test]
    fn missing_or_damaged_data_is_rewritten_beside_an_unchanged_operation() {
        let first = reported(&Shoot::default(), &full(3), 1).unwrap();
        let damaged = BTreeMap::from([(OPERATION_REPORT.to_owned(), "{".to_owned())]);
        for annotations in [None, Some(damaged)] {
            let mut old = first.clone();
            old.metadata.annotations = annotations;
            let mended = reported(&old, &full(3), 2).unwrap();
            assert_eq!(mended, first);
        }
    }
}
