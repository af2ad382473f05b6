//! Runs the programs that keep a person's credentials, as `docker` and `helm` run them: `docker-credential-NAME get`, with the server
//! on standard input. They are looked for in PATH alone.

use std::io;
use std::process::{Output, Stdio};
use std::time::Duration;

use base_oci::Login;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// How long one may take: it may ask somebody to unlock something.
const HELPER_TIMEOUT: Duration = Duration::from_secs(60);
/// Most bytes of its answer; the longest tokens of clouds have some thousand.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

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
            let output = timeout(HELPER_TIMEOUT, run(&name, &server)).await;
            let output = output.map_err(|_| format!("does not end within {} s", HELPER_TIMEOUT.as_secs()))?;
            match output {
                Ok(output) => Login::read(output.status.success(), &output.stdout),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Err("is not in PATH".to_owned()),
                Err(error) => Err(format!("cannot be run: {error}")),
            }
        }
        .boxed()
    }
}

async fn run(name: &str, server: &str) -> io::Result<Output> {
    let mut command = Command::new(name);
    let piped = command.arg("get").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::null()).kill_on_drop(true).spawn()?;
    if let Some(mut input) = child.stdin.take() {
        // One that does not read what it is asked answers all the same.
        let _ = input.write_all(server.as_bytes()).await;
    }
    let mut stdout = Vec::new();
    if let Some(output) = child.stdout.take() {
        output.take(ANSWER_BYTES_MAX).read_to_end(&mut stdout).await?;
    }
    let status = child.wait().await?;
    Ok(Output {
        status,
        stdout,
        stderr: Vec::new(),
    })
}
