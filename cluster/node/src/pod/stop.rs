//! Ending: containers are asked to stop, sidecars after the others, and killed when their time is up. It never decides
//! whether a container runs again.

use std::time::Duration;

use tokio::time::Instant;

use super::status::{DEADLINE_EXCEEDED, DEADLINE_PASSED};
use super::{Ending, GRACE_SECONDS, PodRunner, Why};
use crate::Exit;
use crate::events::EventType;

impl PodRunner {
    /// Asks all containers to stop. A second call can only shorten the time they have, except that a pod that is gone
    /// or deleted says more than a node that stops.
    pub(super) async fn end(&mut self, why: Why, grace: Duration) {
        let deadline = Instant::now() + grace;
        if let Some(ending) = &mut self.ending {
            ending.deadline = ending.deadline.min(deadline);
            if why != Why::NodeStops {
                ending.why = why;
            }
            let stopping = self.slots.iter_mut().filter_map(|slot| slot.run.as_mut());
            for run in stopping {
                run.kill_at = run.kill_at.map(|at| at.min(deadline));
            }
            return;
        }
        self.ending = Some(Ending { why, deadline });
        self.stop_all(deadline).await;
    }

    /// Asks all but the sidecars to stop; these follow when the others have.
    async fn stop_all(&mut self, deadline: Instant) {
        for index in 0..self.slots.len() {
            if !self.slots[index].sidecar {
                self.stop_run(index, deadline, None).await;
            }
        }
        self.stop_sidecars().await;
    }

    /// Whether the ordinary containers have ended and will not be started again.
    pub(super) fn mains_are_over(&self) -> bool {
        let mut mains = self.slots.iter().filter(|slot| slot.is_main());
        mains.all(super::Slot::is_over)
    }

    /// Asks the last sidecar to stop once nothing needs it any more.
    pub(super) async fn stop_sidecars(&mut self) {
        let ends = self.ending.is_some() || self.expired || self.mains_are_over();
        let needed = self.slots.iter().any(|slot| !slot.sidecar && slot.is_running());
        if !ends || needed {
            return;
        }
        let own = Instant::now() + self.grace();
        let deadline = self.ending.as_ref().map_or(own, |ending| ending.deadline);
        while let Some(last) = self.slots.iter().rposition(|slot| slot.sidecar && slot.is_running()) {
            self.stop_run(last, deadline, None).await;
            if self.slots[last].is_running() {
                return;
            }
        }
    }

    /// The time that the pod's containers have to stop.
    pub(super) fn grace(&self) -> Duration {
        let seconds = self
            .pod
            .spec
            .as_ref()
            .and_then(|spec| spec.termination_grace_period_seconds);
        Duration::from_secs(u64::try_from(seconds.unwrap_or(GRACE_SECONDS)).unwrap_or(0))
    }

    /// Asks one container to stop, unless it is asked already. `message`: the text of the event; by default that of a
    /// deletion.
    pub(super) async fn stop_run(&mut self, index: usize, deadline: Instant, message: Option<String>) {
        let Some(run) = &mut self.slots[index].run else { return };
        if run.kill_at.is_some() {
            return;
        }
        run.kill_at = Some(deadline);
        let simulated = run.task.is_none();
        let stop = run.stop.clone();
        let container = &self.slots[index].container;
        let name = container.name.clone();
        let handler = container
            .lifecycle
            .as_ref()
            .and_then(|lifecycle| lifecycle.pre_stop.clone());
        match handler
            .filter(|_| !simulated)
            .and_then(|handler| self.hook(index, &handler))
        {
            Some(hook) => {
                self.hooks.spawn(async move {
                    // It has no more time than its container.
                    let _ = tokio::time::timeout_at(deadline, hook).await;
                    stop.cancel();
                });
            }
            None => stop.cancel(),
        }
        let deleted = self.ending.as_ref().is_some_and(|ending| ending.why == Why::Deleted);
        let message = message.or_else(|| deleted.then(|| format!("Stopping container {name}")));
        if let Some(message) = message {
            self.record(EventType::Normal, "Killing", Some(&name), &message).await;
        }
        if simulated {
            self.note_end(index, Exit::done()).await;
        }
    }

    /// Kills the containers whose time is over.
    pub(super) fn kill_due(&mut self, now: Instant) {
        for run in self.slots.iter_mut().filter_map(|slot| slot.run.as_mut()) {
            if let (Some(task), false, Some(true)) = (&run.task, run.killed, run.kill_at.map(|at| at <= now)) {
                task.abort();
                run.killed = true;
            }
        }
    }

    /// When the pod has run for as long as it may.
    pub(super) fn expires_at(&self) -> Option<Instant> {
        let seconds = self.pod.spec.as_ref()?.active_deadline_seconds?;
        let whole = Duration::from_secs(u64::try_from(seconds).ok()?);
        let left = whole.saturating_sub(self.host.clock.since(self.started));
        Some(Instant::now() + left)
    }

    /// Ends a pod that has run for as long as it may.
    pub(super) async fn expire(&mut self) {
        let passed = self.expires_at().is_some_and(|at| at <= Instant::now());
        if !passed || self.expired || self.over || self.ending.is_some() {
            return;
        }
        self.expired = true;
        self.record(EventType::Normal, DEADLINE_EXCEEDED, None, DEADLINE_PASSED)
            .await;
        self.stop_all(Instant::now() + self.grace()).await;
    }
}
