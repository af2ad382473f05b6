//! What runs beside the API server, each part with a kubeconfig of its own. None knows that the others run beside it.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use cluster_controllers::Options;
use cluster_front::Front;
use cluster_node::{ImageCatalogue, NodeOptions, Volumes};
use kube::Client;
use kube::config::Kubeconfig;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Access;

/// Users of the parts, as kubeadm's certificates name them; RBAC's default policy knows what they may.
const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
/// How long a node that has ended is left alone: as the first back-off of a crashing container.
const RESTART_AFTER: Duration = Duration::from_secs(10);

/// What the parts share.
pub(crate) struct Parts<'a> {
    pub(crate) access: &'a Access,
    pub(crate) front: &'a Front,
    pub(crate) clock: &'a Clock,
    pub(crate) entropy: &'a Entropy,
    pub(crate) tasks: &'a TaskTracker,
    pub(crate) stop: &'a CancellationToken,
}

impl Parts<'_> {
    /// Controllers as in kube-controller-manager, and a scheduler.
    pub(crate) fn start_controllers(&self) -> Result<(), Fault> {
        let options = Options {
            signer: Some(self.access.keys.clients.clone()),
            root_ca: Some(self.access.keys.authority.certificate_pem()),
            ..Options::all(self.clock.clone(), self.entropy.clone())
        };
        let stop = self.stop.clone();
        let controllers = cluster_controllers::run(self.client(CONTROLLERS, &[])?, options, stop.clone());
        self.tasks.spawn(controllers);
        let scheduler = self.client(SCHEDULER, &[])?;
        self.tasks
            .spawn(cluster_controllers::scheduler::run(scheduler, self.clock.clone(), stop));
        Ok(())
    }

    /// A node that runs what the catalogue knows.
    pub(crate) fn start_node(&self, name: &str, catalogue: Arc<ImageCatalogue>, volumes: Volumes) -> Result<(), Fault> {
        let options = NodeOptions {
            volumes,
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ..NodeOptions::new(
                name,
                self.kubeconfig(&format!("system:node:{name}"), &["system:nodes"])?,
                Arc::new(self.front.clone()),
                catalogue,
                self.clock.clone(),
                self.entropy.clone(),
            )
        };
        self.tasks.spawn(run_node(options, self.stop.clone()));
        Ok(())
    }

    fn client(&self, user: &str, groups: &[&str]) -> Result<Client, Fault> {
        self.front.client(&self.kubeconfig(user, groups)?)
    }

    fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<Kubeconfig, Fault> {
        self.access.kubeconfig(user, groups, self.clock, self.entropy)
    }
}

/// Runs the node again when it ends before it should, as a machine's supervisor would.
async fn run_node(options: NodeOptions, stop: CancellationToken) {
    while let Err(fault) = cluster_node::run(options.clone(), stop.clone()).await {
        tracing::error!(
            "the node ended, it is started again in {RESTART_AFTER:?}: {}",
            fault.chain()
        );
        let pause = tokio::time::sleep(RESTART_AFTER);
        if stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}
