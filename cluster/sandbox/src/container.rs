//! A running program with a root of its own: its outputs, signals to it, its end, further commands beside it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tokio::process::{ChildStderr, ChildStdout};
use tokio::sync::{Notify, watch};

use crate::exec::Exec;
use crate::helper::{self, Role};
use crate::pod::{START_TIMEOUT, silent};
use crate::process::Process;
use crate::wire::{self, BuildRoot, FromContainer, MountAt, StartProgram, StepError, ToInit};
use crate::{ContainerOptions, Ended, ExecOptions, Signal};

/// The first process of a container ends at once on a message; if it does not, its helper is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// A program in a pod. Dropped, it ends with everything that it has started.
#[derive(Debug)]
pub struct Container {
    program: PathBuf,
    start: StartProgram,
    init: u32,
    running: Arc<Running>,
    outputs: Option<(ChildStdout, ChildStderr)>,
    ended: watch::Receiver<Option<Ended>>,
}

/// The processes of a container, shared with the task that follows them.
#[derive(Debug)]
pub(crate) struct Running {
    helper: Process,
    killed: Notify,
}

impl Running {
    /// Ends everything in the container; the task that follows it ensures that this has an effect.
    pub(crate) fn kill(&self) {
        // On the message the first process ends, then all others, then the helper. A helper that is killed ends before
        // they do, and its end proves nothing.
        if wire::send_now(&self.helper.socket, &ToInit::Kill).is_err() {
            self.helper.kill();
        }
        self.killed.notify_one();
    }
}

impl Container {
    pub(crate) async fn start(program: &Path, pod: u32, options: ContainerOptions) -> io::Result<Self> {
        tokio::time::timeout(START_TIMEOUT, Self::start_helper(program, pod, options))
            .await
            .map_err(|_| io::Error::new(io::ErrorKind::TimedOut, "the container's helper does not answer"))?
    }

    async fn start_helper(program: &Path, pod: u32, options: ContainerOptions) -> io::Result<Self> {
        let (build, start) = messages(pod, options)?;
        let mut command = helper::command(program, Role::Container);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let (helper, outputs) = Process::start(command).await?;
        wire::send(&helper.socket, &build, &[]).await?;
        // If the helper is gone already, it has left the reason to be read.
        wire::send(&helper.socket, &start, &[]).await.ok();
        let mut reader = wire::Reader::default();
        let (mut init, mut started, mut ended) = (None, false, None);
        // Two processes report, in either order; a program may have ended before its first process is known.
        while init.is_none() || !started {
            match wire::receive(&helper.socket, &mut reader).await? {
                Some((FromContainer::Init(id), _)) => init = Some(id),
                Some((FromContainer::Running, _)) => started = true,
                Some((FromContainer::Failed(failure), _)) => return Err(StepError::from(failure).into()),
                Some((FromContainer::Ended(how), _)) => ended = Some(how),
                None => return Err(silent()),
            }
        }
        let outputs = match outputs {
            (Some(output), Some(errors)) => Some((ChildStdout::from_std(output)?, ChildStderr::from_std(errors)?)),
            _ => None,
        };
        let running = Arc::new(Running {
            helper,
            killed: Notify::new(),
        });
        let (report, outcome) = watch::channel(None);
        tokio::spawn(follow(running.clone(), reader, ended, report));
        Ok(Self {
            program: program.to_owned(),
            start,
            init: init.ok_or_else(silent)?,
            running,
            outputs,
            ended: outcome,
        })
    }

    pub(crate) fn running(&self) -> &Arc<Running> {
        &self.running
    }

    /// What the program writes. Given out once.
    pub fn output(&mut self) -> Option<(ChildStdout, ChildStderr)> {
        self.outputs.take()
    }

    /// The container's first process, as this process sees it. All others descend from it, but those of [`Container::exec`].
    pub fn first_process(&self) -> u32 {
        self.init
    }

    /// Sends a signal to the program, and to it alone.
    ///
    /// # Errors
    /// The container has ended.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        wire::send_now(&self.running.helper.socket, &ToInit::Signal(signal.0))
    }

    /// Ends the program and everything that it has started, at once. [`Container::wait`] returns when they are gone.
    pub fn kill(&self) {
        self.running.kill();
    }

    /// Waits until the program and everything that it has started have ended.
    pub async fn wait(&self) -> Ended {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(ended) => ended.unwrap_or(Ended::Signaled(Signal::KILL.0)),
            // The runtime that followed it has ended, and it with it.
            Err(_) => Ended::Signaled(Signal::KILL.0),
        }
    }

    /// Starts a further command in the container. It ends with the container or when the result is dropped.
    ///
    /// # Errors
    /// The container has ended, or the command cannot be started.
    pub async fn exec(&self, options: ExecOptions) -> io::Result<Exec> {
        let ExecOptions {
            command,
            env,
            working_dir,
            terminal,
        } = options;
        let start = StartProgram {
            command,
            env: env.unwrap_or_else(|| self.start.env.clone()),
            working_dir: working_dir.map_or_else(|| self.start.working_dir.clone(), PathBuf::into_os_string),
            limits: self.start.limits,
        };
        Exec::start(&self.program, self.init, start, terminal).await
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads what the container reports until its processes have ended, all of them: only then is its socket closed.
async fn follow(
    running: Arc<Running>,
    mut reader: wire::Reader,
    mut ended: Option<Ended>,
    report: watch::Sender<Option<Ended>>,
) {
    let Running { helper, killed } = &*running;
    let reports = async {
        while let Ok(Some((message, _))) = wire::receive(&helper.socket, &mut reader).await {
            if let FromContainer::Ended(how) = message {
                ended = Some(how);
            }
        }
        ended
    };
    tokio::pin!(reports);
    let ended = tokio::select! {
        ended = &mut reports => ended,
        () = killed.notified() => {
            if let Ok(ended) = tokio::time::timeout(KILL_TIMEOUT, &mut reports).await {
                ended
            } else {
                helper.kill();
                reports.await
            }
        }
    };
    helper.finish();
    report.send_replace(Some(ended.unwrap_or(Ended::Signaled(Signal::KILL.0))));
}

fn messages(pod: u32, options: ContainerOptions) -> io::Result<(BuildRoot, StartProgram)> {
    let ContainerOptions {
        command,
        env,
        working_dir,
        mounts,
        hidden,
        limits,
    } = options;
    let name = command.first().map(OsString::as_os_str).unwrap_or_default();
    if !Path::new(name).is_absolute() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("the command `{}` is not an absolute path", name.display()),
        ));
    }
    let build = BuildRoot {
        pod,
        mounts: mounts
            .into_iter()
            .map(|mount| MountAt {
                source: mount.source.into_os_string(),
                sub_path: mount.sub_path.into_os_string(),
                path: mount.path.into_os_string(),
                writable: mount.writable,
            })
            .collect(),
        hidden: hidden.into_iter().map(PathBuf::into_os_string).collect(),
    };
    let start = StartProgram {
        command,
        env,
        working_dir: working_dir.into_os_string(),
        limits,
    };
    Ok((build, start))
}
