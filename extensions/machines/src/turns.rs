//! Turns of the machine controllers by namespace, so that whoever has machines left alone knows when the last turn that does not
//! know of it has ended.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// How many turns there are in each namespace. Clones count together.
#[derive(Clone, Default)]
pub(crate) struct Turns(Arc<Inner>);

#[derive(Default)]
struct Inner {
    running: Mutex<BTreeMap<String, usize>>,
    ended: Notify,
}

/// One turn; it ends when this is dropped.
pub(crate) struct Turn {
    turns: Turns,
    namespace: String,
}

impl Turns {
    fn running(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.0.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a turn. What it decides by must be looked at after that.
    pub(crate) fn begin(&self, namespace: &str) -> Turn {
        *self.running().entry(namespace.to_owned()).or_default() += 1;
        Turn {
            turns: self.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Waits until no turn runs in the namespace.
    pub(crate) async fn all_ended(&self, namespace: &str) {
        loop {
            // Made before looking, it hears what ends in between.
            let mut ended = std::pin::pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if !self.running().contains_key(namespace) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut running = self.turns.running();
        if let Some(count) = running.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                running.remove(&self.namespace);
                self.turns.0.ended.notify_waiters();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_namespace_is_quiet_once_its_last_turn_has_ended() {
        let turns = Turns::default();
        turns.all_ended("a").await;
        let (first, second, other) = (turns.begin("a"), turns.begin("a"), turns.begin("b"));
        let quiet = |namespace: &'static str| tokio::time::timeout(Duration::from_secs(60), turns.all_ended(namespace));
        assert!(quiet("a").await.is_err());
        drop(first);
        assert!(quiet("a").await.is_err(), "one is left");
        let ends = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            drop(second);
        };
        let (ended, ()) = tokio::join!(quiet("a"), ends);
        assert!(ended.is_ok());
        assert!(quiet("b").await.is_err());
        drop(other);
        assert!(turns.running().is_empty());
    }
}
