//! One life of the process: a landscape on a state that outlives it, in a runtime of its own and in virtual time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use jiff::Timestamp;
use kube::config::Kubeconfig;
use landscape_local::{BACKUPS, Landscape, NodeAccess, Settings, State};
use tokio::runtime::{Builder, Runtime};

use crate::script::PATIENCE;
use crate::view::{Pace, View};

/// What goes from one life to the next.
#[derive(Clone)]
pub struct Legacy {
    /// What the landscape keeps.
    pub state: Arc<State>,
    /// Randomness goes on where it was.
    pub entropy: Entropy,
    /// So does time.
    pub clock: Clock,
    /// When it began.
    pub epoch: Timestamp,
}

impl Legacy {
    /// As the next process finds it, which starts so much later. Takes the runtime because it tells the time.
    #[must_use]
    pub fn after(self, runtime: &Runtime, pause: Duration) -> Self {
        let _entered = runtime.enter();
        let epoch = self.clock.now().checked_add(pause).unwrap_or(self.epoch);
        self.at(epoch)
    }

    /// As a process finds it that starts then.
    fn at(self, epoch: Timestamp) -> Self {
        Self { epoch, ..self }
    }
}

/// A running landscape and the clients of its people.
pub struct Life {
    /// What its people see.
    pub view: View,
    /// How API servers of its Shoots reach nodes.
    pub node_access: NodeAccess,
    landscape: Option<Landscape>,
    legacy: Legacy,
    folder: PathBuf,
    seed: u64,
}

/// A runtime of one thread whose time is virtual. The main task is looked at after every other: nothing happens between
/// a death and its being noticed.
///
/// # Errors
/// The system has no room for it.
pub fn runtime() -> Result<Runtime, String> {
    Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .event_interval(1)
        .build()
        .map_err(|error| error.to_string())
}

impl Life {
    /// Starts a landscape: the first one from `seed`, others on what the one before left. `change` changes its settings.
    ///
    /// # Errors
    /// It does not start.
    pub async fn start(
        folder: &Path,
        seed: u64,
        legacy: Option<Legacy>,
        change: impl FnOnce(&mut Settings),
        keep: impl FnOnce(&Legacy),
    ) -> Result<Self, String> {
        let epoch = match &legacy {
            Some(legacy) => legacy.epoch,
            None => "2026-01-01T00:00:00Z"
                .parse()
                .map_err(|error: jiff::Error| error.to_string())?,
        };
        let mut settings = Settings::simulated(folder.to_owned(), epoch, seed);
        change(&mut settings);
        let legacy = match legacy {
            Some(legacy) => {
                settings.entropy = legacy.entropy.clone();
                Legacy {
                    clock: settings.clock.clone(),
                    ..legacy
                }
            }
            None => Legacy {
                state: Arc::new(State::memory(&settings).map_err(|fault| fault.to_string())?),
                entropy: settings.entropy.clone(),
                clock: settings.clock.clone(),
                epoch,
            },
        };
        keep(&legacy);
        let landscape = Landscape::start(&settings, &legacy.state)
            .await
            .map_err(|fault| format!("the landscape does not start: {fault}"))?;
        Ok(Self {
            view: view(&landscape, folder)?,
            node_access: settings.node_access.unwrap_or_default(),
            landscape: Some(landscape),
            legacy,
            folder: folder.to_owned(),
            seed,
        })
    }

    /// Stops the landscape in good order and starts another on what it left, as a user does who changes its settings.
    ///
    /// # Errors
    /// It does not start.
    pub async fn restart(
        &mut self,
        change: impl FnOnce(&mut Settings),
        keep: impl FnOnce(&Legacy),
    ) -> Result<(), String> {
        if let Some(landscape) = self.landscape.take() {
            landscape.stop(PATIENCE).await;
        }
        let legacy = self.legacy.clone().at(self.legacy.clock.now());
        *self = Self::start(&self.folder, self.seed, Some(legacy), change, keep).await?;
        Ok(())
    }

    /// Waits until a Shoot can be taken.
    ///
    /// # Errors
    /// It cannot.
    pub async fn ready(&self) -> Result<(), String> {
        let landscape = self.landscape.as_ref().ok_or("the landscape has stopped")?;
        let ready = landscape.ready(PATIENCE).await;
        ready.map(drop).map_err(|fault| fault.to_string())
    }
}

fn view(landscape: &Landscape, folder: &Path) -> Result<View, String> {
    let connector = landscape.connector();
    let client = |kubeconfig: Result<Kubeconfig, api_meta::Fault>| {
        kubeconfig
            .and_then(|kubeconfig| connector.client(&kubeconfig))
            .map_err(|fault| fault.to_string())
    };
    Ok(View {
        garden: client(landscape.garden_kubeconfig())?,
        seed: client(landscape.seed_kubeconfig())?,
        connector: connector.clone(),
        folders: vec![folder.join(BACKUPS)],
        pace: Pace::VIRTUAL,
    })
}
