//! What can be chosen about a landscape, and what stands when nothing is chosen. Plain values.

use std::path::PathBuf;

use base_client::Layers;
use base_clock::{Clock, Entropy};
use base_flow_run::{Feed, TaskLayer};
use cluster_apiserver::AUDIT_RECORDS_MAX;
use jiff::Timestamp;

/// Where the landscape can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Over TLS on this port of 127.0.0.1; 0 takes a free one.
    Loopback(u16),
    /// Only from within the process: no socket is opened, so that a run can be replayed in virtual time.
    InProcess,
}

/// The one seed of the landscape and the provider behind it.
#[derive(Clone, Debug)]
pub struct SeedSettings {
    /// Name of the Seed.
    pub name: String,
    /// Its region; Shoots of this region are placed here.
    pub region: String,
    /// The type under which the local provider is registered, for every kind.
    pub provider_type: String,
    /// Whether Shoots get a backup entry.
    pub backup: bool,
    /// Replicas of the provider's Deployment; 0 leaves the work to a process of the provider's own.
    pub provider_replicas: i32,
}

impl Default for SeedSettings {
    fn default() -> Self {
        Self {
            name: "local".to_owned(),
            region: "local".to_owned(),
            provider_type: "local".to_owned(),
            backup: true,
            provider_replicas: 1,
        }
    }
}

/// Everything that a landscape is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it can be reached.
    pub port: Port,
    /// Folder of the local provider's backups.
    pub data_dir: PathBuf,
    /// The seed.
    pub seed: SeedSettings,
    /// Address on which the local provider answers DNS queries; `None`: it answers none.
    pub dns: Option<std::net::SocketAddr>,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub entropy: Entropy,
    /// Hears the events of Shoots' flows. No part waits for a listener or knows of one.
    pub feed: Feed,
    /// How many audit records each API server keeps for who reads them afterwards.
    pub audit_records: usize,
    /// Around the client of every part: for whoever counts calls or breaks them.
    pub layers: Layers,
    /// Around every task of Shoots' flows: for whoever makes tasks fail.
    pub task_layer: TaskLayer,
}

impl Settings {
    /// A landscape for a person: real time, real randomness, TLS on `port`.
    #[must_use]
    pub fn real(data_dir: PathBuf, port: u16) -> Self {
        Self {
            port: Port::Loopback(port),
            data_dir,
            seed: SeedSettings::default(),
            dns: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0))),
            clock: Clock::real(),
            entropy: Entropy::os(),
            feed: Feed::default(),
            audit_records: 0,
            layers: Layers::default(),
            task_layer: TaskLayer::default(),
        }
    }

    /// A landscape that replays: virtual time from `epoch`, randomness from `number`, no sockets.
    #[must_use]
    pub fn simulated(data_dir: PathBuf, epoch: Timestamp, number: u64) -> Self {
        Self {
            port: Port::InProcess,
            dns: None,
            clock: Clock::simulated(epoch),
            entropy: Entropy::seeded(number),
            audit_records: AUDIT_RECORDS_MAX,
            ..Self::real(data_dir, 0)
        }
    }
}
