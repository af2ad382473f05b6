//! The process under test: the real binary on one folder and one port over all its lives.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tests_crash::process::{LOG, Process};
use tests_kit::free_port;

/// How long a start may take: all control planes of all Shoots start with it, while others use the machine.
const START_MAX: Duration = Duration::from_secs(280);
/// How long an orderly end may take.
const END_MAX: Duration = Duration::from_secs(120);
/// How often one looks whether it has ended.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of its log that are shown when something went wrong.
const LOG_LINES: usize = 15;

/// How its lives begin and end.
pub struct Product {
    binary: PathBuf,
    folder: PathBuf,
    port: u16,
    begun: Instant,
    process: tokio::sync::Mutex<Process>,
    id: AtomicU32,
    life: AtomicU32,
    events: Mutex<Vec<Event>>,
}

/// An end of a life, and the next one's beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in seconds since the beginning.
    pub seconds: f64,
    /// Whether it was killed, or stopped in order.
    pub killed: bool,
    /// How long it took from the end until a Shoot could be taken again, in seconds.
    pub back_after: f64,
}

impl Product {
    /// Starts the first life on an empty folder.
    ///
    /// # Errors
    /// It does not become ready.
    pub async fn start(binary: &Path, folder: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let begun = Instant::now();
        let port = free_port()?;
        let mut process = Process::start(binary, folder, port)?;
        process.ready_within(START_MAX).await?;
        Ok(Self {
            binary: binary.to_owned(),
            folder: folder.to_owned(),
            port,
            begun,
            id: AtomicU32::new(process.id()),
            process: tokio::sync::Mutex::new(process),
            life: AtomicU32::new(1),
            events: Mutex::new(Vec::new()),
        })
    }

    /// Its data folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Since the first start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// The number of the process, and the how-manieth it is.
    #[must_use]
    pub fn process(&self) -> (u32, u32) {
        (self.id.load(Ordering::Relaxed), self.life.load(Ordering::Relaxed))
    }

    /// The ends of lives so far.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.events
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .clone()
    }

    /// Ends the process, by `kill -9` or in order, and starts it again.
    ///
    /// # Errors
    /// It does not end in order, or does not become ready again.
    pub async fn restart(&self, kill: bool) -> Result<(), String> {
        let mut process = self.process.lock().await;
        let seconds = self.elapsed().as_secs_f64();
        if kill {
            process.kill();
        } else {
            stop(&mut process).await?;
        }
        let begun = Instant::now();
        *process = Process::start(&self.binary, &self.folder, self.port)?;
        self.id.store(process.id(), Ordering::Relaxed);
        self.life.fetch_add(1, Ordering::Relaxed);
        let end = if kill { "kill -9" } else { "an orderly stop" };
        process
            .ready_within(START_MAX)
            .await
            .map_err(|why| format!("after {end}: {why}"))?;
        self.events
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .push(Event {
                seconds,
                killed: kill,
                back_after: begun.elapsed().as_secs_f64(),
            });
        Ok(())
    }

    /// Lets it stand still for a while, as a machine does that sleeps.
    ///
    /// # Errors
    /// The system's refusal.
    pub async fn pause(&self, length: Duration) -> Result<(), String> {
        let process = self.process.lock().await;
        signal("STOP", process.id())?;
        tokio::time::sleep(length).await;
        signal("CONT", process.id())
    }

    /// Whether it still runs: it never ends by itself.
    ///
    /// # Errors
    /// How it ended, with the last lines of its log.
    pub fn check(&self) -> Result<(), String> {
        // While it is being ended or started, there is nothing to report.
        let ended = self.process.try_lock().ok().and_then(|mut process| process.ended());
        match ended {
            None => Ok(()),
            Some(status) => Err(format!("the process ended by itself ({status})")),
        }
    }

    /// The last lines of its log.
    #[must_use]
    pub fn last_lines(&self) -> String {
        let log = std::fs::read_to_string(self.folder.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(LOG_LINES)..].join("\n    | ")
    }
}

async fn stop(process: &mut Process) -> Result<(), String> {
    signal("TERM", process.id())?;
    let begun = Instant::now();
    loop {
        match process.ended() {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("asked to stop, it ended with {status}")),
            None if begun.elapsed() > END_MAX => return Err(format!("asked to stop, it still runs after {END_MAX:?}")),
            None => tokio::time::sleep(LOOK).await,
        }
    }
}

fn signal(name: &str, process: u32) -> Result<(), String> {
    let sent = Command::new("kill")
        .args([&format!("-{name}"), &process.to_string()])
        .status();
    match sent {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("kill -{name} {process} ended with {status}")),
        Err(error) => Err(format!("cannot call kill: {error}")),
    }
}
