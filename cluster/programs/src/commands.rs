//! Commands in a container without namespaces: exec probes, hooks, `kubectl exec`, with its environment and its files. They run
//! programs of this machine.

use std::path::Path;
use std::sync::Arc;

use cluster_node::{CommandStreams, RunCommand, RunningCommand};
use futures::future::BoxFuture;
use tokio::io::AsyncReadExt;

use crate::executable;
use crate::layout::Layout;
use crate::plain::{Guardian, Input, Plain};
use crate::process::{Ended, Output, Process, Run};

/// How much of a command's output an event shows.
const OUTPUT_BYTES_MAX: u64 = 1 << 10;

/// Why no terminal is made.
const NO_TERMINAL: &str =
    "pods have no namespaces on this machine, and without them commands have no terminal: leave out -t (--tty)";

/// Runs commands beside a program.
#[derive(Clone)]
pub(crate) struct PlainCommands {
    like: Arc<Run>,
    layout: Arc<Layout>,
    guardian: Arc<Guardian>,
}

impl PlainCommands {
    /// With the environment and the working folder of a program.
    pub(crate) fn new(like: Run, layout: Arc<Layout>, guardian: Arc<Guardian>) -> Self {
        PlainCommands {
            like: Arc::new(like),
            layout,
            guardian,
        }
    }
}

impl PlainCommands {
    /// Starts a command. Errors: a text that names it.
    fn exec(&self, command: &[String], input: Input) -> Result<Plain, String> {
        let [first, args @ ..] = command else {
            return Err("an empty command".to_owned());
        };
        let translation = self.layout.translation();
        let program = executable::find(&translation.word(first));
        let program = program.map_err(|error| format!("{error}; commands are those of this machine"))?;
        let run = Run {
            program,
            args: args.iter().map(|word| translation.word(word)).collect(),
            env: self.like.env.clone(),
            working_dir: self.like.working_dir.clone(),
        };
        let started = Plain::start(&run, self.guardian.clone(), input);
        started.map_err(|error| format!("cannot run {first}: {error}"))
    }
}

/// Waits for the end of a command.
async fn end_of(process: &mut Plain) -> Result<Ended, String> {
    let ended = process.wait().await;
    ended.map_err(|error| format!("the end of the command was not seen: {error}"))
}

impl RunCommand for PlainCommands {
    fn run(&self, command: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let commands = self.clone();
        Box::pin(async move {
            let mut process = commands.exec(&command, Input::Empty)?;
            let outputs = process.outputs();
            let (printed, ended) = tokio::join!(printed_by(outputs), end_of(&mut process));
            match ended? {
                Ended::Exited(0) => Ok(()),
                ended => Err(failure(Path::new(&command[0]), ended, &printed)),
            }
        })
    }

    fn start(
        &self,
        command: Vec<String>,
        streams: CommandStreams,
    ) -> BoxFuture<'static, Result<RunningCommand, String>> {
        let commands = self.clone();
        Box::pin(async move {
            if streams.terminal {
                return Err(NO_TERMINAL.to_owned());
            }
            let input = if streams.stdin { Input::Pipe } else { Input::Empty };
            let mut process = commands.exec(&command, input)?;
            let mut outputs = process.outputs().into_iter();
            let (stdout, stderr) = (outputs.next(), outputs.next());
            Ok(RunningCommand {
                stdin: process.input().map(|input| Box::new(input) as _),
                stdout: stdout.ok_or("its streams are not there")?,
                stderr: stderr.map(|stderr| stderr as _),
                resize: None,
                ended: Box::pin(async move { Ok(end_of(&mut process).await?.code()) }),
            })
        })
    }
}

pub(crate) fn failure(program: &Path, ended: Ended, printed: &str) -> String {
    let code = ended.code();
    format!("{} exited with {code}: {printed}", program.display())
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// The beginning of what a command prints; the rest is read and left out, so that the command is not held up.
pub(crate) async fn printed_by(outputs: Vec<Output>) -> String {
    let read = outputs.into_iter().map(|mut stream| async move {
        let mut head = Vec::new();
        let mut limited = (&mut stream).take(OUTPUT_BYTES_MAX);
        // A stream that breaks has ended.
        let _ = limited.read_to_end(&mut head).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
        String::from_utf8_lossy(&head).trim().to_owned()
    });
    futures::future::join_all(read).await.join(" ").trim().to_owned()
}
