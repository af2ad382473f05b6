//! A further command in a running container.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::Stdio;

use tokio::net::unix::pipe;
use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::Mutex;

use crate::helper::{self, Role};
use crate::pod::{START_TIMEOUT, silent};
use crate::process::Process;
use crate::terminal::Terminal;
use crate::wire::{self, FromContainer, StartExec, StartProgram, StepError};
use crate::{Ended, Signal};

/// A command that was started in a container. Dropped, it is killed.
#[derive(Debug)]
pub struct Exec {
    helper: Process,
    input: Option<pipe::Sender>,
    outputs: Option<(ChildStdout, ChildStderr)>,
    terminal: Option<Terminal>,
    state: Mutex<(wire::Reader, Option<Ended>)>,
}

impl Exec {
    pub(crate) async fn start(program: &Path, init: u32, start: StartProgram, terminal: bool) -> io::Result<Self> {
        tokio::time::timeout(START_TIMEOUT, Self::start_helper(program, init, start, terminal))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the command's helper does not answer"))?
    }

    async fn start_helper(program: &Path, init: u32, start: StartProgram, terminal: bool) -> io::Result<Self> {
        let mut command = helper::command(program, Role::Exec);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (helper, outputs) = Process::start(command).await?;
        let (theirs, ours) = io::pipe()?;
        let message = StartExec {
            init,
            program: start,
            terminal,
        };
        wire::send(&helper.socket, &message, &[theirs.as_fd()]).await?;
        drop(theirs);
        let mut reader = wire::Reader::default();
        let files = match wire::receive(&helper.socket, &mut reader).await? {
            Some((FromContainer::Running, files)) => files,
            Some((FromContainer::Failed(failure), _)) => return Err(StepError::from(failure).into()),
            Some(_) | None => return Err(silent()),
        };
        let terminal = files.into_iter().next().map(Terminal::new).transpose()?;
        let outputs = match outputs {
            (Some(output), Some(errors)) => Some((ChildStdout::from_std(output)?, ChildStderr::from_std(errors)?)),
            _ => None,
        };
        let input = OwnedFd::from(ours);
        rustix::io::ioctl_fionbio(&input, true)?;
        Ok(Self {
            helper,
            input: Some(pipe::Sender::from_owned_fd(input)?),
            outputs,
            terminal,
            state: Mutex::default(),
        })
    }

    /// The command's standard input. Given out once; dropped, the command reads its end.
    pub fn input(&mut self) -> Option<pipe::Sender> {
        self.input.take()
    }

    /// What the command writes. Given out once.
    pub fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.outputs.take()
    }

    /// Its terminal, if that was requested; it has no other streams then. Given out once; once all of it is dropped, the command
    /// gets SIGHUP.
    pub fn terminal(&mut self) -> Option<Terminal> {
        self.terminal.take()
    }

    /// Ends the command and its process group. What has left the group ends with the container.
    pub fn kill(&self) {
        // The helper ends the command on any message.
        wire::send_now(&self.helper.socket, &wire::ToInit::Kill).ok();
    }

    /// Waits for the end of the command.
    pub async fn wait(&self) -> Ended {
        let mut state = self.state.lock().await;
        let (reader, known) = &mut *state;
        loop {
            if let Some(ended) = *known {
                return ended;
            }
            match wire::receive(&self.helper.socket, reader).await {
                Ok(Some((FromContainer::Ended(ended), _))) => *known = Some(ended),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => *known = Some(Ended::Signaled(Signal::KILL.0)),
            }
        }
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // A killed helper could not end the command.
        self.kill();
        self.helper.finish();
    }
}
