//! The Node object: making it, and keeping its status true. It never touches other nodes and never makes its own
//! again once somebody deleted it.

use std::collections::BTreeMap;
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use base_client::{fault_of, is_exists};
use base_clock::Clock;
use futures::StreamExt;
use ipnet::IpNet;
use k8s_openapi::api::core::v1::{Node, NodeAddress, NodeCondition, NodeSpec, NodeStatus, NodeSystemInfo};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;

use crate::NodeOptions;
use crate::follow::{Pause, follow_one};
use crate::network::PodRange;

/// What the machine is called where programs ask for its architecture; containers here are futures of this process.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};
/// How often an unchanged status is sent again; the kubelet's default nodeStatusReportFrequency.
const REPORT_EVERY: Duration = Duration::from_secs(300);
/// What a node can hold when nothing else is said; pods as the kubelet's default maxPods.
const CAPACITY: [(&str, &str); 4] = [
    ("cpu", "8"),
    ("memory", "16Gi"),
    ("pods", "110"),
    ("ephemeral-storage", "100Gi"),
];

/// A Node that exists.
pub(crate) struct Registered {
    pub(crate) uid: String,
    pub(crate) range: PodRange,
}

/// Creates the Node, or takes over the one of this name, and reports it as ready. Waits out an API that does not answer.
pub(crate) async fn register(options: &NodeOptions, client: &kube::Client) -> Result<Registered, Fault> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut pauses = Pause::default();
    loop {
        match try_register(options, &nodes).await {
            Ok(registered) => return Ok(registered),
            // Missing parts of the API appear while it starts.
            Err(fault) if matches!(fault.class, FaultClass::Transient | FaultClass::Dependency) => {
                tracing::debug!(node = %options.name, %fault, "registration failed, trying again");
                tokio::time::sleep(pauses.next().unwrap_or_default()).await;
            }
            Err(fault) => return Err(fault),
        }
    }
}

async fn try_register(options: &NodeOptions, nodes: &Api<Node>) -> Result<Registered, Fault> {
    let full = || {
        Fault::user(format!(
            "no free range of pod addresses in {} is left",
            options.pod_ranges
        ))
    };
    let reserve = |wanted| {
        options
            .network
            .reserve_range(options.pod_ranges, options.pod_range_length, wanted)
    };
    let mut range = reserve(None).ok_or_else(full)?;
    let desired = desired(options, range.range);
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
    let given: Option<IpNet> = node
        .spec
        .as_ref()
        .and_then(|spec| spec.pod_cidr.as_deref()?.parse().ok());
    if let Some(given) = given.filter(|given| *given != range.range) {
        range = reserve(Some(given)).ok_or_else(full)?;
    }
    let status = json!({"status": status(options)});
    nodes
        .patch_status(&options.name, &PatchParams::default(), &Patch::Strategic(status))
        .await
        .map_err(|error| fault_of(error, &doing("report status of")))?;
    Ok(Registered {
        uid: node.metadata.uid.unwrap_or_default(),
        range,
    })
}

fn desired(options: &NodeOptions, range: IpNet) -> Node {
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
            pod_cidr: Some(range.to_string()),
            pod_cidrs: Some(vec![range.to_string()]),
            provider_id: options.provider_id.clone(),
            taints: Some(options.taints.clone()).filter(|taints| !taints.is_empty()),
            ..NodeSpec::default()
        }),
        status: None,
    }
}

fn status(options: &NodeOptions) -> NodeStatus {
    let mut capacity: BTreeMap<String, Quantity> = CAPACITY
        .iter()
        .map(|(name, size)| ((*name).to_owned(), Quantity((*size).to_owned())))
        .collect();
    capacity.extend(
        options
            .capacity
            .iter()
            .map(|(name, size)| (name.clone(), Quantity(size.clone()))),
    );
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
        conditions: Some(conditions(&options.clock, &Readiness::READY)),
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

/// What the condition `Ready` says.
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
    const STOPPING: Self = Readiness {
        status: "False",
        reason: "NodeShutdown",
        message: "node was asked to stop",
    };
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
    clock: Clock,
}

impl NodeApi {
    pub(crate) fn new(client: kube::Client, name: &str, clock: Clock) -> Self {
        NodeApi {
            nodes: Api::all(client),
            name: name.to_owned(),
            clock,
        }
    }

    /// Says again that the node is ready whenever somebody thought otherwise (its Lease ran out while the API could
    /// not be reached), and every few minutes anyway. Never ends.
    pub(crate) async fn keep_ready(&self) {
        let mut states = Box::pin(follow_one(self.nodes.clone(), &self.name));
        let mut beats = tokio::time::interval_at(tokio::time::Instant::now() + REPORT_EVERY, REPORT_EVERY);
        loop {
            let reported = tokio::select! {
                biased;
                state = states.next() => match state {
                    Some(Some(node)) if !is_ready(&node) => self.turn(&Readiness::READY).await,
                    Some(_) => continue,
                    None => return,
                },
                _ = beats.tick() => self.beat().await,
            };
            if let Err(error) = reported {
                tracing::debug!(node = %self.name, %error, "status was not reported");
            }
        }
    }

    /// Says that the node stops.
    pub(crate) async fn report_stopping(&self) {
        if let Err(error) = self.turn(&Readiness::STOPPING).await {
            // Where node and API server end together this is how it goes; else the Lease tells.
            tracing::debug!(node = %self.name, %error, "the stop was not reported");
        }
    }

    /// The heartbeat of conditions that are as they were: their transition times stay.
    async fn beat(&self) -> Result<(), kube::Error> {
        let mut conditions = conditions(&self.clock, &Readiness::READY);
        for condition in &mut conditions {
            condition.last_transition_time = None;
        }
        self.patch(&conditions).await
    }

    async fn turn(&self, ready: &Readiness) -> Result<(), kube::Error> {
        let mut conditions = conditions(&self.clock, ready);
        conditions.retain(|condition| condition.type_ == "Ready");
        self.patch(&conditions).await
    }

    async fn patch(&self, conditions: &[NodeCondition]) -> Result<(), kube::Error> {
        let patch = json!({"status": {"conditions": conditions}});
        self.nodes
            .patch_status(&self.name, &PatchParams::default(), &Patch::Strategic(patch))
            .await
            .map(|_| ())
    }
}

fn is_ready(node: &Node) -> bool {
    node.status
        .as_ref()
        .and_then(|status| status.conditions.as_ref())
        .into_iter()
        .flatten()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
