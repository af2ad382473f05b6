//! What an author puts an extension together from.

use std::fmt;
use std::sync::Arc;

use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use base_process::{Elected, Readiness};
use base_telemetry::Metrics;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::About;
use crate::extension::Extension;

/// What a program has before its extension exists: it is given to the function that puts the extension together.
pub struct Setup {
    /// The program.
    pub about: About,
    /// The seed. Calls are counted in the metrics.
    pub client: Client,
    /// Connects to shoots.
    pub connector: Arc<dyn Connector>,
    /// What time it is.
    pub clock: Clock,
    /// Random numbers.
    pub entropy: Entropy,
    /// What `/metrics` shows.
    pub metrics: Metrics,
    /// The extension's namespace; none outside of a pod, unless it is named.
    pub namespace: Option<String>,
    /// This process among all replicas.
    pub identity: String,
    /// Done once the program is to end.
    pub stop: CancellationToken,
    /// The client whose calls are not counted: of leader election.
    unwatched: Client,
    readiness: Readiness,
    everywhere: JoinSet<Result<(), Fault>>,
}

impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("about", &self.about)
            .field("namespace", &self.namespace)
            .field("identity", &self.identity)
            .finish_non_exhaustive()
    }
}

impl Setup {
    pub(super) fn new(
        about: About,
        elected: &Elected,
        client: Client,
        connector: Arc<dyn Connector>,
        namespace: Option<String>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            about,
            client: elected.watched(client.clone()),
            unwatched: client,
            connector,
            clock: elected.clock.clone(),
            entropy: elected.entropy.clone(),
            metrics: elected.metrics().clone(),
            namespace,
            identity: elected.identity.clone(),
            stop,
            readiness: elected.readiness(),
            everywhere: JoinSet::new(),
        }
    }

    /// An extension to add actuators to. Its name, metrics and heartbeat are set already.
    #[must_use]
    pub fn extension(&self) -> Extension {
        let (client, clock, entropy) = (self.client.clone(), self.clock.clone(), self.entropy.clone());
        Extension::builder(self.about.name, client, clock, entropy, self.stop.clone()).metrics(&self.metrics)
    }

    /// Runs a task in every replica from now on, whether it leads or not. It should end with [`Setup::stop`]; when it fails, the
    /// program ends. Must be called within a tokio runtime.
    pub fn everywhere(&mut self, task: impl Future<Output = Result<(), Fault>> + Send + 'static) {
        self.everywhere.spawn(task);
    }

    /// Adds what must hold in every replica before `/readyz` is true. It is called for each probe and must not block.
    pub fn ready_when(&self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.readiness.when(check);
    }

    pub(super) fn unwatched(&self) -> Client {
        self.unwatched.clone()
    }

    pub(super) fn into_everywhere(self) -> JoinSet<Result<(), Fault>> {
        self.everywhere
    }
}
