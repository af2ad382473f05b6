//! The production form as one landscape on loopback: a garden and its seeds on real Kubernetes, and each of our parts a process
//! with the rights of its manifests. All files are in one folder; started on it again, the landscape goes on where it was.
//! No process outlives its owner, however that ends.

pub mod audit;
mod configuration;
mod garden_side;
pub mod granted;
mod part;
mod ports;
mod rights;
mod seed_side;
mod serving;

use std::path::PathBuf;

use api_core::v1beta1::Seed;
use api_meta::conditions::seed::{BACKUP_BUCKETS_READY, EXTENSIONS_READY, GARDENLET_READY, SYSTEM_COMPONENTS_HEALTHY};
use api_meta::{Condition, ConditionStatus};
use base_client::{WaitState, wait_until};
use kube::Api;
use landscape_local::SeedSettings;
use tests_conformance::real::Options;
use tests_parts::Outcome;

pub use configuration::Election;
pub use garden_side::OfGarden;
pub use part::{Health, Part};
pub use seed_side::OfSeed;
pub use serving::serving;

use crate::PATIENCE;

/// Every request but that of watches' beginnings, once it is answered, without bodies.
const AUDIT_POLICY: &str =
    "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n- level: Metadata\n";

/// What a landscape is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of all its files.
    pub folder: PathBuf,
    /// How many seeds, at most [`landscape_local::SEEDS_MAX`]; none in a garden alone.
    pub seed_count: u8,
    /// Whether etcd answers once its data is on the disk.
    pub durable: bool,
    /// Whether each kube-apiserver writes an audit log.
    pub audited: bool,
    /// How replicas agree on the one that works.
    pub election: Election,
}

impl Settings {
    /// For a person who tries it: nothing is lost when the machine stops.
    #[must_use]
    pub fn for_person(folder: PathBuf, seed_count: u8) -> Self {
        Self {
            folder,
            seed_count,
            durable: true,
            audited: false,
            election: Election::DEFAULT,
        }
    }

    /// For a test that kills processes and reads what they did.
    #[must_use]
    pub fn for_test(folder: PathBuf) -> Self {
        Self {
            folder,
            seed_count: 1,
            durable: false,
            audited: true,
            election: Election::SHORT,
        }
    }

    /// Its seeds, whose address ranges do not overlap.
    fn seeds(&self) -> impl Iterator<Item = SeedSettings> {
        (1..=self.seed_count).map(SeedSettings::numbered)
    }

    fn of_kubernetes(&self, with_scheduler: bool) -> Options {
        Options {
            controllers: true,
            scheduler: with_scheduler,
            durable: self.durable,
            audit_policy: self.audited.then_some(AUDIT_POLICY),
            ..Options::default()
        }
    }
}

/// A running landscape, until it is dropped: seeds end before the garden.
pub struct Landscape {
    /// The seeds.
    pub seeds: Vec<OfSeed>,
    /// The garden.
    pub garden: OfGarden,
}

impl Landscape {
    /// Starts it and waits until every part is ready; that a Shoot can be taken shows [`Landscape::until_ready`].
    ///
    /// # Errors
    /// A real part is missing, a port is taken, or a part does not become ready; nothing runs then.
    ///
    /// # Panics
    /// The garden does not start.
    pub async fn start(settings: &Settings) -> Outcome<Self> {
        let folder = tests_parts::Folder::lasting(settings.folder.clone())?;
        let mut ports = ports::Ports::of_folder(folder.path())?;
        let garden = OfGarden::start(settings, &mut ports).await?;
        let mut seeds = Vec::new();
        for seed in settings.seeds() {
            seeds.push(OfSeed::start(settings, &seed, &garden.garden, &mut ports).await?);
        }
        for part in seeds.iter_mut().flat_map(OfSeed::parts) {
            part.until_ready().await?;
        }
        Ok(Self { seeds, garden })
    }

    /// Waits until every seed takes Shoots: its own parts run, and the local provider is installed by its chart.
    ///
    /// # Errors
    /// One does not in time.
    pub async fn until_ready(&self) -> Outcome {
        let seeds: Api<Seed> = Api::all(self.garden.garden.admin.clone());
        for seed in &self.seeds {
            let ready = wait_until(&seeds, &seed.name, PATIENCE, is_ready).await;
            ready.map_err(|waited| waited.to_string())?;
        }
        Ok(())
    }

    /// All parts that can be killed and started again.
    pub fn parts(&mut self) -> impl Iterator<Item = &mut Part> {
        let of_seeds = self.seeds.iter_mut().flat_map(OfSeed::parts);
        self.garden.parts().into_iter().chain(of_seeds)
    }
}

/// The conditions that a Seed which takes Shoots reports True.
const WANTED: [&str; 4] = [
    GARDENLET_READY,
    SYSTEM_COMPONENTS_HEALTHY,
    EXTENSIONS_READY,
    BACKUP_BUCKETS_READY,
];

fn is_ready(seed: Option<&Seed>) -> WaitState<()> {
    let conditions = seed.and_then(|seed| seed.status.as_ref());
    let conditions = conditions.map_or(&[][..], |status| &status.conditions);
    let missing = WANTED
        .into_iter()
        .find_map(|type_| match Condition::find(conditions, type_) {
            Some(condition) if condition.status == ConditionStatus::True => None,
            Some(condition) => Some(format!("its condition {type_} is not True: {}", condition.message)),
            None => Some(format!("its condition {type_} is not there yet")),
        });
    missing.map_or(WaitState::Done(()), WaitState::NotYet)
}
