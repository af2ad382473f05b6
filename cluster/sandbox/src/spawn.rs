//! Two threads that live as long as the process: one starts helpers, one waits for helpers that are no longer in use.
//!
//! A helper is killed when the *thread* that started it ends, so no thread of a runtime's pool may start one.

use std::io;
use std::process::{Child, Command};
use std::sync::{OnceLock, mpsc};
use std::thread;

use tokio::sync::oneshot;

type Order = (Command, oneshot::Sender<io::Result<Child>>);

static STARTER: OnceLock<io::Result<mpsc::Sender<Order>>> = OnceLock::new();
static REAPER: OnceLock<Option<mpsc::Sender<Child>>> = OnceLock::new();

/// Starts a command. It outlives the thread that calls this, but not the process.
pub(crate) async fn spawn(command: Command) -> io::Result<Child> {
    let starter = STARTER.get_or_init(|| {
        let (orders, incoming) = mpsc::channel::<Order>();
        thread::Builder::new()
            .name("sandbox-start".to_owned())
            .spawn(move || {
                for (mut command, answer) in incoming {
                    let started = command.spawn();
                    // Its files are the helper's now; as long as they are open here, no end is seen.
                    drop(command);
                    if let Err(Ok(unwanted)) = answer.send(started) {
                        give_up(unwanted);
                    }
                }
            })
            .map(|_| orders)
    });
    let gone = || io::Error::other("the thread that starts helpers is gone");
    let starter = starter
        .as_ref()
        .map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (answer, started) = oneshot::channel();
    starter.send((command, answer)).map_err(|_| gone())?;
    started.await.map_err(|_| gone())?
}

/// Kills a helper and has it reaped.
pub(crate) fn give_up(mut child: Child) {
    child.kill().ok();
    reap(child);
}

/// Has a helper reaped that is about to end, on a thread of its own.
pub(crate) fn reap(child: Child) {
    let reaper = REAPER.get_or_init(|| {
        let (children, incoming) = mpsc::channel::<Child>();
        thread::Builder::new()
            .name("sandbox-reap".to_owned())
            .spawn(move || {
                for mut child in incoming {
                    child.wait().ok();
                }
            })
            .ok()
            .map(|_| children)
    });
    if let Some(reaper) = reaper {
        reaper.send(child).ok();
    }
}
