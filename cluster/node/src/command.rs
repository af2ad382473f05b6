//! Commands in a container, beside what its image stands for: probes, hooks, `kubectl exec`. The image runs them.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;

/// Runs commands in a container.
pub trait RunCommand: Send + Sync {
    /// Runs one to its end; dropping the future ends it. Errors: it could not be run, or it failed, in words for an event.
    fn run(&self, command: Vec<String>) -> BoxFuture<'static, Result<(), String>>;

    /// Starts one and hands out its streams. Errors: it could not be started, in words for the user at the terminal.
    fn start(
        &self,
        command: Vec<String>,
        streams: CommandStreams,
    ) -> BoxFuture<'static, Result<RunningCommand, String>>;
}

/// Which streams a command gets. Its standard output and error are always there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandStreams {
    /// Without, its standard input is empty.
    pub stdin: bool,
    /// All its streams are one terminal.
    pub terminal: bool,
}

/// A command that runs in a container.
pub struct RunningCommand {
    /// Its standard input, if it has one; dropped, the command reads its end.
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// What it prints; what a terminal shows.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// What it prints as errors. Nothing of a terminal.
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    /// Sets the size of its terminal.
    pub resize: Option<Box<dyn Fn(TerminalSize) + Send + Sync>>,
    /// Its exit code, 128 and the number for an end by a signal. Dropped, the command is killed. Errors: the end was not seen.
    pub ended: BoxFuture<'static, Result<i32, String>>,
}

/// The size of a terminal, in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct TerminalSize {
    /// Columns.
    pub width: u16,
    /// Rows.
    pub height: u16,
}

/// Where a container offers to run commands in it, once it can. Clones are the same.
#[derive(Clone)]
pub struct Commands(watch::Sender<Option<Arc<dyn RunCommand>>>);

impl Commands {
    pub(crate) fn new() -> Self {
        Commands(watch::Sender::new(None))
    }

    /// Offers it from now on.
    pub fn offer(&self, run: Arc<dyn RunCommand>) {
        self.0.send_replace(Some(run));
    }

    /// Runs a command as soon as the container offers it.
    pub(crate) async fn run(&self, command: Vec<String>) -> Result<(), String> {
        match self.offered().await {
            Some(run) => run.run(command).await,
            None => Err("the container is gone".to_owned()),
        }
    }

    /// Waits until the container offers it. `None`: it is gone.
    pub(crate) async fn offered(&self) -> Option<Arc<dyn RunCommand>> {
        let mut offered = self.0.subscribe();
        let offered = offered.wait_for(Option::is_some).await;
        offered.ok().and_then(|run| run.clone())
    }
}

impl fmt::Debug for Commands {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Commands(offered: {})", self.0.borrow().is_some())
    }
}
