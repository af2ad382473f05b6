//! Writes the decision of a hibernation schedule: first the spec, then the trigger time in the status. A crash between
//! the two repeats the decision; in the other order it would lose it.

use api_core::v1beta1::Shoot;
use api_meta::Fault;
use api_rules::HibernationOperation;
use base_client::{patch_changed, patch_status_if_changed};
use base_controller::EventType;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::{Api, ResourceExt};

use crate::context::Context;

/// Reasons of events, as Gardener's.
const HIBERNATED: &str = "Hibernated";
const WOKEN_UP: &str = "WokenUp";

pub(crate) async fn apply(
    context: &Context,
    shoot: &Shoot,
    act: Option<HibernationOperation>,
    now: Timestamp,
) -> Result<(), Fault> {
    let Some(operation) = act else { return Ok(()) };
    let api: Api<Shoot> = context.namespaced(&shoot.namespace().unwrap_or_default());
    let written = patch_changed(&api, shoot, &decided(shoot, operation)).await?;
    if written.is_some() {
        let (reason, message) = match operation {
            HibernationOperation::Hibernate => (HIBERNATED, "Hibernating cluster due to schedule"),
            HibernationOperation::WakeUp => (WOKEN_UP, "Waking up cluster due to schedule"),
        };
        context.recorder.record(shoot, EventType::Normal, reason, message).await;
    }
    let before = written.as_ref().unwrap_or(shoot);
    patch_status_if_changed(&api, before, &noted(before, now)).await?;
    Ok(())
}

/// The Shoot with the decision in its spec.
pub(super) fn decided(shoot: &Shoot, operation: HibernationOperation) -> Shoot {
    let mut after = shoot.clone();
    let hibernation = after.spec.hibernation.get_or_insert_default();
    hibernation.enabled = Some(operation == HibernationOperation::Hibernate);
    after
}

/// The Shoot with the moment of the decision in its status.
pub(super) fn noted(shoot: &Shoot, now: Timestamp) -> Shoot {
    let mut after = shoot.clone();
    after.status.get_or_insert_default().last_hibernation_trigger_time = Some(Time(now));
    after
}
