//! What a run waits for at the moment, for whoever asks why nothing happens. Filled by waits, read by the progress
//! report; each is an event of its task as well.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Waits shorter than this are not worth a word.
const WORTH_A_WORD: Duration = Duration::from_secs(10);

/// The waits of one run.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    open: Mutex<BTreeMap<String, Wait>>,
    changed: Notify,
}

#[derive(Debug)]
struct Wait {
    since: Instant,
    reason: String,
}

impl Waiting {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Wait>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `title` is waited for, because of this.
    pub(crate) fn note(&self, title: &str, reason: &str) {
        let mut open = self.lock();
        let wait = open.entry(title.to_owned()).or_insert_with(|| Wait {
            since: Instant::now(),
            reason: String::new(),
        });
        if wait.reason != reason {
            base_flow_run::waits_for(title, reason);
            reason.clone_into(&mut wait.reason);
            self.changed.notify_one();
        }
    }

    /// The wait is over.
    pub(crate) fn over(&self, title: &str) {
        if self.lock().remove(title).is_some() {
            base_flow_run::wait_over(title);
            self.changed.notify_one();
        }
    }

    /// What has been waited for long enough to be told, as "Kind namespace/name: reason".
    pub(crate) fn told(&self) -> Vec<String> {
        let long = |wait: &Wait| wait.since.elapsed() >= WORTH_A_WORD;
        self.lock()
            .iter()
            .filter(|(_, wait)| long(wait))
            .map(|(title, wait)| format!("{title}: {}", wait.reason))
            .collect()
    }

    /// Returns when [`Waiting::told`] may say something else than before.
    pub(crate) async fn changed(&self) {
        let next = self
            .lock()
            .values()
            .map(|wait| wait.since + WORTH_A_WORD)
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
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn only_long_waits_are_told_with_their_last_reason() {
        let waiting = Waiting::default();
        waiting.note("Worker a/b", "not picked up");
        assert!(waiting.told().is_empty());
        tokio::time::sleep(Duration::from_secs(6)).await;
        waiting.note("Worker a/b", "state Processing");
        waiting.changed().await;
        let before = Instant::now();
        waiting.changed().await;
        assert_eq!(
            before.elapsed(),
            Duration::from_secs(4),
            "told ten seconds after its beginning"
        );
        assert_eq!(waiting.told(), ["Worker a/b: state Processing"]);
        waiting.over("Worker a/b");
        assert!(waiting.told().is_empty());
    }
}
