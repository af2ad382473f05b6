//! The Node object: making it, and keeping its status true. It never touches other nodes and never makes its own
//! again once it was deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{fault_of, is_exists, is_missing};
use base_clock::Clock;
use futures::StreamExt;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{
    DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec, NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::follow::{Pause, follow_one};
use crate::network::{PodRange, pods_in};
use crate::{NodeOptions, PodAddresses};

/// The machine as programs that query its architecture know it; containers here are futures of this process.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};
/// How long a refusal is tolerated: the permissions of a new cluster's nodes are written while the first of them start.
const GRANTED_WITHIN: Duration = Duration::from_secs(60);
/// How often an unchanged status is sent again; the kubelet's default nodeStatusReportFrequency.
const REPORT_EVERY: Duration = Duration::from_secs(300);
/// What a node can hold by default, beside pods.
const CAPACITY: [(&str, &str); 3] = [("cpu", "8"), ("memory", "16Gi"), ("ephemeral-storage", "100Gi")];
/// The resource that counts pods.
const PODS: &str = "pods";

/// A Node that exists.
pub(crate) struct Registered {
    pub(crate) uid: String,
    /// None while the Node has none.
    pub(crate) range: Option<PodRange>,
}

/// Creates the Node, or takes over the one of this name, and reports it as ready if it has pod addresses. Waits out an
/// API that does not answer.
pub(crate) async fn register(options: &NodeOptions, client: &kube::Client) -> Result<Registered, Fault> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut pauses = Pause::default();
    let refused_until = Instant::now() + GRANTED_WITHIN;
    loop {
        match try_register(options, &nodes).await {
            Ok(registered) => return Ok(registered),
            // Missing parts of the API appear while it starts.
            Err(fault)
                if matches!(fault.class, FaultClass::Transient | FaultClass::Dependency)
                    || (fault.class == FaultClass::Access && Instant::now() < refused_until) =>
            {
                tracing::debug!(node = %options.name, %fault, "registration failed, trying again");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}

async fn try_register(options: &NodeOptions, nodes: &Api<Node>) -> Result<Registered, Fault> {
    let mut range = match options.pod_addresses {
        PodAddresses::OfNode => None,
        PodAddresses::PartOf { all, length } => Some(
            options
                .network
                .free_range(all, length)
                .ok_or_else(|| Fault::user(format!("no free range of pod addresses in {all} is left")))?,
        ),
    };
    let desired = desired(options, range.as_ref().map(|range| range.range));
    let doing = |what: &str| format!("{what} node {}", options.name);
    let node = match nodes.create(&PostParams::default(), &desired).await {
        Ok(node) => node,
        Err(error) if is_exists(&error) => {
            let adopted = json!({"metadata": {
                "labels": desired.metadata.labels, "annotations": desired.metadata.annotations,
            }});
            nodes
                .patch(&options.name, &PatchParams::default(), &Patch::Merge(adopted))
                .await
                .map_err(|error| fault_of(error, &doing("update")))?
        }
        Err(error) => return Err(fault_of(error, &doing("create"))),
    };
    if let Some(given) = pod_range(&node)
        && range.as_ref().is_none_or(|range| range.range != given)
    {
        range = Some(options.network.given_range(given));
    }
    let status = json!({"status": status(options, range.as_ref().map(|range| range.range))});
    nodes
        .patch_status(&options.name, &PatchParams::default(), &Patch::Strategic(status))
        .await
        .map_err(|error| fault_of(error, &doing("report status of")))?;
    Ok(Registered {
        uid: node.metadata.uid.unwrap_or_default(),
        range,
    })
}

/// The range of pod addresses that a Node has.
fn pod_range(node: &Node) -> Option<IpNet> {
    node.spec.as_ref()?.pod_cidr.as_deref()?.parse().ok()
}

fn desired(options: &NodeOptions, range: Option<IpNet>) -> Node {
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", options.name.as_str()),
        ("kubernetes.io/arch", ARCHITECTURE),
        ("kubernetes.io/os", "linux"),
        ("beta.kubernetes.io/arch", ARCHITECTURE),
        ("beta.kubernetes.io/os", "linux"),
    ]
    .into_iter()
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect();
    labels.extend(options.labels.clone());
    Node {
        metadata: ObjectMeta {
            name: Some(options.name.clone()),
            labels: Some(labels),
            annotations: Some(options.annotations.clone()).filter(|annotations| !annotations.is_empty()),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec {
            pod_cidr: range.map(|range| range.to_string()),
            pod_cidrs: range.map(|range| vec![range.to_string()]),
            provider_id: options.provider_id.clone(),
            taints: Some(options.taints.clone()).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

/// How many pods a node takes at once: no more than it has addresses for.
fn room(pods: u32, range: Option<IpNet>) -> u32 {
    range.map_or(pods, |range| pods.min(pods_in(range)))
}

/// What a node can hold beside pods.
pub(crate) fn capacity(options: &NodeOptions) -> BTreeMap<String, String> {
    let all = CAPACITY
        .iter()
        .map(|(name, size)| ((*name).to_owned(), (*size).to_owned()));
    all.chain(options.capacity.clone()).collect()
}

fn status(options: &NodeOptions, range: Option<IpNet>) -> NodeStatus {
    let mut capacity: BTreeMap<String, Quantity> = capacity(options)
        .into_iter()
        .map(|(name, size)| (name, Quantity(size)))
        .collect();
    capacity.insert(PODS.to_owned(), Quantity(room(options.pods, range).to_string()));
    let address = |type_: &str, address: String| NodeAddress {
        type_: type_.to_owned(),
        address,
    };
    let mut addresses: Vec<NodeAddress> = options
        .addresses
        .iter()
        .map(|ip| address("InternalIP", ip.to_string()))
        .collect();
    addresses.push(address("Hostname", options.name.clone()));
    // One identity per registration, as a machine's boot id is.
    let id = options.entropy.uid();
    NodeStatus {
        allocatable: Some(capacity.clone()),
        capacity: Some(capacity),
        addresses: Some(addresses),
        daemon_endpoints: options.port.map(|port| NodeDaemonEndpoints {
            kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(port) }),
        }),
        conditions: Some(conditions(&options.clock, Readiness::of(range.is_some()))),
        node_info: Some(NodeSystemInfo {
            architecture: ARCHITECTURE.to_owned(),
            boot_id: id.clone(),
            machine_id: id.replace('-', ""),
            system_uuid: id,
            container_runtime_version: concat!("orangery://", env!("CARGO_PKG_VERSION")).to_owned(),
            kernel_version: "in-process".to_owned(),
            kubelet_version: options.kubelet_version.clone(),
            kube_proxy_version: options.kubelet_version.clone(),
            operating_system: "linux".to_owned(),
            os_image: "Orangery in-process node".to_owned(),
            swap: None,
        }),
        ..NodeStatus::default()
    }
}

/// The content of the condition `Ready`.
struct Readiness {
    status: &'static str,
    reason: &'static str,
    message: &'static str,
}

impl Readiness {
    const READY: Self = Readiness {
        status: "True",
        reason: "KubeletReady",
        message: "node runs its image catalogue",
    };
    const WITHOUT_ADDRESSES: Self = Readiness {
        status: "False",
        reason: "KubeletNotReady",
        message: "node has no range of pod addresses yet: spec.podCIDR is not set",
    };
    const STOPPING: Self = Readiness {
        status: "False",
        reason: "NodeShutdown",
        message: "node was asked to stop",
    };

    fn of(has_addresses: bool) -> &'static Self {
        if has_addresses {
            &Self::READY
        } else {
            &Self::WITHOUT_ADDRESSES
        }
    }
}

fn conditions(clock: &Clock, ready: &Readiness) -> Vec<NodeCondition> {
    let now = Time(clock.now());
    let condition = |type_: &str, status: &str, reason: &str, message: &str| NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(now.clone()),
        last_transition_time: Some(now.clone()),
    };
    vec![
        condition(
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "node does not measure memory",
        ),
        condition(
            "DiskPressure",
            "False",
            "KubeletHasNoDiskPressure",
            "node does not use disks",
        ),
        condition(
            "PIDPressure",
            "False",
            "KubeletHasSufficientPID",
            "node does not start processes",
        ),
        condition("Ready", ready.status, ready.reason, ready.message),
    ]
}

/// The node's own Node object after registration.
pub(crate) struct NodeApi {
    nodes: Api<Node>,
    name: String,
    pods: u32,
    clock: Clock,
}

impl NodeApi {
    pub(crate) fn new(client: kube::Client, options: &NodeOptions) -> Self {
        NodeApi {
            nodes: Api::all(client),
            name: options.name.clone(),
            pods: options.pods,
            clock: options.clock.clone(),
        }
    }

    /// Reports the node's state again whenever the Node differs from it (its Lease ran out while the API could not be
    /// reached), and every few minutes anyway. A node without pod addresses is not ready until its Node has a range,
    /// which goes to `range_sender`. Never ends.
    pub(crate) async fn keep_ready(&self, mut range_sender: Option<oneshot::Sender<IpNet>>) {
        let mut states = Box::pin(follow_one(self.nodes.clone(), &self.name));
        let mut beats = tokio::time::interval_at(Instant::now() + REPORT_EVERY, REPORT_EVERY);
        loop {
            tokio::select! {
                biased;
                state = states.next() => match state {
                    Some(Some(node)) => {
                        let range = pod_range(&node);
                        if let Some(range) = range
                            && let Some(range_sender) = range_sender.take()
                        {
                            // The caller may have stopped meanwhile.
                            let _ = range_sender.send(range);
                        }
                        let readiness = Readiness::of(range_sender.is_none());
                        let takes = room(self.pods, range);
                        if ready_status(&node) != Some(readiness.status) || stated_room(&node) != Some(takes) {
                            self.report_until_accepted(readiness, takes).await;
                        }
                    }
                    Some(None) => {}
                    None => return,
                },
                _ = beats.tick() => {
                    if let Err(error) = self.beat(Readiness::of(range_sender.is_none())).await {
                        tracing::debug!(node = %self.name, %error, "status was not reported");
                    }
                }
            }
        }
    }

    /// Reports the state of the node until the API accepts it, or the Node is gone.
    async fn report_until_accepted(&self, readiness: &Readiness, room: u32) {
        let mut pauses = Pause::default();
        while let Err(error) = self.report_ready(readiness, Some(room)).await {
            if is_missing(&error) {
                return;
            }
            tracing::debug!(node = %self.name, %error, "status was not reported, trying again");
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
    }

    /// Reports that the node stops.
    pub(crate) async fn report_stopping(&self) {
        if let Err(error) = self.report_ready(&Readiness::STOPPING, None).await {
            // Where node and API server end together this is expected; else the Lease expires.
            tracing::debug!(node = %self.name, %error, "the stop was not reported");
        }
    }

    /// The heartbeat of conditions that are as they were: their transition times stay.
    async fn beat(&self, readiness: &Readiness) -> Result<(), kube::Error> {
        let mut conditions = conditions(&self.clock, readiness);
        for condition in &mut conditions {
            condition.last_transition_time = None;
        }
        self.patch(json!({"conditions": conditions})).await
    }

    async fn report_ready(&self, ready: &Readiness, room: Option<u32>) -> Result<(), kube::Error> {
        let mut conditions = conditions(&self.clock, ready);
        conditions.retain(|condition| condition.type_ == "Ready");
        let mut status = json!({"conditions": conditions});
        if let Some(room) = room {
            let resources = json!({PODS: room.to_string()});
            status["capacity"] = resources.clone();
            status["allocatable"] = resources;
        }
        self.patch(status).await
    }

    async fn patch(&self, status: serde_json::Value) -> Result<(), kube::Error> {
        let patch = json!({"status": status});
        self.nodes
            .patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .map(|_| ())
    }
}

/// The status of the Node's condition `Ready`.
fn ready_status(node: &Node) -> Option<&str> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready")?;
    Some(&ready.status)
}

/// How many pods the Node takes by its status.
fn stated_room(node: &Node) -> Option<u32> {
    let allocatable = node.status.as_ref()?.allocatable.as_ref()?;
    allocatable.get(PODS)?.0.parse().ok()
}
