//! Commands in a container without namespaces: exec probes and hooks, with its environment and its files.

use std::path::Path;
use std::sync::Arc;

use cluster_node::RunCommand;
use futures::future::BoxFuture;
use tokio::io::AsyncReadExt;

use crate::executable;
use crate::layout::Layout;
use crate::plain::{Guardian, Plain};
use crate::process::{Ended, Output, Process, Run};

/// What of a command's output an event shows.
const OUTPUT_BYTES_MAX: u64 = 1 << 10;

/// Runs commands beside a program.
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

impl RunCommand for PlainCommands {
    fn run(&self, command: Vec<String>) -> BoxFuture<'static, Result<(), String>> {
        let (like, layout, guardian) = (self.like.clone(), self.layout.clone(), self.guardian.clone());
        Box::pin(async move {
            let [first, args @ ..] = command.as_slice() else {
                return Err("an empty command".to_owned());
            };
            let translation = layout.translation();
            let program = executable::find(&translation.word(first));
            let program =
                program.map_err(|error| format!("{error}; commands of probes and hooks are this machine's"))?;
            let run = Run {
                program,
                args: args.iter().map(|word| translation.word(word)).collect(),
                env: like.env.clone(),
                working_dir: like.working_dir.clone(),
            };
            let started = Plain::start(&run, guardian);
            let mut process = started.map_err(|error| format!("cannot run {first}: {error}"))?;
            let outputs = process.outputs();
            let (said, ended) = tokio::join!(said(outputs), process.wait());
            match ended {
                Ok(Ended::Exited(0)) => Ok(()),
                Ok(ended) => Err(told(&run.program, ended, &said)),
                Err(error) => Err(format!("the end of {first} was not seen: {error}")),
            }
        })
    }
}

pub(crate) fn told(program: &Path, ended: Ended, said: &str) -> String {
    let code = ended.code();
    format!("{} exited with {code}: {said}", program.display())
        .trim_end_matches([':', ' '])
        .to_owned()
}

/// The beginning of what a command says; the rest is read and left out, so that the command is not held up.
pub(crate) async fn said(outputs: Vec<Output>) -> String {
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
