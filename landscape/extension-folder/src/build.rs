//! Building a program by Cargo or by a command. It waits for the builder, passes its lines on, and kills it with all that it
//! has started when its caller stops waiting.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::Command;

/// How a program is built.
#[derive(Clone, Debug)]
pub(crate) enum Build {
    /// By `cargo build --bin NAME`.
    Cargo(String),
    /// By a command; an empty one builds nothing.
    Command(Vec<String>),
}

/// A build that went well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Built {
    /// How long it took.
    pub took: Duration,
    /// Whether the program is another one than before.
    pub changed: bool,
}

/// Why there is no new program. The builder's own words have been passed on before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed(pub String);

/// What tells a program from the one before.
type Identity = Option<(u64, u64, u64, i64, i64)>;

fn identity(program: &Path) -> Identity {
    let meta = std::fs::metadata(program).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Builds `program` in `folder`.
pub(crate) async fn build(
    how: &Build,
    folder: &Path,
    program: &Path,
    colour: bool,
    line: impl FnMut(&str),
) -> Result<Built, Failed> {
    let began = Instant::now();
    let before = identity(program);
    let words: Vec<&str> = match how {
        Build::Cargo(name) => vec!["cargo", "build", "--bin", name],
        Build::Command(words) => words.iter().map(String::as_str).collect(),
    };
    if let [builder, arguments @ ..] = words.as_slice() {
        let mut command = Command::new(builder);
        command.args(arguments).current_dir(folder);
        if colour {
            command.env("CARGO_TERM_COLOR", "always");
        }
        let status = run(command, line).await;
        let status = status.map_err(|error| Failed(format!("{builder} cannot be run: {error}")))?;
        if !status.success() {
            return Err(Failed(format!("{builder} ended with {status}")));
        }
    }
    let after = identity(program);
    match after {
        Some(_) => Ok(Built {
            took: began.elapsed(),
            changed: after != before,
        }),
        None => Err(Failed(format!("the build has made no {}", program.display()))),
    }
}

/// A process group that ends with this value.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // It may have ended already.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs a command in a process group of its own, without input.
async fn run(mut command: Command, mut line: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(id.and_then(Pid::from_raw));
    let mut out = child.stdout.take().map(|out| BufReader::new(out).lines());
    let mut errors = child.stderr.take().map(|errors| BufReader::new(errors).lines());
    while out.is_some() || errors.is_some() {
        let next = tokio::select! {
            next = next_line(&mut out), if out.is_some() => next,
            next = next_line(&mut errors), if errors.is_some() => next,
        };
        if let Some(text) = next {
            line(&text);
        }
    }
    let status = child.wait().await?;
    group.0 = None;
    Ok(status)
}

/// The next line, or nothing for one that is no text; at the end the source goes.
async fn next_line<R: AsyncRead + Unpin>(source: &mut Option<Lines<BufReader<R>>>) -> Option<String> {
    let next = match source {
        Some(lines) => lines.next_line().await,
        None => return None,
    };
    match next {
        Ok(Some(text)) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => None,
        Ok(None) | Err(_) => {
            *source = None;
            None
        }
    }
}
