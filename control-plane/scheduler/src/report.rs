//! Says what became of a shoot: an event, and while no seed fits, `status.lastOperation`. It is written when it
//! changes, not each time the scheduler looks.

use api_core::v1beta1::{Shoot, ShootStatus};
use api_meta::{Fault, LastOperation, LastOperationState, LastOperationType};
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
            let Some(status) = pending(shoot.status.as_ref(), &message, context.clock.now()) else {
                return Ok(Next::Change);
            };
            let after = Shoot {
                status: Some(status),
                ..shoot.clone()
            };
            let api: Api<Shoot> = Api::namespaced(context.client.clone(), &shoot.namespace().unwrap_or_default());
            patch_status_if_changed(&api, shoot, &after).await?;
            context
                .recorder
                .record(shoot, EventType::Warning, FAILED, &message)
                .await;
        }
    }
    Ok(Next::Change)
}

/// The status with this message, or nothing if it says so already.
fn pending(before: Option<&ShootStatus>, message: &str, now: Timestamp) -> Option<ShootStatus> {
    let mut status = before.cloned().unwrap_or_default();
    if status
        .last_operation
        .as_ref()
        .is_some_and(|operation| operation.description == message)
    {
        return None;
    }
    status.last_operation = Some(LastOperation {
        description: message.to_owned(),
        last_update_time: Time(now),
        progress: 0,
        state: LastOperationState::Pending,
        type_: LastOperationType::Create,
    });
    Some(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_reason_is_written_once() {
        let now = Timestamp::from_second(1).unwrap();
        let first = pending(None, "Failed to schedule Shoot: no", now).unwrap();
        assert_eq!(
            first.last_operation.as_ref().unwrap().state,
            LastOperationState::Pending
        );
        assert_eq!(pending(Some(&first), "Failed to schedule Shoot: no", now), None);
        assert!(pending(Some(&first), "Failed to schedule Shoot: other", now).is_some());
    }
}
