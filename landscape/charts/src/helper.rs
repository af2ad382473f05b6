//! Runs the programs that keep a person's credentials, as `docker` and `helm` run them: `docker-credential-NAME get`, with the server
//! on standard input. They are looked for in PATH alone.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use std::{env, fs, io};

use base_oci::Login;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// How long one may take: it may ask the user to unlock something.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of its answer; the longest tokens of clouds have some thousand.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Bits of a file's mode that allow to execute it.
const EXECUTABLE: u32 = 0o111;

/// Runs them.
pub(super) struct Programs;

impl base_oci::Helper for Programs {
    fn get(&self, name: &str, server: &str) -> BoxFuture<'static, Result<Option<Login>, String>> {
        let (name, server) = (name.to_owned(), server.to_owned());
        async move {
            let is_plain = |character: char| character.is_ascii_alphanumeric() || "-_.".contains(character);
            if !name.chars().all(is_plain) {
                return Err("is no name of a program in PATH".to_owned());
            }
            let program = in_path(&name).ok_or("is not in PATH")?;
            let ended = timeout(HELPER_TIMEOUT, run(&program, &server)).await;
            let ended = ended.map_err(|_| format!("does not end within {} s", HELPER_TIMEOUT.as_secs()))?;
            let (status, answer) = ended.map_err(|error| format!("cannot be run: {error}"))?;
            if answer.len() as u64 > ANSWER_BYTES_MAX {
                return Err(format!("answers with more than {} KiB", ANSWER_BYTES_MAX >> 10));
            }
            Login::read(status.success(), &answer)
        }
        .boxed()
    }
}

/// The program of that name in a folder that PATH names as a whole: what lies in the current folder may have come with a chart.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let folders = env::split_paths(&path).filter(|folder| folder.is_absolute());
    folders.map(|folder| folder.join(name)).find(|program| {
        let about = fs::metadata(program);
        about.is_ok_and(|about| about.is_file() && about.permissions().mode() & EXECUTABLE != 0)
    })
}

/// How it ended, and what it has written. What it has to say to a person goes to that person.
async fn run(program: &Path, server: &str) -> io::Result<(ExitStatus, Vec<u8>)> {
    let mut command = Command::new(program);
    let piped = command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.kill_on_drop(true).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that does not read what it is asked answers all the same.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let mut answer = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER_BYTES_MAX + 1).read_to_end(&mut answer).await?;
    }
    Ok((child.wait().await?, answer))
}
