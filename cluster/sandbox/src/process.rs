//! One helper as this process holds it: a socket to talk over, whose end is the helper's end. Dropped, it is killed.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use tokio::net::UnixStream;

use crate::spawn;

/// A helper that was started.
#[derive(Debug)]
pub(crate) struct Process {
    id: u32,
    child: Mutex<Option<Child>>,
    /// Closed by the kernel when the helper and the first process of its container have ended.
    pub(crate) socket: UnixStream,
}

impl Process {
    /// Starts a helper with a socket as its standard input. The outputs are those of the command.
    pub(crate) async fn start(mut command: Command) -> io::Result<(Self, Outputs)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = UnixStream::from_std(ours)?;
        command.stdin(Stdio::from(OwnedFd::from(theirs)));
        let mut child = spawn::spawn(command).await?;
        let outputs = (child.stdout.take(), child.stderr.take());
        let process = Self {
            id: child.id(),
            child: Mutex::new(Some(child)),
            socket,
        };
        Ok((process, outputs))
    }

    /// The process id, which no other process gets before the helper was waited for.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Ends the helper at once.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(child) = child.as_mut() {
            child.kill().ok();
        }
    }

    /// Reaps a helper that has closed its socket or got the message to end.
    pub(crate) fn finish(&self) {
        let child = self.child.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(mut child) = child
            && !matches!(child.try_wait(), Ok(Some(_)))
        {
            spawn::reap(child);
        }
    }
}

/// What a helper and the programs in it write.
pub(crate) type Outputs = (Option<std::process::ChildStdout>, Option<std::process::ChildStderr>);

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = self.child.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            spawn::give_up(child);
        }
    }
}
