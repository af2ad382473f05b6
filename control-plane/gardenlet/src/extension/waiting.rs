//! What a run waits for at the moment. Filled by waits, read by the progress
//! report; each is an event of its task as well.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::{Subject, Wait};
use base_clock::Clock;
use jiff::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Waits shorter than this are not worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(10);

/// The waits of one run.
#[derive(Debug)]
pub(crate) struct Waiting {
    clock: Clock,
    open: Mutex<BTreeMap<Subject, Open>>,
    changed: Notify,
}

#[derive(Debug)]
struct Open {
    task: &'static str,
    begun: Instant,
    since: Timestamp,
    reason: String,
}

impl Waiting {
    /// Nothing is waited for yet.
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            open: Mutex::default(),
            changed: Notify::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Subject, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The running task waits for `subject`, because of this.
    pub(crate) fn note(&self, subject: &Subject, reason: &str) {
        let mut open = self.lock();
        let begin = || Open {
            task: base_flow_run::current_task().unwrap_or_default(),
            begun: Instant::now(),
            since: self.clock.now(),
            reason: String::new(),
        };
        let wait = open.entry(subject.clone()).or_insert_with(begin);
        // A wait that was cut off, by its task's time-out or its panic, has not ended by a word of its own.
        if base_flow_run::current_task().is_some_and(|task| task != wait.task) {
            *wait = begin();
        }
        if wait.reason != reason {
            base_flow_run::waits_for(&subject.to_string(), reason);
            reason.clone_into(&mut wait.reason);
            self.changed.notify_one();
        }
    }

    /// The wait is over.
    pub(crate) fn over(&self, subject: &Subject) {
        if self.lock().remove(subject).is_some() {
            base_flow_run::wait_over(&subject.to_string());
            self.changed.notify_one();
        }
    }

    /// What these tasks have waited for long enough for it to be reported.
    pub(crate) fn long(&self, running: &[String]) -> Vec<Wait> {
        let is_long =
            |open: &Open| open.begun.elapsed() >= WORTH_A_WORD && running.iter().any(|task| task == open.task);
        self.lock()
            .iter()
            .filter(|(_, open)| is_long(open))
            .map(|(subject, open)| Wait {
                task: open.task.to_owned(),
                subject: subject.clone(),
                reason: open.reason.clone(),
                since: open.since,
            })
            .collect()
    }

    /// Returns when [`Waiting::long`] may give something else than before.
    pub(crate) async fn changed(&self) {
        let next = self
            .lock()
            .values()
            .map(|open| open.begun + WORTH_A_WORD)
            .filter(|at| *at > Instant::now())
            .min();
        let ripe = async {
            match next {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = self.changed.notified() => {}
            () = ripe => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use api_meta::ObjectName;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_long_waits_are_reported_with_their_last_reason() {
        let waiting = Waiting::new(Clock::simulated(Timestamp::UNIX_EPOCH));
        let began = waiting.clock.now();
        // Outside of a run, tasks have no name.
        let running = [String::new()];
        let worker = Subject::Object(ObjectName::new("Worker", Some("a"), "b"));
        waiting.note(&worker, "not picked up");
        assert_eq!(waiting.long(&running), []);
        tokio::time::sleep(Duration::from_secs(6)).await;
        waiting.note(&worker, "state Processing");
        waiting.changed().await;
        let before = Instant::now();
        waiting.changed().await;
        assert_eq!(
            before.elapsed(),
            Duration::from_secs(4),
            "reported ten seconds after its beginning"
        );
        let expected = Wait {
            task: String::new(),
            subject: worker.clone(),
            reason: "state Processing".to_owned(),
            since: began,
        };
        assert_eq!(waiting.long(&running), [expected]);
        assert_eq!(waiting.long(&["another task".to_owned()]), [], "cut off");
        waiting.over(&worker);
        assert_eq!(waiting.long(&running), []);
    }
}
