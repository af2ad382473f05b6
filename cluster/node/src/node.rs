//! A node from its registration to its shutdown: three loops (Lease, own Node object, pods) that end together. What
//! happens to one pod is in `pod`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api_meta::Fault;
use base_client::Connector;
use base_clock::{Clock, Entropy};
use futures::StreamExt;
use ipnet::{IpNet, Ipv4Net};
use k8s_openapi::api::core::v1::{Pod, Taint};
use kube::Api;
use kube::config::Kubeconfig;
use kube::runtime::watcher::{self, Event};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::follow::{Pause, follow};
use crate::in_cluster::InCluster;
use crate::network::PodRange;
use crate::pod::sources::adopt_volumes;
use crate::register::Registered;
use crate::shown::Shown;
use crate::{ImageCatalogue, Network, NodeServices, Volumes, lease, pod, register, serve};

/// How long pods may take to stop when the node stops; their owner replaces them elsewhere meanwhile.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// Tries to confirm the deletion of a pod that has no task, while the node stops.
const CONFIRMATIONS_MAX: usize = 3;
/// How many pods a node takes by default: the kubelet's default of `maxPods`.
const PODS: u32 = 110;
/// Pod addresses by default: the size of one node's range in Kubernetes' own default.
const POD_RANGE_LENGTH: u8 = 24;
/// Where pod addresses are taken from by default.
const POD_RANGES: IpNet = IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(100, 64, 0, 0), 11));

/// Where the addresses of a node's pods come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodAddresses {
    /// A free part of a range: the node takes it, and writes it to `spec.podCIDR` when it registers.
    PartOf {
        /// The cluster's range of pod addresses.
        all: IpNet,
        /// The prefix length of the node's part.
        length: u8,
    },
    /// `spec.podCIDR` of the Node, which a controller of its cluster writes. Until then the node is not ready and runs
    /// no pods.
    OfNode,
}

impl PodAddresses {
    /// A part of a range that is as large as Kubernetes' own default.
    pub fn part_of(all: IpNet) -> Self {
        PodAddresses::PartOf {
            all,
            length: POD_RANGE_LENGTH,
        }
    }

    /// A whole range: the node is the cluster's only one.
    pub fn whole(all: IpNet) -> Self {
        PodAddresses::PartOf {
            all,
            length: all.prefix_len(),
        }
    }
}

/// What a node is and what it runs.
#[derive(Clone)]
pub struct NodeOptions {
    /// The Node's name.
    pub name: String,
    /// The node's own credentials, and the cluster that its pods get.
    pub kubeconfig: Kubeconfig,
    /// Makes clients from kubeconfigs, for the node and for its containers.
    pub connector: Arc<dyn Connector>,
    /// What it can run.
    pub catalogue: Arc<ImageCatalogue>,
    /// The pod network of the cluster; all its nodes in a process share one.
    pub network: Network,
    /// What outlives containers; all nodes of a cluster share one set, and no other cluster's nodes do.
    pub volumes: Volumes,
    /// The time.
    pub clock: Clock,
    /// Randomness.
    pub entropy: Entropy,
    /// Labels beside the ones every node has; they win over those.
    pub labels: BTreeMap<String, String>,
    /// Annotations of the Node.
    pub annotations: BTreeMap<String, String>,
    /// Taints at registration.
    pub taints: Vec<Taint>,
    /// Internal addresses.
    pub addresses: Vec<IpAddr>,
    /// Capacity and allocatable, such as `cpu: "4"`; added to and winning over the defaults. Pods are counted in `pods`.
    pub capacity: BTreeMap<String, String>,
    /// How many pods it takes at once, as the kubelet's `maxPods`; the node reports fewer when it has fewer pod addresses.
    pub pods: u32,
    /// The kubelet version it reports, such as `v1.35.0`.
    pub kubelet_version: String,
    /// How its provider names it.
    pub provider_id: Option<String>,
    /// Where its pods' addresses come from.
    pub pod_addresses: PodAddresses,
    /// Where callers of the node itself find it, for logs.
    pub services: NodeServices,
    /// The port of the node's addresses on which [`NodeServices::guarded`] is served over TLS: an API server in another process
    /// connects there.
    pub port: Option<u16>,
}

impl NodeOptions {
    /// A node with nothing beyond what every node has.
    pub fn new(
        name: impl Into<String>,
        kubeconfig: Kubeconfig,
        connector: Arc<dyn Connector>,
        catalogue: Arc<ImageCatalogue>,
        clock: Clock,
        entropy: Entropy,
    ) -> Self {
        NodeOptions {
            name: name.into(),
            kubeconfig,
            connector,
            catalogue,
            network: Network::new(),
            volumes: Volumes::new(),
            clock,
            entropy,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            taints: Vec::new(),
            addresses: Vec::new(),
            capacity: BTreeMap::new(),
            pods: PODS,
            kubelet_version: "v1.35.0".to_owned(),
            provider_id: None,
            pod_addresses: PodAddresses::part_of(POD_RANGES),
            services: NodeServices::default(),
            port: None,
        }
    }
}

/// What every pod of a node needs from it.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) client: kube::Client,
    pub(crate) api: InCluster,
    pub(crate) catalogue: Arc<ImageCatalogue>,
    pub(crate) network: Network,
    pub(crate) volumes: Volumes,
    pub(crate) clock: Clock,
    pub(crate) entropy: Entropy,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) capacity: BTreeMap<String, String>,
    pub(crate) range: PodRange,
    pub(crate) shown: Shown,
    /// The uids of persistent volumes whose end is watched for.
    pub(crate) followed: Mutex<BTreeSet<String>>,
    /// Ends what outlives single pods: the watches on persistent volumes.
    pub(crate) ended: CancellationToken,
}

/// Runs a node until `stop`; then it reports itself as not ready and stops its pods' containers. Dropping the future
/// is a power cut: everything ends at once and nothing is reported.
///
/// Errors: the kubeconfig is unusable, the API goes on refusing the node's registration, or no pod addresses are left.
pub async fn run(options: NodeOptions, stop: CancellationToken) -> Result<(), Fault> {
    let client = options.connector.client(&options.kubeconfig)?;
    let api = InCluster::new(Arc::clone(&options.connector), &options.kubeconfig)?;
    let Registered { uid, range } = tokio::select! {
        biased;
        () = stop.cancelled() => return Ok(()),
        registered = register::register(&options, &client) => registered?,
    };
    tracing::info!(node = %options.name, "node registered");
    let node = register::NodeApi::new(client.clone(), &options);
    let (name, clock) = (options.name.clone(), options.clock.clone());
    let shown = Shown::default();
    let _registration = options.services.add(
        &name,
        serve::service(shown.clone(), options.network.clone(), clock.clone()),
    );
    let (give, given) = oneshot::channel();
    let range_sender = range.is_none().then_some(give);
    let pods_stop = CancellationToken::new();
    let mut pods = std::pin::pin!(async {
        let range = match range {
            Some(range) => range,
            None => match pods_stop.run_until_cancelled(given).await {
                Some(Ok(range)) => options.network.given_range(range),
                // The node stops.
                Some(Err(_)) | None => return,
            },
        };
        let ended = CancellationToken::new();
        let _ended = ended.clone().drop_guard();
        let host = Arc::new(Host {
            shown,
            ..host(options, client.clone(), api, range, ended)
        });
        run_pods(host, pods_stop.clone()).await;
    });
    tokio::select! {
        biased;
        () = stop.cancelled() => {}
        () = &mut pods => {}
        () = lease::renew(client.clone(), &name, uid, clock) => {}
        () = node.keep_ready(range_sender) => {}
    }
    // Reported before the pods stop: nothing should be scheduled here any more.
    let not_ready = node.report_stopping();
    if tokio::time::timeout(SHUTDOWN_GRACE, not_ready).await.is_err() {
        tracing::warn!(node = %name, "no answer to the node's last status");
    }
    pods_stop.cancel();
    if tokio::time::timeout(SHUTDOWN_GRACE, pods).await.is_err() {
        tracing::warn!(node = %name, "containers did not stop, or the deletion of their pods was not confirmed, in time: dropped");
    }
    Ok(())
}

fn host(options: NodeOptions, client: kube::Client, api: InCluster, range: PodRange, ended: CancellationToken) -> Host {
    Host {
        capacity: register::capacity(&options),
        name: options.name,
        client,
        api,
        catalogue: options.catalogue,
        network: options.network,
        volumes: options.volumes,
        clock: options.clock,
        entropy: options.entropy,
        addresses: options.addresses,
        range,
        shown: Shown::default(),
        followed: Mutex::default(),
        ended,
    }
}

/// One task per pod that is bound to this node, fed with the pod's newest state.
async fn run_pods(host: Arc<Host>, stop: CancellationToken) {
    let pods: Api<Pod> = Api::all(host.client.clone());
    let bound_here = watcher::Config::default().fields(&format!("spec.nodeName={}", host.name));
    let mut events = Box::pin(follow(pods, bound_here));
    let adopting = Arc::clone(&host);
    tokio::spawn(async move {
        let adopted = adopt_volumes(Arc::clone(&adopting));
        adopting.ended.run_until_cancelled(adopted).await;
    });
    let mut running = PodTasks {
        host,
        tasks: JoinSet::new(),
        pods: BTreeMap::new(),
        confirmed: BTreeSet::new(),
        listed: Vec::new(),
        stop,
    };
    let mut stopping = false;
    loop {
        tokio::select! {
            biased;
            // Pods that are deleted while they stop are confirmed, so events are followed until all have stopped.
            () = running.stop.cancelled(), if !stopping => stopping = true,
            event = events.next() => match event {
                Some(event) => running.handle(event),
                None => break,
            },
            ended = running.tasks.join_next(), if stopping || !running.tasks.is_empty() => match ended {
                Some(Ok(uid)) => running.ended(&uid),
                Some(Err(_)) => {}
                None => break,
            },
        }
    }
    while running.tasks.join_next().await.is_some() {}
}

/// The pods of a node by uid, so that a pod of the same name can start while its predecessor still stops.
struct PodTasks {
    host: Arc<Host>,
    tasks: JoinSet<String>,
    /// `None` tells a task that its pod is gone.
    pods: BTreeMap<String, watch::Sender<Option<Arc<Pod>>>>,
    /// The pods whose deletion was confirmed while the node stops, after their tasks had ended: each once.
    confirmed: BTreeSet<String>,
    /// The pods seen since the last `Init`.
    listed: Vec<Pod>,
    stop: CancellationToken,
}

impl PodTasks {
    fn handle(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => self.listed.push(pod),
            Event::InitDone => self.handle_list(),
            Event::Apply(pod) => self.update(pod),
            Event::Delete(pod) => {
                if let Some(updates) = pod.metadata.uid.and_then(|uid| self.pods.get(&uid)) {
                    updates.send_replace(None);
                }
            }
        }
    }

    /// Handles all pods at once. Those that ran before the node did get their addresses first, so that a client that still
    /// dials one of these does not meet another pod.
    fn handle_list(&mut self) {
        let mut listed = std::mem::take(&mut self.listed);
        let uids: BTreeSet<String> = listed.iter().filter_map(|pod| pod.metadata.uid.clone()).collect();
        listed.sort_by_key(|pod| pod::reported_address(pod).is_none());
        for pod in listed {
            self.update(pod);
        }
        for (_, updates) in self.pods.iter().filter(|(uid, _)| !uids.contains(*uid)) {
            updates.send_replace(None);
        }
        let (name, volumes) = (&self.host.name, &self.host.volumes);
        let known = volumes.pods_of(name).into_iter();
        for uid in known.filter(|uid| !uids.contains(uid) && !self.pods.contains_key(uid)) {
            volumes.forget_pod(name, &uid);
        }
    }

    /// Notes that a pod's task has ended.
    fn ended(&mut self, uid: &str) {
        let Some(updates) = self.pods.remove(uid) else { return };
        // The deletion may have come too late for the task of a pod that ended with its node.
        if let Some(pod) = updates.borrow().clone().filter(|_| self.stop.is_cancelled()) {
            self.confirm_deletion(pod);
        }
    }

    /// Confirms the deletion of a pod that has no task, if it is deleted: nothing of it runs.
    fn confirm_deletion(&mut self, pod: Arc<Pod>) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        if pod.metadata.deletion_timestamp.is_none() || !self.confirmed.insert(uid.clone()) {
            return;
        }
        let client = self.host.client.clone();
        self.tasks.spawn(async move {
            let mut pauses = Pause::default().take(CONFIRMATIONS_MAX - 1);
            while !pod::confirm_deletion(client.clone(), &pod).await {
                let Some(pause) = pauses.next() else { break };
                tokio::time::sleep(pause).await;
            }
            uid
        });
    }

    fn update(&mut self, mut pod: Pod) {
        let Some(uid) = pod.metadata.uid.clone() else { return };
        // Field ownership is often half of an object, and nothing here reads it.
        pod.metadata.managed_fields = None;
        let pod = Arc::new(pod);
        match self.pods.get(&uid) {
            Some(updates) => {
                updates.send_replace(Some(pod));
            }
            // A node that stops starts no pod. One that is deleted now has stopped already.
            None if self.stop.is_cancelled() => self.confirm_deletion(pod),
            None => {
                let (updates, receiver) = watch::channel(Some(Arc::clone(&pod)));
                self.pods.insert(uid.clone(), updates);
                let address = (pod::has_own_address(&pod) && !pod::is_finished(&pod))
                    .then(|| self.host.range.allocate(pod::reported_address(&pod)))
                    .flatten();
                let task = pod::run(Arc::clone(&self.host), pod, address, receiver, self.stop.clone());
                self.tasks.spawn(async move {
                    task.await;
                    uid
                });
            }
        }
    }
}
