//! Building a program by Cargo or by a command. It waits for the builder, passes its lines on, and kills it with all that it
//! has started when its caller stops waiting.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cargo_metadata::Message;
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, Lines};
use tokio::process::{Child, Command};
use tokio::time::timeout;

/// How long the lines of a builder that has ended are waited for. Its children may hold its output open for ever.
const LINES_AFTER_END: Duration = Duration::from_secs(1);

/// How a program is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Build {
    /// By `cargo build --bin NAME`; the program that Cargo reports is linked to where it is run from.
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

/// What distinguishes a program from the one before.
type Identity = Option<(u64, u64, u64, i64, i64)>;

fn identity(program: &Path) -> Identity {
    let meta = fs::metadata(program).ok()?;
    Some((meta.dev(), meta.ino(), meta.size(), meta.mtime(), meta.mtime_nsec()))
}

/// Builds `program` in `folder`.
pub(crate) async fn build(
    how: &Build,
    folder: &Path,
    program: &Path,
    colour: bool,
    mut line: impl FnMut(&str),
) -> Result<Built, Failed> {
    let began = Instant::now();
    let before = identity(program);
    match how {
        Build::Cargo(name) => {
            let words = [
                "cargo",
                "build",
                "--bin",
                name,
                "--message-format=json-render-diagnostics",
            ];
            let mut built = None;
            let each = |text: &str| match message(text) {
                Some(Message::CompilerArtifact(artifact)) => {
                    let executable = artifact.executable.filter(|_| artifact.target.name == *name);
                    built = executable.map(PathBuf::from).or(built.take());
                }
                Some(_) => {}
                None => line(text),
            };
            run_builder(&words, folder, colour, each).await?;
            let built = built.ok_or_else(|| Failed(format!("cargo has reported no program {name}")))?;
            place(&built, program).map_err(|error| {
                let [from, to] = [built.as_path(), program].map(Path::display);
                Failed(format!("{from} cannot be linked to {to}: {error}"))
            })?;
        }
        Build::Command(words) => {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            run_builder(&words, folder, colour, line).await?;
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

/// What Cargo reports as JSON; nothing for a line of text.
fn message(text: &str) -> Option<Message> {
    text.starts_with('{').then(|| serde_json::from_str(text).ok()).flatten()
}

/// Puts what was built where it is run from, as one step: a program is never half there.
fn place(built: &Path, program: &Path) -> io::Result<()> {
    let of = |path: &Path| -> io::Result<_> {
        let meta = fs::metadata(path)?;
        Ok((meta.size(), meta.mtime(), meta.mtime_nsec()))
    };
    if of(program).ok() == Some(of(built)?) {
        return Ok(());
    }
    if let Some(folder) = program.parent() {
        fs::create_dir_all(folder)?;
    }
    let new = program.with_added_extension("new");
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    if fs::hard_link(built, &new).is_err() {
        // Not every file system has links.
        fs::copy(built, &new)?;
        let modified = fs::metadata(built)?.modified()?;
        fs::File::options().append(true).open(&new)?.set_modified(modified)?;
    }
    fs::rename(&new, program)
}

async fn run_builder(words: &[&str], folder: &Path, colour: bool, line: impl FnMut(&str)) -> Result<(), Failed> {
    let [builder, arguments @ ..] = words else {
        return Ok(());
    };
    let mut command = Command::new(builder);
    command.args(arguments).current_dir(folder);
    if colour {
        command.env("CARGO_TERM_COLOR", "always");
    }
    let status = run(command, line).await;
    let status = status.map_err(|error| Failed(format!("{builder} cannot be run: {error}")))?;
    match status.success() {
        true => Ok(()),
        false => Err(Failed(format!("{builder} ended with {status}"))),
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

/// Runs a command in a process group of its own, without input. Its end is that of the process, whoever holds its output open.
async fn run(mut command: Command, mut line: impl FnMut(&str)) -> io::Result<ExitStatus> {
    let mut child = command
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let id = child.id().and_then(|id| i32::try_from(id).ok());
    let mut group = Group(id.and_then(Pid::from_raw));
    let mut output = Output::of(&mut child);
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            next = output.next(), if output.is_open() => next.iter().for_each(|text| line(text)),
        }
    };
    let rest = async {
        while output.is_open() {
            output.next().await.iter().for_each(|text| line(text));
        }
    };
    // What it has printed is there already; more comes only from what it has left running.
    let _ = timeout(LINES_AFTER_END, rest).await;
    group.0 = None;
    Ok(status)
}

/// What a builder prints.
struct Output {
    out: Option<Lines<BufReader<tokio::process::ChildStdout>>>,
    errors: Option<Lines<BufReader<tokio::process::ChildStderr>>>,
}

impl Output {
    fn of(child: &mut Child) -> Self {
        Self {
            out: child.stdout.take().map(|out| BufReader::new(out).lines()),
            errors: child.stderr.take().map(|errors| BufReader::new(errors).lines()),
        }
    }

    fn is_open(&self) -> bool {
        self.out.is_some() || self.errors.is_some()
    }

    /// The next line of either; nothing where one has ended.
    async fn next(&mut self) -> Option<String> {
        tokio::select! {
            next = next_line(&mut self.out), if self.out.is_some() => next,
            next = next_line(&mut self.errors), if self.errors.is_some() => next,
            else => None,
        }
    }
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
