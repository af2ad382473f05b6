//! What an embedded API server needs beside it: the controllers of kube-controller-manager that this landscape uses,
//! and a small scheduler, over any `kube::Client`.
//!
//! They are ordinary clients: they see the cluster through watches, write with optimistic concurrency and need the
//! rights of their user. They know no store and no API server from inside, keep no state that a restart would lose,
//! and send nothing while nothing happens. One [`run`] is one set with one watch per kind; hundreds of sets fit one
//! process.

mod accounts;
mod adoption;
mod bootstrap_tokens;
mod caches;
mod certificates;
mod claims;
mod daemon_sets;
mod deployments;
mod endpoints;
mod garbage;
mod inventory;
mod jobs;
mod kinds;
mod matching;
mod namespaces;
mod node_ranges;
mod nodes;
mod pod_garbage;
mod pods;
mod quotas;
mod replica_sets;
mod request_garbage;
pub mod scheduler;
mod seen;
mod stateful_sets;
mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use base_clock::{Clock, Entropy};
use base_controller::Recorder;
use base_secrets::Authority;
use kube::Client;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use caches::Caches;
use inventory::Inventory;
pub use node_ranges::{NodeRanges, NodeRangesError};
use seen::UnseenWrites;

/// A controller of the set, named as kube-controller-manager's `--controllers` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Name {
    /// Empties namespaces that are being deleted.
    Namespace,
    /// Deletes what its owners leave behind.
    GarbageCollector,
    /// Deployments.
    Deployment,
    /// ReplicaSets.
    ReplicaSet,
    /// StatefulSets.
    StatefulSet,
    /// DaemonSets.
    DaemonSet,
    /// Jobs.
    Job,
    /// EndpointSlices and Endpoints of Services with a selector.
    EndpointSlice,
    /// Volumes for claims.
    PersistentVolume,
    /// The service account `default` of each namespace.
    ServiceAccount,
    /// The config map `kube-root-ca.crt` of each namespace.
    RootCaPublisher,
    /// Approves the certificate requests of joining and joined nodes.
    CsrApproving,
    /// Signs approved certificate requests.
    CsrSigning,
    /// Deletes certificate requests that are settled or that have waited too long.
    CsrCleaner,
    /// Gives nodes their ranges of pod addresses.
    NodeIpam,
    /// Evaluates nodes by their heartbeats.
    NodeLifecycle,
    /// Deletes pods whose node is gone.
    PodGc,
    /// Deletes bootstrap tokens when they expire.
    TokenCleaner,
    /// Counts what ResourceQuotas limit.
    ResourceQuota,
}

impl Name {
    /// Every controller.
    pub const ALL: [Name; 19] = [
        Name::Namespace,
        Name::GarbageCollector,
        Name::Deployment,
        Name::ReplicaSet,
        Name::StatefulSet,
        Name::DaemonSet,
        Name::Job,
        Name::EndpointSlice,
        Name::PersistentVolume,
        Name::ServiceAccount,
        Name::RootCaPublisher,
        Name::CsrApproving,
        Name::CsrSigning,
        Name::CsrCleaner,
        Name::NodeIpam,
        Name::NodeLifecycle,
        Name::PodGc,
        Name::TokenCleaner,
        Name::ResourceQuota,
    ];

    /// Who its events come from (kubernetes/kubernetes v1.35: what each controller gives its recorder).
    fn component(self) -> &'static str {
        match self {
            Name::Deployment => "deployment-controller",
            Name::ReplicaSet => "replicaset-controller",
            Name::StatefulSet => "statefulset-controller",
            Name::DaemonSet => "daemonset-controller",
            Name::Job => "job-controller",
            Name::NodeIpam => "cidrAllocator",
            Name::NodeLifecycle => "node-controller",
            _ => "controller-manager",
        }
    }

    /// What an API server without pods needs: namespaces, owners, service accounts.
    pub const WITHOUT_WORKLOADS: [Name; 5] = [
        Name::Namespace,
        Name::GarbageCollector,
        Name::ServiceAccount,
        Name::RootCaPublisher,
        Name::ResourceQuota,
    ];
}

/// What a set consists of and what it was given.
#[derive(Clone)]
pub struct Options {
    /// Which controllers run.
    pub controllers: BTreeSet<Name>,
    /// Signs certificate requests; without it they stay unsigned.
    pub signer: Option<Arc<Authority>>,
    /// The authority of the API server's certificate as PEM, for [`Name::RootCaPublisher`]; without it nothing is
    /// published.
    pub root_ca: Option<String>,
    /// What [`Name::NodeIpam`] gives to nodes; without it they get nothing from it.
    pub node_ranges: Option<NodeRanges>,
    /// The time.
    pub clock: Clock,
    /// Serial numbers of certificates.
    pub entropy: Entropy,
}

impl Options {
    /// Every controller, without authorities.
    pub fn all(clock: Clock, entropy: Entropy) -> Self {
        Options {
            controllers: Name::ALL.into(),
            signer: None,
            root_ca: None,
            node_ranges: None,
            clock,
            entropy,
        }
    }
}

/// What all controllers of a set share.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) inventory: Inventory,
    pub(crate) clock: Clock,
    pub(crate) events: Recorder,
    pub(crate) unseen_writes: UnseenWrites,
}

/// Runs a set until `stop`. A controller whose watches are refused waits and tries again; it holds up no other.
pub async fn run(client: Client, options: Options, stop: CancellationToken) {
    let Options {
        controllers,
        signer,
        root_ca,
        node_ranges,
        clock,
        entropy,
    } = options;
    let caches = Caches::new(client.clone(), stop.clone());
    let inventory = Inventory::new(client.clone(), caches.clone(), stop.clone());
    let unseen_writes = UnseenWrites::default();
    let mut running = JoinSet::new();
    for name in controllers {
        let context = Context {
            events: Recorder::new(client.clone(), name.component(), clock.clone()),
            client: client.clone(),
            caches: caches.clone(),
            inventory: inventory.clone(),
            clock: clock.clone(),
            unseen_writes: unseen_writes.clone(),
        };
        let stop = stop.clone();
        match name {
            Name::Namespace => running.spawn(namespaces::run(context, stop)),
            Name::GarbageCollector => running.spawn(garbage::run(context, stop)),
            Name::Deployment => running.spawn(deployments::run(context, stop)),
            Name::ReplicaSet => running.spawn(replica_sets::run(context, stop)),
            Name::StatefulSet => running.spawn(stateful_sets::run(context, stop)),
            Name::DaemonSet => running.spawn(daemon_sets::run(context, stop)),
            Name::Job => running.spawn(jobs::run(context, stop)),
            Name::EndpointSlice => running.spawn(endpoints::run(context, stop)),
            Name::PersistentVolume => running.spawn(volumes::run(context, stop)),
            Name::ServiceAccount => running.spawn(accounts::run_accounts(context, stop)),
            Name::RootCaPublisher => match root_ca.clone() {
                Some(root_ca) => running.spawn(accounts::run_root_ca(context, root_ca, stop)),
                None => continue,
            },
            Name::CsrApproving => running.spawn(certificates::run_approver(context, stop)),
            Name::CsrSigning => match signer.clone() {
                Some(signer) => running.spawn(certificates::run_signer(context, signer, entropy.clone(), stop)),
                None => continue,
            },
            Name::CsrCleaner => running.spawn(request_garbage::run(context, stop)),
            Name::NodeIpam => match node_ranges.clone() {
                Some(ranges) => running.spawn(node_ranges::run(context, ranges, stop)),
                None => continue,
            },
            Name::NodeLifecycle => running.spawn(nodes::run(context, stop)),
            Name::PodGc => running.spawn(pod_garbage::run(context, stop)),
            Name::ResourceQuota => running.spawn(quotas::run(context, stop)),
            Name::TokenCleaner => running.spawn(bootstrap_tokens::run(context, stop)),
        };
    }
    while let Some(ended) = running.join_next().await {
        if let Err(error) = ended {
            tracing::error!("a controller ended: {error}");
        }
    }
}
