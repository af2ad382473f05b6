//! The real binary on a real folder: killed by `kill -9` at a random moment, started again on the same folder and port.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base_client::{Connector, Https};
use base_clock::Entropy;
use kube::config::Kubeconfig;
use landscape_data_folder::kubeconfig;
use landscape_local::BACKUPS;
use tests_kit::free_port;

use crate::picture::Picture;
use crate::script::{Lifecycle, Phase, act};
use crate::view::{Pace, View};

/// Far beyond anything that could still be called a start, or an operation.
const GIVE_UP: Duration = Duration::from_secs(120);
/// What the process says when a Shoot can be taken.
const READY: &str = "ready: a Shoot can be taken";
/// Where it keeps the volumes of pods, in its data folder.
pub const VOLUMES: &str = "state/volumes";
/// Lines of a failed process' log that are shown.
const LOG_LINES: usize = 12;

/// How a run without a death goes.
pub struct Usual {
    /// What there is after each phase.
    pub pictures: BTreeMap<Phase, Picture>,
    /// How long each phase takes.
    pub durations: BTreeMap<Phase, Duration>,
}

/// When the process is killed.
#[derive(Clone, Copy, Debug)]
pub struct Blow {
    /// While the user is at this.
    pub phase: Phase,
    /// So long after it began.
    pub after: Duration,
}

impl Blow {
    /// The blow of this number: the phases in turn, a moment from their beginning to somewhat after their usual end.
    #[must_use]
    pub fn draw(usual: &Usual, number: u32, entropy: &Entropy) -> Self {
        let phases = Lifecycle::Shoot.phases();
        let phase = phases[number as usize % phases.len()];
        let share = entropy.below(1200) as f64 / 1000.0;
        let whole = usual.durations.get(&phase).copied().unwrap_or_default();
        Self {
            phase,
            after: whole.mul_f64(share),
        }
    }
}

/// Runs everything once without a death.
///
/// # Errors
/// It does not go well by itself.
pub async fn usual(binary: &Path) -> Result<Usual, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let (mut pictures, mut durations) = (BTreeMap::new(), BTreeMap::new());
    let begun = Instant::now();
    let mut process = Process::start(binary, folder.path(), free_port()?)?;
    process.ready().await?;
    let view = view(folder.path(), None)?;
    let mut took = begun.elapsed();
    for phase in Lifecycle::Shoot.phases().iter().copied() {
        let begun = Instant::now();
        live(&view, phase).await?;
        took = if phase == Phase::Start { took } else { begun.elapsed() };
        durations.insert(phase, took);
        pictures.insert(phase, view.at_rest(phase).await?);
    }
    Ok(Usual { pictures, durations })
}

async fn live(view: &View, phase: Phase) -> Result<(), String> {
    tokio::time::timeout(GIVE_UP, act(view, phase))
        .await
        .map_err(|_| format!("{phase} is not done within {GIVE_UP:?}"))??;
    if phase == Phase::Create {
        view.mark().await?;
    }
    Ok(())
}

/// Kills the process at a moment, starts it again and compares with the usual.
///
/// # Errors
/// What was not as usual, with the last lines of the process' log. The data folder is kept then.
pub async fn survive(binary: &Path, usual: &Usual, blow: Blow) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let outcome = killed(binary, usual, blow, folder.path()).await;
    outcome.map_err(|why| {
        let log = std::fs::read_to_string(folder.path().join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n    | ");
        format!(
            "{why}\n    | {last}\n    its data folder is kept: {}",
            folder.keep().display()
        )
    })
}

async fn killed(binary: &Path, usual: &Usual, blow: Blow, folder: &Path) -> Result<(), String> {
    let port = free_port()?;
    let phases = Lifecycle::Shoot.phases().iter().copied();
    let mut process = Process::start(binary, folder, port)?;
    let mut before = None;
    if blow.phase == Phase::Start {
        tokio::time::sleep(blow.after).await;
    } else {
        process.ready().await?;
        let view = view(folder, None)?;
        for phase in phases.clone().filter(|phase| *phase < blow.phase) {
            live(&view, phase).await?;
            view.becomes(phase, &usual.pictures[&phase]).await?;
        }
        tokio::select! {
            done = live(&view, blow.phase) => {
                done?;
            }
            () = tokio::time::sleep(blow.after) => {}
        }
        before = Some(kubeconfigs(folder)?);
    }
    process.kill();
    let mut process = Process::start(binary, folder, port)?;
    process.ready().await.map_err(|why| format!("after the kill: {why}"))?;
    // What people were given before the kill still opens the door.
    let view = view(folder, before)?;
    for phase in phases.filter(|phase| *phase >= blow.phase) {
        if phase == Phase::Update && blow.phase != Phase::Update {
            continue;
        }
        live(&view, phase)
            .await
            .map_err(|why| format!("after the kill: {why}"))?;
        view.becomes(phase, &usual.pictures[&phase]).await?;
    }
    Ok(())
}

/// The kubeconfigs of garden and seed.
pub type Kubeconfigs = [Kubeconfig; 2];

/// What `up` has left in its data folder for people.
///
/// # Errors
/// A file that is not there or not a kubeconfig.
pub fn kubeconfigs(folder: &Path) -> Result<Kubeconfigs, String> {
    let read = |name: &str| {
        let path = kubeconfig::path(folder, name);
        Kubeconfig::read_from(&path).map_err(|error| format!("{}: {error}", path.display()))
    };
    Ok([read("garden")?, read("seed")?])
}

fn view(folder: &Path, kubeconfigs_before: Option<Kubeconfigs>) -> Result<View, String> {
    let [garden, seed] = match kubeconfigs_before {
        Some(before) => before,
        None => kubeconfigs(folder)?,
    };
    let connector: Arc<dyn Connector> = Arc::new(Https::new("crash"));
    let client = |kubeconfig: &Kubeconfig| connector.client(kubeconfig).map_err(|fault| fault.to_string());
    Ok(View {
        garden: client(&garden)?,
        seed: client(&seed)?,
        connector: connector.clone(),
        folders: vec![folder.join(BACKUPS), folder.join(VOLUMES)],
        pace: Pace::REAL,
    })
}

/// The log of all lives, in the data folder.
pub const LOG: &str = "log";

/// A running `orangery up`, killed when dropped.
pub struct Process {
    child: Child,
    said: tokio::sync::mpsc::UnboundedReceiver<String>,
}

impl Process {
    /// Starts the binary on a folder and a port, and does not wait. What it logs is added to [`LOG`].
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(binary: &Path, folder: &Path, port: u16) -> Result<Self, String> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(folder.join(LOG))
            .map_err(|error| error.to_string())?;
        let mut child = Command::new(binary)
            .args(["up", "--port", &port.to_string(), "--data-dir"])
            .arg(folder)
            .env_remove("RUST_LOG")
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .map_err(|error| format!("cannot start {}: {error}", binary.display()))?;
        let (say, said) = tokio::sync::mpsc::unbounded_channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if say.send(line).is_err() {
                        break;
                    }
                }
            });
        }
        Ok(Self { child, said })
    }

    /// Waits until a Shoot can be taken.
    ///
    /// # Errors
    /// It has ended, or takes too long.
    pub async fn ready(&mut self) -> Result<(), String> {
        self.ready_within(GIVE_UP).await
    }

    /// The same, with another patience.
    ///
    /// # Errors
    /// As [`Process::ready`].
    pub async fn ready_within(&mut self, patience: Duration) -> Result<(), String> {
        let mut last = String::new();
        let waiting = async {
            while let Some(line) = self.said.recv().await {
                if line.starts_with(READY) {
                    return true;
                }
                last = line;
            }
            false
        };
        match tokio::time::timeout(patience, waiting).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(format!("the process ended before it was ready; it said last: {last:?}")),
            Err(_) => Err(format!(
                "not ready within {patience:?}; the process said last: {last:?}"
            )),
        }
    }

    /// Its number in the system.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it has ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        // It may have ended by itself; then its log says why.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The built binary of the product, beside this program or, for a test, one folder up.
///
/// # Errors
/// It has not been built.
pub fn binary() -> Result<PathBuf, String> {
    let here = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let found = here.ancestors().skip(1).take(2).map(|folder| folder.join("orangery"));
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        format!(
            "there is no orangery beside {}; build it with `cargo build --package programs-orangery`",
            here.display()
        )
    })
}
