//! Where charts are rendered: a template may use seconds of processor time before it is stopped, and the threads of the
//! runtime must go on meanwhile. It knows nothing of charts.

use std::num::NonZero;
use std::thread::available_parallelism;

use api_meta::Fault;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Renderings at the same time: they wait for nothing, so more than there are processors would only take memory.
fn renderings_max() -> usize {
    available_parallelism().map_or(1, NonZero::get)
}

/// Runs what takes the processor alone.
pub(crate) struct Rendering {
    turns: Semaphore,
}

impl Default for Rendering {
    fn default() -> Self {
        Self {
            turns: Semaphore::new(renderings_max()),
        }
    }
}

impl Rendering {
    /// Runs `work` on a thread of its own when it is its turn. A runtime of one thread, as simulations have, runs it in
    /// place: what other tasks do meanwhile would differ from run to run.
    ///
    /// # Errors
    /// It panicked, or the runtime is being shut down.
    pub(crate) async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Fault> {
        if Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread {
            return Ok(work());
        }
        let _turn = self.turns.acquire().await.map_err(Fault::bug)?;
        spawn_blocking(work).await.map_err(Fault::bug)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, mpsc};
    use std::time::Duration;

    use super::*;

    /// Real time: many times what a slow machine needs to go on with another task.
    const PATIENCE: Duration = Duration::from_secs(10);

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn other_tasks_go_on_while_a_chart_is_rendered() {
        let (sender, receiver) = mpsc::channel();
        let rendering = Rendering::default();
        let rendered = rendering.run(move || receiver.recv_timeout(PATIENCE));
        let (rendered, sent) = tokio::join!(rendered, async move { sender.send("meanwhile") });
        sent.unwrap();
        assert_eq!(rendered.unwrap(), Ok("meanwhile"));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn no_more_charts_are_rendered_at_once_than_there_are_processors() {
        let rendering = Rendering::default();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all = (0..4 * renderings_max()).map(|_| {
            let (running, most) = (running.clone(), most.clone());
            rendering.run(move || {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                running.fetch_sub(1, Ordering::SeqCst);
            })
        });
        let done = futures::future::join_all(all).await;
        assert!(done.iter().all(Result::is_ok));
        assert!(most.load(Ordering::SeqCst) <= renderings_max());
    }
}
