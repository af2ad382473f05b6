//! What runs beside the API server, each part with a kubeconfig of its own. None knows that the others run beside it.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use cluster_controllers::{Name, NodeRanges, Options};
use cluster_front::Front;
use cluster_node::{ImageCatalogue, Network, NodeOptions, NodeServices, PodAddresses, Volumes};
use ipnet::{IpNet, Ipv4Net};
use kube::config::Kubeconfig;
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::cluster::Access;
use crate::kubelets::serve_node;

/// Users of the parts, as kubeadm's certificates name them; RBAC's default policy has their rules.
const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
/// Where Leases of leadership are, as upstream's.
const LEASES: &str = "kube-system";
/// Where nodes get their pods' addresses from: the shared address space (RFC 6598).
const POD_RANGES: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 11));
/// The pause before a node that has ended is started again: as the first back-off of a crashing container.
const RESTART_AFTER: Duration = Duration::from_secs(10);

/// What every part needs to run.
#[derive(Clone, Copy)]
pub(crate) struct Runs<'a> {
    pub(crate) access: &'a Access,
    pub(crate) front: &'a Front,
    pub(crate) clock: &'a Clock,
    pub(crate) entropy: &'a Entropy,
    pub(crate) tasks: &'a TaskTracker,
    pub(crate) stop: &'a CancellationToken,
    /// Whether controllers run only while no other replica's do.
    pub(crate) elected: bool,
}

impl Runs<'_> {
    /// Runs `work` as `user`, behind the Lease where replicas elect.
    pub(crate) fn run<W, F>(&self, user: &str, lease: &'static str, work: W) -> Result<(), Fault>
    where
        W: Fn(Client, CancellationToken) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let client = self.client(user, &[])?;
        if !self.elected {
            self.tasks.spawn(work(client, self.stop.clone()));
            return Ok(());
        }
        let gate = Gate {
            identity: format!("{}_{}", self.access.url(), self.entropy.uid()),
            clock: self.clock.clone(),
            stop: self.stop.clone(),
        };
        let of_work = client.clone();
        self.tasks
            .spawn(gate.lead(client, lease, move |leading| work(of_work.clone(), leading)));
        Ok(())
    }

    /// Runs `work` as `user`, beside every replica.
    pub(crate) fn run_on_each<W, F>(&self, user: &str, work: W) -> Result<(), Fault>
    where
        W: FnOnce(Client, CancellationToken) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(work(self.client(user, &[])?, self.stop.clone()));
        Ok(())
    }

    fn client(&self, user: &str, groups: &[&str]) -> Result<Client, Fault> {
        self.front.client(&self.kubeconfig(user, groups)?)
    }

    fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<Kubeconfig, Fault> {
        self.access.kubeconfig(user, groups, self.clock, self.entropy)
    }
}

/// The parts that stand beside every kube-apiserver.
pub(crate) struct Parts<'a> {
    pub(crate) runs: Runs<'a>,
    /// Whether there may be others on the same store.
    pub(crate) replicated: bool,
    pub(crate) services: NodeServices,
    /// The network of its node's pods.
    pub(crate) network: Network,
}

impl Parts<'_> {
    /// Controllers as in kube-controller-manager, and where it is wanted a scheduler.
    pub(crate) fn start_controllers(&self, controllers: BTreeSet<Name>, scheduler: bool) -> Result<(), Fault> {
        let runs = &self.runs;
        if !controllers.is_empty() {
            let options = Options {
                controllers,
                signer: Some(runs.access.keys.clients.clone()),
                root_ca: Some(runs.access.keys.authority.certificate_pem()),
                node_ranges: self.replicated.then(node_ranges).transpose()?,
                ..Options::all(runs.clock.clone(), runs.entropy.clone())
            };
            runs.run(CONTROLLERS, "kube-controller-manager", move |client, stop| {
                cluster_controllers::run(client, options.clone(), stop)
            })?;
        }
        if scheduler {
            let clock = runs.clock.clone();
            runs.run(SCHEDULER, "kube-scheduler", move |client, stop| {
                cluster_controllers::scheduler::run(client, clock.clone(), stop)
            })?;
        }
        Ok(())
    }

    /// A node that runs the images of the catalogue.
    pub(crate) async fn start_node(
        &self,
        name: &str,
        catalogue: Arc<ImageCatalogue>,
        volumes: Volumes,
    ) -> Result<(), Fault> {
        let runs = &self.runs;
        // Nodes of other processes see nothing of this one's network.
        let pod_addresses = match self.replicated {
            true => PodAddresses::OfNode,
            false => PodAddresses::part_of(POD_RANGES),
        };
        let (user, groups) = (format!("system:node:{name}"), ["system:nodes"]);
        // API servers of other processes call it there.
        let port = match self.replicated {
            true => {
                let client = runs.client(&user, &groups)?;
                let (when, until) = ((runs.clock, runs.entropy), (runs.tasks, runs.stop));
                Some(serve_node(name, &self.services, client, &runs.access.keys, when, until).await?)
            }
            false => None,
        };
        let options = NodeOptions {
            volumes,
            network: self.network.clone(),
            port,
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            pod_addresses,
            services: self.services.clone(),
            ..NodeOptions::new(
                name,
                runs.kubeconfig(&user, &groups)?,
                Arc::new(runs.front.clone()),
                catalogue,
                runs.clock.clone(),
                runs.entropy.clone(),
            )
        };
        runs.tasks.spawn(run_node(options, runs.stop.clone()));
        Ok(())
    }
}

fn node_ranges() -> Result<NodeRanges, Fault> {
    NodeRanges::new(&[(POD_RANGES, None)], Vec::new()).map_err(|error| Fault::bug(error.to_string()))
}

/// The identity of one replica among the others.
#[derive(Clone)]
struct Gate {
    identity: String,
    clock: Clock,
    stop: CancellationToken,
}

impl Gate {
    /// Does the work while this replica holds the Lease, named and placed as upstream's.
    async fn lead<W, F>(self, client: Client, lease: &'static str, work: W)
    where
        W: Fn(CancellationToken) -> F,
        F: Future<Output = ()>,
    {
        loop {
            let leases = Api::namespaced(client.clone(), LEASES);
            let (clock, stop) = (self.clock.clone(), self.stop.clone());
            match base_controller::lead(leases, lease, &self.identity, clock, stop, &work).await {
                Ok(()) => return,
                Err(lost) => tracing::warn!("{lost}; it is taken again as soon as no other process holds it"),
            }
        }
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
