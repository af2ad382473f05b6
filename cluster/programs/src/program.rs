//! One mapped program as an image: a container of it from its files on disk to its exit code. How it is started is decided
//! in `launch`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cluster_node::{CannotStart, ContainerContext, Exit, Image, ReferencePattern};
use futures::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::launch::{Launched, write};
use crate::layout::Layout;
use crate::memory::{self, Processes};
use crate::process::Ended;
use crate::programs::Shared;
use crate::{Mapping, executable, output, termination};

/// The exit code of a container whose program could not be started, as container runtimes give it.
const EXIT_NOT_STARTED: i32 = 128;
/// The grace period of a program that is started again because its file has changed, where its pod names none
/// (kubernetes/api v1.35 core/v1/types.go).
const GRACE_SECONDS: i64 = 30;
/// How long the last output of a program is waited for: its group is killed by then.
const LAST_OUTPUT: Duration = Duration::from_secs(2);

/// A program that some images stand for. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Program(Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) mapping: Mapping,
    /// The mapping as messages name it.
    place: String,
    /// The folder of the image file.
    pub(crate) home: PathBuf,
    pub(crate) shared: Arc<Shared>,
}

impl Program {
    pub(crate) fn new(mapping: Mapping, file: &Path, shared: Arc<Shared>) -> Self {
        Program(Arc::new(Inner {
            place: format!("{} of {}", mapping.place, file.display()),
            home: file.parent().unwrap_or(Path::new("/")).to_owned(),
            mapping,
            shared,
        }))
    }

    pub(crate) fn pattern(&self) -> &ReferencePattern {
        &self.0.mapping.pattern
    }
}

impl Image for Program {
    fn run(&self, context: ContainerContext) -> BoxFuture<'static, Exit> {
        let program = self.clone();
        Box::pin(async move { program.0.run(&context).await })
    }

    fn is_probed(&self) -> bool {
        true
    }

    fn runs_commands(&self) -> bool {
        true
    }

    fn check(&self) -> Result<(), CannotStart> {
        self.0.program().map(drop).map_err(|error| CannotStart {
            reason: error.reason(),
            message: format!("{}: {error}", self.0.place),
        })
    }
}

impl Inner {
    /// The program's file.
    pub(crate) fn program(&self) -> Result<PathBuf, executable::NotExecutable> {
        executable::find(&self.mapping.command[0])
    }

    async fn run(&self, context: &ContainerContext) -> Exit {
        let launched = tokio::select! {
            biased;
            // What is half started ends with this future.
            () = context.stop.cancelled() => return Exit::done(),
            launched = self.launch(context) => launched,
        };
        match launched {
            Ok(launched) => self.supervise(launched, context).await,
            Err(error) => Exit {
                code: EXIT_NOT_STARTED,
                message: format!("{}: cannot be started: {error}", self.place),
            },
        }
    }

    /// Supervises a container until its program has ended.
    async fn supervise(&self, launched: Launched, context: &ContainerContext) -> Exit {
        let Launched {
            mut process,
            layout,
            watched,
            _listening,
            _served,
        } = launched;
        context.ready.set(true);
        let mut outputs = JoinSet::new();
        for stream in process.outputs() {
            outputs.spawn(output::pump(stream, context.log.clone()));
        }
        let mut sources = context.files.changes();
        let mut changed = std::pin::pin!(watched.changed(|| self.program().is_ok()));
        let mut outgrown = std::pin::pin!(outgrown(process.processes(), context.memory_limit_bytes()));
        let (mut stopping, mut kill_at, mut is_outgrown) = (false, None, false);
        let ended = loop {
            tokio::select! {
                biased;
                ended = process.wait() => break ended,
                () = context.stop.cancelled(), if !stopping => {
                    stopping = true;
                    process.terminate();
                }
                file = &mut changed, if !stopping => {
                    stopping = true;
                    let file = file.display();
                    context.report("ProgramChanged", format!("{file} has changed, the container is started again"));
                    context.start_again();
                    process.terminate();
                    kill_at = Some(Instant::now() + grace(context));
                }
                () = tokio::time::sleep_until(kill_at.unwrap_or_else(Instant::now)), if kill_at.is_some() => {
                    kill_at = None;
                    process.kill();
                }
                held = &mut outgrown, if !is_outgrown => {
                    is_outgrown = true;
                    out_of_memory(held, context);
                    process.kill();
                }
                Ok(()) = sources.changed() => renew(&layout, context).await,
            }
        };
        // What the program has started and left behind is the container's as well.
        process.kill();
        let last = async { while outputs.join_next().await.is_some() {} };
        // A process that holds a stream open after that is no part of the container.
        let _ = tokio::time::timeout(LAST_OUTPUT, last).await;
        leave_message(&layout.own(&context.container.name), context);
        exit(ended)
    }
}

/// Waits until a container's processes hold more memory than its limit; how much, in bytes.
async fn outgrown(processes: Processes, limit_bytes: Option<u64>) -> u64 {
    match limit_bytes {
        Some(limit) => memory::beyond(processes, limit).await,
        None => std::future::pending().await,
    }
}

/// Reports that a container is killed for its memory, as a runtime with cgroups does.
fn out_of_memory(held_bytes: u64, context: &ContainerContext) {
    context.killed_for("OOMKilled");
    let limit = context.memory_limit_bytes().unwrap_or_default() >> 10;
    let held = held_bytes >> 10;
    context.warn(
        "OOMKilled",
        format!("the container's processes held {held} KiB of memory, and its limit is {limit} KiB"),
    );
}

/// Reports what the program has left at its `terminationMessagePath`.
fn leave_message(own: &Path, context: &ContainerContext) {
    match termination::read(own) {
        Ok(message) => context.leave_message(message),
        // In the place of the message, as a kubelet reports it.
        Err(error) => context.leave_message(format!("Error on reading termination log: {error}")),
    }
}

/// Brings the files of a container up to what their sources hold now.
async fn renew(layout: &Arc<Layout>, context: &ContainerContext) {
    if let Err(error) = write(layout, &context.container.name).await {
        context.warn(
            "FailedMount",
            format!("the files of the container are not renewed: {error}"),
        );
    }
}

fn grace(context: &ContainerContext) -> Duration {
    let spec = context.pod.spec.as_ref();
    let seconds = spec.and_then(|spec| spec.termination_grace_period_seconds);
    Duration::from_secs(u64::try_from(seconds.unwrap_or(GRACE_SECONDS)).unwrap_or(0))
}

fn exit(ended: io::Result<Ended>) -> Exit {
    match ended {
        Ok(ended) => Exit {
            code: ended.code(),
            message: match ended {
                Ended::Exited(_) => String::new(),
                Ended::Signaled(signal) => format!("ended by signal {signal}"),
            },
        },
        Err(error) => Exit::failed(format!("the end of the program was not seen: {error}")),
    }
}
