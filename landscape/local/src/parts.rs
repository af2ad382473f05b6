//! The tasks of a landscape: started, started again when they end too early, and ended together.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use futures::FutureExt;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// The pause before a part is started again: what made it end, such as a server that is being restarted, may take a while.
const RESTART_AFTER: Duration = Duration::from_secs(10);

/// The running tasks.
#[derive(Clone, Default)]
pub(crate) struct Parts {
    pub(crate) stop: CancellationToken,
    tasks: TaskTracker,
    states: Arc<Mutex<BTreeMap<String, State>>>,
}

/// The state of a part that has not ended for good.
enum State {
    Running,
    /// It ended for this reason and is to be started again.
    Down(String),
}

impl Parts {
    /// Runs a part until the landscape stops. One that ends before, fails or panics is started again, as a Deployment or a
    /// machine's supervisor would; until then the landscape is not ready. `start` is given what tells the part to end.
    pub(crate) fn spawn<F>(&self, name: impl Into<String>, start: impl Fn(CancellationToken) -> F + Send + 'static)
    where
        F: Future<Output = Result<(), Fault>> + Send,
    {
        let (parts, name) = (self.clone(), name.into());
        parts.states().insert(name.clone(), State::Running);
        self.tasks.spawn(async move {
            loop {
                // What an ended start has left running ends with it.
                let until = parts.stop.child_token().drop_guard();
                // It may also panic before there is a future.
                let started = panic::catch_unwind(AssertUnwindSafe(|| start(until.token().clone())));
                let ended = match started {
                    Ok(running) => AssertUnwindSafe(running).catch_unwind().await,
                    Err(panic) => Err(panic),
                };
                drop(until);
                if parts.stop.is_cancelled() {
                    tracing::debug!(part = name, "ended");
                    break;
                }
                let why = match ended {
                    Ok(Ok(())) => "it ended by itself".to_owned(),
                    Ok(Err(fault)) => fault.chain(),
                    Err(_) => "it panicked, which is a bug; the line above has the place".to_owned(),
                };
                tracing::error!("{name} ended, it is started again in {RESTART_AFTER:?}: {why}");
                parts.states().insert(name.clone(), State::Down(why));
                let pause = tokio::time::sleep(RESTART_AFTER);
                if parts.stop.run_until_cancelled(pause).await.is_none() {
                    break;
                }
                parts.states().insert(name.clone(), State::Running);
            }
            parts.states().remove(&name);
        });
    }

    /// Ends all parts and waits for them.
    pub(crate) async fn end(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Names of the parts that have not ended for good.
    pub(crate) fn left(&self) -> Vec<String> {
        self.states().keys().cloned().collect()
    }

    /// A part that is down, and why.
    pub(crate) fn first_down(&self) -> Option<String> {
        self.states().iter().find_map(|(name, state)| match state {
            State::Running => None,
            State::Down(why) => Some(format!("{name} is down and will be started again: {why}")),
        })
    }

    fn states(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
        self.states.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_part_that_ends_fails_or_panics_is_down_until_restarted() {
        let (parts, starts) = (Parts::default(), AtomicU32::new(0));
        let (started, mut starting) = mpsc::unbounded_channel();
        parts.spawn("test", move |stop| {
            let start = starts.fetch_add(1, Ordering::Relaxed);
            started.send(start).unwrap();
            assert_ne!(start, 0, "the first start panics before there is a future");
            async move {
                match start {
                    1 => Err(Fault::dependency("no connection")),
                    2 => Ok(()),
                    _ => {
                        stop.cancelled().await;
                        Ok(())
                    }
                }
            }
        });
        for (start, why) in ["panicked", "no connection", "ended by itself"].into_iter().enumerate() {
            assert_eq!(starting.recv().await, Some(start as u32));
            tokio::task::yield_now().await;
            let down = parts.first_down().unwrap();
            assert!(down.starts_with("test is down") && down.contains(why), "{down}");
        }
        assert_eq!(starting.recv().await, Some(3));
        assert_eq!(parts.first_down(), None);
        assert_eq!(parts.left(), ["test"]);
        parts.end().await;
        assert!(parts.left().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_landscape_that_stops_does_not_wait_for_a_restart() {
        let parts = Parts::default();
        parts.spawn("test", |_| async { Err(Fault::dependency("never")) });
        tokio::task::yield_now().await;
        assert!(parts.first_down().is_some());
        let begun = tokio::time::Instant::now();
        parts.end().await;
        assert_eq!(begun.elapsed(), Duration::ZERO);
    }
}
