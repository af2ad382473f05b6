//! How the kit works: limits, clock, commands that an author gives it. It runs the commands and decides nothing.

use std::fmt;
use std::process::Stdio;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_extensions::ExtensionKind;
use api_meta::Fault;
use base_clock::{Clock, Entropy};
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::process::Command;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// How long an object is watched that has to be left alone: extensions work on what they see within a second.
pub const PATIENCE: Duration = Duration::from_secs(5);
/// Between a change of the surroundings and a request that counts on it, and after the end of an operation: caches of
/// extensions follow within less. Above a second, so that times in whole seconds tell two operations apart.
pub const SETTLE: Duration = Duration::from_millis(1_100);
/// How old the renewal of a heartbeat may be (gardener/gardener v1.150, staleExtensionHealthChecks of gardenlet).
pub const HEARTBEAT_AGE_MAX: Duration = Duration::from_secs(5 * 60);
/// Pause of the writer that gets in the extension's way: dozens of writes during the shortest operation.
const WRITE_PAUSE: Duration = Duration::from_millis(20);
/// Until a task that was ended is started again: as a process takes.
const RESTART_PAUSE: Duration = Duration::from_millis(200);
/// How long a command of the author may run.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);

/// How the kit works.
#[derive(Clone)]
pub struct Options {
    /// What time it is.
    pub clock: Clock,
    /// Where names come from.
    pub entropy: Entropy,
    /// How long one operation may take.
    pub timeout: Duration,
    /// How long an object is watched that has to be left alone.
    pub patience: Duration,
    /// How long caches of the extension are given to follow.
    pub settle: Duration,
    /// Pause between two writes of the writer that gets in the extension's way.
    pub write_pause: Duration,
    /// Ends the extension's process whenever it is called; whoever started the extension starts it again.
    pub kill: Option<Hook>,
    /// Prints what the cloud holds, a line for each resource, in any order.
    pub cloud_check: Option<Hook>,
    /// The extension's own namespace, where its heartbeat is.
    pub namespace: Option<String>,
    /// How old the renewal of its heartbeat may be.
    pub heartbeat_age_max: Duration,
    /// Ends the run early; what was made is removed all the same.
    pub stop: CancellationToken,
    /// Receives a line whenever a step begins.
    pub on_step: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Options {
    /// The limits of gardenlet for this kind, and nothing of what an author may give.
    #[must_use]
    pub fn new(kind: ExtensionKind, clock: Clock, entropy: Entropy) -> Self {
        Self {
            clock,
            entropy,
            timeout: timeout_of(kind),
            patience: PATIENCE,
            settle: SETTLE,
            write_pause: WRITE_PAUSE,
            kill: None,
            cloud_check: None,
            namespace: None,
            heartbeat_age_max: HEARTBEAT_AGE_MAX,
            stop: CancellationToken::new(),
            on_step: Arc::new(|_| {}),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .finish_non_exhaustive()
    }
}

/// How long gardenlet waits for an operation (gardener/gardener v1.150 pkg/component/extensions).
#[must_use]
pub fn timeout_of(kind: ExtensionKind) -> Duration {
    let minutes = match kind {
        ExtensionKind::Infrastructure | ExtensionKind::Worker | ExtensionKind::BackupEntry => 10,
        ExtensionKind::DNSRecord => 2,
        _ => 3,
    };
    Duration::from_secs(minutes * 60)
}

/// Something that an author gives the kit to call: a command, or in tests a function. Its output is text.
#[derive(Clone)]
pub struct Hook(Arc<dyn Fn() -> BoxFuture<'static, Result<String, Fault>> + Send + Sync>);

impl Hook {
    /// A function.
    pub fn new<F>(call: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<String, Fault>> + Send + 'static,
    {
        Self(Arc::new(move || call().boxed()))
    }

    /// A command of the shell, which has a minute.
    #[must_use]
    pub fn command(command: &str) -> Self {
        let command = command.to_owned();
        Self::new(move || run(command.clone()))
    }

    /// Starts an extension that is a task of this process, and gives what ends it and starts it again a moment later: for tests.
    /// `start` returns the task and what stops whatever else it has started.
    #[must_use]
    pub fn restarting<T: Send + 'static>(
        start: impl Fn() -> (JoinHandle<T>, CancellationToken) + Send + Sync + 'static,
    ) -> Self {
        let running = Arc::new(Mutex::new(Some(start())));
        let start = Arc::new(start);
        Self::new(move || {
            let former = running.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some((task, stop)) = former {
                task.abort();
                stop.cancel();
            }
            let (running, start) = (running.clone(), start.clone());
            tokio::spawn(async move {
                tokio::time::sleep(RESTART_PAUSE).await;
                *running.lock().unwrap_or_else(PoisonError::into_inner) = Some(start());
            });
            async { Ok(String::new()) }
        })
    }

    /// Calls it.
    ///
    /// # Errors
    /// A command that cannot be started, does not end in time, or ends with another code than 0.
    pub fn call(&self) -> BoxFuture<'static, Result<String, Fault>> {
        (self.0)()
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

async fn run(command: String) -> Result<String, Fault> {
    const HINT: &str = "run the command by hand: it has to end with code 0 within a minute";
    let failed = |why: String| Fault::user(format!("command {command:?} {why}")).hint(HINT);
    let output = Command::new("sh")
        .args(["-c", &command])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let output = tokio::time::timeout(COMMAND_TIMEOUT, output)
        .await
        .map_err(|_| failed("did not end".to_owned()))?
        .map_err(|error| failed(format!("was not started: {error}")))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let last = errors.lines().last().map(|last| format!(": {last}"));
        return Err(failed(format!(
            "ended with {}{}",
            output.status,
            last.unwrap_or_default()
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_command_gives_its_output_and_a_failing_one_its_last_words() {
        assert_eq!(Hook::command("echo a; echo b").call().await.unwrap(), "a\nb\n");
        let error = Hook::command("echo first >&2; echo no access >&2; exit 3").call().await;
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("exit status: 3") && error.ends_with("no access"),
            "{error}"
        );
        let silent = Hook::command("exit 3").call().await.unwrap_err().to_string();
        assert!(silent.ends_with("exit status: 3"), "{silent}");
    }
}
