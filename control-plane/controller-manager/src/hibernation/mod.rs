//! Hibernation schedules (gardener/gardener v1.150 pkg/controllermanager/controller/shoot/hibernation): at each event of
//! `spec.hibernation.schedules` it sets `spec.hibernation.enabled`. What follows is gardenlet's work.
//!
//! There is nothing to observe beside the Shoot itself. What a person changes between two events stays until the next.

mod apply;
mod plan;

use std::sync::Arc;
use std::time::Duration;

use api_core::v1beta1::{HibernationSchedule, Shoot};
use api_meta::Fault;
use base_controller::{Controller, Next};
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::context::Context;

/// How late an event may be acted on: Gardener's default of `triggerDeadlineDuration`.
const TRIGGER_DEADLINE: SignedDuration = SignedDuration::from_hours(2);
/// Added to each wait, so that a clock that is set back a little does not wake the controller before the event.
const PADDING: Duration = Duration::from_millis(100);
/// Longest wait. Timers stand still while a machine sleeps and do not follow a wall clock that is set; a look within
/// [`TRIGGER_DEADLINE`] finds the event that was missed.
const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// Follows the schedules of all Shoots.
pub(crate) async fn run(context: Context, stop: CancellationToken) {
    Controller::new("shoot-hibernation", context.caches.shoots.clone())
        .when(|old, new| !schedules(new).is_empty() && old.is_none_or(|old| schedules(old) != schedules(new)))
        .run(stop, move |shoot| {
            let context = context.clone();
            async move { reconcile(&context, &shoot).await }
        })
        .await;
}

fn schedules(shoot: &Shoot) -> &[HibernationSchedule] {
    let hibernation = shoot.spec.hibernation.as_ref();
    hibernation.map_or(&[], |hibernation| &hibernation.schedules)
}

async fn reconcile(context: &Context, shoot: &Arc<Shoot>) -> Result<Next, Fault> {
    let now = context.clock.now();
    let plan = match plan::plan(shoot, TRIGGER_DEADLINE, now) {
        Ok(plan) => plan,
        Err(unreadable) => {
            // Only schedules that were stored before they were validated; a change of them calls again.
            tracing::warn!(shoot = %base_controller::ObjectKey::of(&**shoot), error = &unreadable as &dyn std::error::Error, "hibernation schedules cannot be read");
            return Ok(Next::Change);
        }
    };
    apply::apply(context, shoot, plan.act, now).await?;
    Ok(plan.next.map_or(Next::Change, |next| Next::After(wait(next, now))))
}

fn wait(next: Timestamp, now: Timestamp) -> Duration {
    let until = Duration::try_from(next.duration_since(now)).unwrap_or_default();
    until.saturating_add(PADDING).min(WAIT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_shortly_after_the_event_and_within_an_hour() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let after = |seconds| wait(now + SignedDuration::from_secs(seconds), now);
        assert_eq!(after(60), Duration::from_millis(60_100));
        assert_eq!(after(86_400), WAIT_MAX);
        assert_eq!(after(-5), PADDING);
        assert!(WAIT_MAX < Duration::try_from(TRIGGER_DEADLINE).unwrap());
    }
}
