//! Garden, seeds and local provider in one process: starts each part under its own identity and stops them together.
//! Wiring alone: no part knows that the others run beside it, and none is handed anything that it could not be
//! handed in a process of its own.

mod api;
mod bootstrap;
mod confined;
pub mod example;
mod garden;
mod network_labels;
mod parts;
mod provider_chart;
mod readiness;
mod seed;
mod settings;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use base_client::Connector;
use cluster_apiserver::{ApiServer, AuditLog};
use cluster_front::Front;
use control_plane_confinement::Keeper;
use kube::config::Kubeconfig;
use landscape_data_folder::server_state::bind;

pub use api::Api;
use parts::Parts;
use readiness::{Before, Readiness};

pub use bootstrap::{
    BACKUPS, apply_all, apply_garden, documents, manifests_of_garden, manifests_of_seed, provider_objects,
    secrets_of_seed, seed_object,
};
pub use confined::{ADMISSION_CONTROLLER, confinement};
pub use garden::{CONTROLLER_MANAGER, SCHEDULER};
pub use provider_chart::provider_rules;
pub use readiness::NotHealthy;
pub use settings::{NodeAccess, Port, SEED_FIRST, SEEDS_MAX, SeedNetworks, SeedSettings, Settings};
pub use state::State;

/// The group of people who run the landscape; bound to `cluster-admin` in the garden and in the seeds.
pub const ADMINS: &str = "orangery:admins";
/// Their user name.
const ADMIN: &str = "orangery-admin";

/// How long parts may take to end when the landscape cannot start: twice what a node gives its pods.
const GIVE_UP_PATIENCE: Duration = Duration::from_secs(10);

/// A running landscape. Dropping it leaves its parts running until [`Landscape::stop`] or the end of the process.
pub struct Landscape {
    /// The garden's API server.
    pub garden: Api,
    /// The seeds, in the order of the settings.
    pub seeds: Vec<RunningSeed>,
    audits: Audits,
    front: Front,
    address: String,
    readiness: Readiness,
    parts: Parts,
}

/// A seed of a running landscape.
pub struct RunningSeed {
    /// Name of the Seed.
    pub name: String,
    /// The seed's API server.
    pub api: Api,
    before: Before,
}

impl RunningSeed {
    /// The kubeconfig of the people who run the landscape, for this seed.
    ///
    /// # Errors
    /// The certificate cannot be made, which is a bug.
    pub fn kubeconfig(&self) -> Result<Kubeconfig, Fault> {
        self.api.kubeconfig(ADMIN, &[ADMINS])
    }
}

/// The audit records of the API servers that Shoots run, by the server's name: the Shoot's namespace in the seed.
#[derive(Clone, Default)]
pub(crate) struct Audits(Arc<Mutex<BTreeMap<String, AuditLog>>>);

impl Audits {
    fn add(&self, server: &ApiServer) {
        let mut logs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        logs.insert(server.name().to_owned(), server.audit().clone());
    }
}

impl Landscape {
    /// Starts everything on what is kept and returns once all parts run; that a Shoot can be taken shows at the garden's
    /// `/readyz`. On one state, one landscape runs at a time.
    ///
    /// # Errors
    /// A port that is taken, images that make a part of a tunnel, or a bootstrap object that is refused; then nothing runs any
    /// more.
    pub async fn start(settings: &Settings, state: &State) -> Result<Self, Fault> {
        let parts = Parts::default();
        let started = Self::start_parts(settings, state, parts.clone()).await;
        if started.is_err() && tokio::time::timeout(GIVE_UP_PATIENCE, parts.end()).await.is_err() {
            tracing::warn!(
                "left behind after {GIVE_UP_PATIENCE:?}, because they did not end: {:?}",
                parts.left()
            );
        }
        started
    }

    async fn start_parts(settings: &Settings, state: &State, parts: Parts) -> Result<Self, Fault> {
        state.check(settings)?;
        settings
            .images
            .as_ref()
            .map_or(Ok(()), landscape_images::tunnel::check)?;
        let front = Front::new(settings.clock.clone()).with_layers(settings.layers.clone());
        let address = listen(&front, settings.port, &parts).await?;
        let keeper = Keeper::default();
        let garden = garden::start_api(settings, state, &front, &address, keeper.clone()).await?;
        let garden_client = garden.server().loopback_client();
        bootstrap::garden(&garden_client, settings).await?;
        let own = bootstrap::registrations(settings);
        let mut seeds = Vec::new();
        for (of_state, of_seed) in state.seeds.iter().zip(&settings.seeds) {
            let api = seed::start_api(settings, of_seed, &of_state.data, &front, &address).await?;
            let client = api.server().loopback_client();
            bootstrap::seed(&client).await?;
            let before = Before::look(&garden_client, &client, &of_seed.name, &own).await?;
            seeds.push(RunningSeed {
                name: of_seed.name.clone(),
                api,
                before,
            });
        }
        garden::start_parts(settings, &front, &garden, keeper, &parts)?;
        let audits = Audits::default();
        for (place, seed) in seeds.iter().enumerate() {
            seed::start_parts(&seed::Surroundings {
                settings,
                seed: &settings.seeds[place],
                volumes: &state.seeds[place].volumes,
                front: &front,
                garden: &garden,
                api: &seed.api,
                audits: &audits,
                parts: &parts,
            })?;
        }
        let client = front.client(&garden.kubeconfig(ADMIN, &[ADMINS])?)?;
        let readiness = Readiness::watch(&client, own, &parts.stop);
        let (of_check, names) = (
            readiness.clone(),
            seeds.iter().map(|seed| seed.name.clone()).collect::<Vec<_>>(),
        );
        let (checks, of_parts) = (garden.server().readiness(), parts.clone());
        checks.add("seed-ready", move || of_check.first_missing(&names).map_or(Ok(()), Err));
        checks.add("parts", move || of_parts.first_down().map_or(Ok(()), Err));
        Ok(Self {
            garden,
            seeds,
            audits,
            front,
            address,
            readiness,
            parts,
        })
    }

    /// `https://127.0.0.1:PORT`, the address of every API server of the process.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Makes clients from kubeconfigs without leaving the process.
    #[must_use]
    pub fn connector(&self) -> Arc<dyn Connector> {
        Arc::new(self.front.clone())
    }

    /// The audit record of a Shoot's API server, of its newest start; `technical_id` is its namespace in the seed.
    #[must_use]
    pub fn audit_of(&self, technical_id: &str) -> Option<AuditLog> {
        self.audits
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(technical_id)
            .cloned()
    }

    /// Waits until every seed can take a Shoot: it is ready, the landscape's own extensions are installed, and those who
    /// reported so before a restart are back. Gives the extensions of users that do not work.
    ///
    /// # Errors
    /// `patience` is up; the error names what was missing.
    pub async fn ready(&self, patience: Duration) -> Result<Vec<NotHealthy>, Fault> {
        let connector = self.connector();
        let garden = connector.client(&self.garden_kubeconfig()?)?;
        let seeds = self.seeds.iter().map(|seed| async {
            let client = connector.client(&seed.kubeconfig()?)?;
            self.readiness.wait(&seed.before, &garden, &client, patience).await
        });
        Ok(futures::future::try_join_all(seeds).await?.concat())
    }

    /// The kubeconfig of the people who run the landscape, for the garden.
    ///
    /// # Errors
    /// The certificate cannot be made, which is a bug.
    pub fn garden_kubeconfig(&self) -> Result<Kubeconfig, Fault> {
        self.garden.kubeconfig(ADMIN, &[ADMINS])
    }

    /// The same for the first seed.
    ///
    /// # Errors
    /// As [`Self::garden_kubeconfig`].
    pub fn seed_kubeconfig(&self) -> Result<Kubeconfig, Fault> {
        let first = self.seeds.first();
        first
            .ok_or_else(|| Fault::bug("the landscape has no seed"))?
            .kubeconfig()
    }

    /// Stops all parts, then the API servers, and waits for them, but no longer than `patience`. Nothing is lost with a
    /// part that does not end: its writes are stored.
    pub async fn stop(self, patience: Duration) {
        let ending = async {
            self.parts.end().await;
            for seed in &self.seeds {
                seed.api.server().shutdown().await;
            }
            self.garden.server().shutdown().await;
        };
        if tokio::time::timeout(patience, ending).await.is_err() {
            let left = self.parts.left();
            let left = if left.is_empty() {
                "an API server".to_owned()
            } else {
                left.join(", ")
            };
            tracing::warn!("left behind after {patience:?}, because it did not end: {left}");
        }
    }
}

/// Opens the TLS port where one is requested, and returns where clients find it.
async fn listen(front: &Front, port: Port, parts: &Parts) -> Result<String, Fault> {
    let port = match port {
        // Kubeconfigs need an address; in process no client connects to it.
        Port::InProcess => return Ok("https://127.0.0.1:443".to_owned()),
        Port::Loopback(port) => port,
    };
    let listener = bind(port).await?;
    let address = listener
        .local_addr()
        .map_err(|error| Fault::bug(format!("a port that is open has no address: {error}")))?;
    let (front, opened) = (front.clone(), Mutex::new(Some(listener)));
    parts.spawn("TLS port", move |stop| {
        let opened = opened.lock().unwrap_or_else(PoisonError::into_inner).take();
        let front = front.clone();
        async move {
            let listener = match opened {
                Some(listener) => listener,
                None => bind(address.port()).await?,
            };
            front.serve(listener, stop).await;
            Ok(())
        }
    });
    Ok(format!("https://{address}"))
}
