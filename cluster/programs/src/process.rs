//! A program that runs, whatever it runs in: its streams, its end. It knows nothing of containers.

use std::io;
use std::path::PathBuf;

use async_trait::async_trait;
use tokio::io::AsyncRead;

use crate::memory::Processes;

/// What is run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The program, absolute.
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// All of its environment.
    pub(crate) env: Vec<(String, String)>,
    pub(crate) working_dir: PathBuf,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Exited(i32),
    /// By a signal.
    Signaled(i32),
}

impl Ended {
    /// As a container runtime reports it.
    pub(crate) fn code(self) -> i32 {
        match self {
            Ended::Exited(code) => code,
            Ended::Signaled(signal) => 128 + signal,
        }
    }
}

/// A stream of a program.
pub(crate) type Output = Box<dyn AsyncRead + Send + Sync + Unpin>;

/// A running program with all that it has started. Dropping it kills them.
#[async_trait]
pub(crate) trait Process: Send + Sync {
    /// Its standard output and error; they are taken once.
    fn outputs(&mut self) -> Vec<Output>;

    /// It and all that it has started.
    fn processes(&self) -> Processes;

    /// Asks it to end (SIGTERM).
    fn terminate(&self);

    /// Kills it and all that it has started.
    fn kill(&self);

    /// Waits for the end of the program itself.
    async fn wait(&mut self) -> io::Result<Ended>;
}
