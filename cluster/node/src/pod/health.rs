//! Runs probes, and acts on their results. When each is run and what counts is decided in `probe`.

use tokio::time::Instant;

use super::PodRunner;
use super::probe::{Kind, ProbeAction};
use crate::events::EventType;

/// The result of a probe of one run.
pub(super) struct Answer {
    slot: usize,
    run: u64,
    kind: Kind,
    outcome: Result<(), String>,
}

impl PodRunner {
    /// Runs every probe that is due.
    pub(super) fn run_probes(&mut self, now: Instant) {
        let Some(ip) = self.ip() else { return };
        for (slot, holder) in self.slots.iter_mut().enumerate() {
            let Some(run) = holder
                .run
                .as_mut()
                .filter(|run| run.kill_at.is_none() && !run.in_post_start)
            else {
                continue;
            };
            let number = run.number;
            for due in run.probes.take_due(now) {
                let probe = due.handler.run(self.host.network.clone(), ip, run.commands.clone());
                self.probing.spawn(async move {
                    let outcome = tokio::time::timeout(due.timeout, probe).await;
                    Answer {
                        slot,
                        run: number,
                        kind: due.kind,
                        outcome: outcome.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())),
                    }
                });
            }
        }
    }

    /// Takes an answer; one about a run that is over or stops is ignored.
    pub(super) async fn answered(&mut self, answer: Answer) {
        let Answer {
            slot,
            run: number,
            kind,
            outcome,
        } = answer;
        let name = self.slots[slot].container.name.clone();
        let run = self.slots[slot].run.as_mut();
        let Some(run) = run.filter(|run| run.number == number && run.kill_at.is_none()) else {
            return;
        };
        let restart = match run.probes.answered(kind, outcome.is_ok(), Instant::now()) {
            ProbeAction::Restart(grace) => {
                run.unhealthy = true;
                Some(grace)
            }
            ProbeAction::GoOn => None,
        };
        if let Err(why) = outcome {
            let message = format!("{} probe failed: {why}", kind.title());
            self.record(EventType::Warning, "Unhealthy", Some(&name), &message)
                .await;
        }
        if let Some(grace) = restart {
            let what = kind.title().to_lowercase();
            let message = format!("Container {name} failed {what} probe, will be restarted");
            let deadline = Instant::now() + grace.unwrap_or_else(|| self.grace());
            self.stop_run(slot, deadline, Some(message)).await;
        }
    }
}
