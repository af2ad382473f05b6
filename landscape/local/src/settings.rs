//! What can be chosen about a landscape, and what stands when nothing is chosen. Plain values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base_client::Layers;
use base_clock::{Clock, Entropy};
use base_flow_run::{Feed, TaskLayer};
use cluster_apiserver::AUDIT_RECORDS_MAX;
use cluster_programs::ImageFile;
use ipnet::Ipv4Net;
use jiff::Timestamp;

pub use control_plane_gardenlet::NodeAccess;
pub use landscape_data_folder::kubeconfig::SEED_FIRST;

/// Where the landscape can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Over TLS on this port of 127.0.0.1; 0 takes a free one.
    Loopback(u16),
    /// Only from within the process: no socket is opened, so that a run can be replayed in virtual time.
    InProcess,
}

/// Seeds of one landscape at most: what has an address range of its own, and what a laptop carries.
pub const SEEDS_MAX: u8 = 9;

/// The ranges of a seed's addresses. No two seeds of a landscape share one, and but for the first seed's, none lies in
/// 10.0.0.0/8, where the local provider puts the nodes of Shoots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeedNetworks {
    /// The range of its nodes.
    pub nodes: Ipv4Net,
    /// The range of its pods.
    pub pods: Ipv4Net,
    /// The range of its Services.
    pub services: Ipv4Net,
}

impl SeedNetworks {
    /// Those of the seed with this number, 1 to [`SEEDS_MAX`].
    fn numbered(number: u8) -> Self {
        let net = |octets: [u8; 4], prefix| Ipv4Net::new_assert(octets.into(), prefix);
        match number {
            // As Gardener's own local setup has it.
            0 | 1 => Self {
                nodes: net([172, 18, 0, 0], 16),
                pods: net([10, 1, 0, 0], 16),
                services: net([10, 2, 0, 0], 16),
            },
            more => Self {
                nodes: net([192, 168, 16 * more, 0], 21),
                pods: net([172, 17 + more, 0, 0], 16),
                services: net([192, 168, 16 * more + 8, 0], 21),
            },
        }
    }
}

/// One seed of the landscape and the provider behind it.
#[derive(Clone, Debug)]
pub struct SeedSettings {
    /// Name of the Seed.
    pub name: String,
    /// Labels of the Seed.
    pub labels: BTreeMap<String, String>,
    /// Its region; Shoots of this region are placed here.
    pub region: String,
    /// The type under which the local provider is registered, for every kind.
    pub provider_type: String,
    /// Its addresses.
    pub networks: SeedNetworks,
    /// Whether Shoots get a backup entry.
    pub backup: bool,
}

impl SeedSettings {
    /// The seed with this number, 1 to [`SEEDS_MAX`]: `local`, `local-2`, `local-3`, ...
    #[must_use]
    pub fn numbered(number: u8) -> Self {
        let name = match number {
            0 | 1 => SEED_FIRST.to_owned(),
            more => format!("{SEED_FIRST}-{more}"),
        };
        Self {
            name,
            labels: BTreeMap::new(),
            region: "local".to_owned(),
            provider_type: "local".to_owned(),
            networks: SeedNetworks::numbered(number),
            backup: true,
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
    /// The seeds; at least one. The first one's place in a state is that of the only one.
    pub seeds: Vec<SeedSettings>,
    /// Replicas of the provider's Deployments; 0 leaves the work to a process of the provider's own.
    pub provider_replicas: i32,
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
    /// Images that the seeds' nodes run as programs of this machine.
    pub images: Option<ImageFile>,
    /// How API servers of Shoots reach nodes; `None`: through a tunnel where `images` has both of its ends, else directly. Tests
    /// choose: here API servers without programs reach nodes in either case, and the tunnel's ends are there and carry nothing.
    pub node_access: Option<NodeAccess>,
}

impl Settings {
    /// A landscape for a person: real time, real randomness, TLS on `port`.
    #[must_use]
    pub fn real(data_dir: PathBuf, port: u16) -> Self {
        Self {
            port: Port::Loopback(port),
            data_dir,
            seeds: vec![SeedSettings::numbered(1)],
            provider_replicas: 1,
            dns: Some(std::net::SocketAddr::from(([127, 0, 0, 1], 0))),
            clock: Clock::real(),
            entropy: Entropy::os(),
            feed: Feed::default(),
            audit_records: 0,
            layers: Layers::default(),
            task_layer: TaskLayer::default(),
            images: None,
            node_access: None,
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

    /// The same with so many seeds, 1 to [`SEEDS_MAX`].
    #[must_use]
    pub fn with_seeds(self, count: u8) -> Self {
        Self {
            seeds: (1..=count).map(SeedSettings::numbered).collect(),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_address_ranges_of_seeds_overlap() {
        let settings = Settings::real(PathBuf::new(), 0).with_seeds(SEEDS_MAX);
        let ranges: Vec<Ipv4Net> = settings
            .seeds
            .iter()
            .flat_map(|seed| [seed.networks.nodes, seed.networks.pods, seed.networks.services])
            .collect();
        assert_eq!(ranges.len(), 27);
        for (place, one) in ranges.iter().enumerate() {
            assert_eq!(*one, one.trunc());
            for other in &ranges[place + 1..] {
                assert!(!one.contains(other) && !other.contains(one), "{one} {other}");
            }
        }
        let of_shoots: Ipv4Net = "10.0.0.0/8".parse().unwrap();
        assert!(ranges[3..].iter().all(|range| !of_shoots.contains(range)));
    }

    #[test]
    fn seeds_are_named_after_their_number_but_for_the_first() {
        let settings = Settings::real(PathBuf::new(), 0).with_seeds(3);
        let names: Vec<&str> = settings.seeds.iter().map(|seed| seed.name.as_str()).collect();
        assert_eq!(names, ["local", "local-2", "local-3"]);
    }
}
