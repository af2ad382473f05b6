//! Kubernetes settings of a shoot (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, go_number, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClusterAutoscaler, KubeAPIServerConfig, KubeletConfig, VerticalPodAutoscaler};

/// Version and settings of Kubernetes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Kubernetes {
    /// Settings of the cluster autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_autoscaler: Option<ClusterAutoscaler>,
    /// Settings of kube-apiserver.
    #[serde(rename = "kubeAPIServer", skip_serializing_if = "Option::is_none")]
    pub kube_api_server: Option<KubeAPIServerConfig>,
    /// Settings of kube-controller-manager.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_controller_manager: Option<KubeControllerManagerConfig>,
    /// Settings of kube-scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_scheduler: Option<KubeSchedulerConfig>,
    /// Settings of kube-proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kube_proxy: Option<KubeProxyConfig>,
    /// Settings of the kubelets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfig>,
    /// Version of the control plane; may be a prefix such as `1.35`, then the newest supported one is taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Settings of the vertical pod autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vertical_pod_autoscaler: Option<VerticalPodAutoscaler>,
    /// Settings of etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd: Option<ETCD>,
}

/// Settings every component has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubernetesConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
}

/// Settings of both etcds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ETCD {
    /// Settings of the main etcd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub main: Option<ETCDConfig>,
    /// Settings of the etcd of events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<ETCDConfig>,
}

/// Settings of one etcd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ETCDConfig {
    /// Bounds of its vertical scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ControlPlaneAutoscaling>,
}

/// Bounds of vertical scaling.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControlPlaneAutoscaling {
    /// What it gets at least.
    #[serde(deserialize_with = "or_empty")]
    pub min_allowed: BTreeMap<String, Quantity>,
}

/// Settings of kube-controller-manager.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeControllerManagerConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Settings of the horizontal pod autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub horizontal_pod_autoscaler: Option<HorizontalPodAutoscalerConfig>,
    /// Prefix length of each node's IPv4 pod network.
    #[serde(rename = "nodeCIDRMaskSize", skip_serializing_if = "Option::is_none")]
    pub node_cidr_mask_size: Option<i32>,
    /// How long pods stay on lost nodes; no longer used by Kubernetes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_eviction_timeout: Option<GoDuration>,
    /// How long a node may be silent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_monitor_grace_period: Option<GoDuration>,
    /// Prefix length of each node's IPv6 pod network.
    #[serde(rename = "nodeCIDRMaskSizeIPv6", skip_serializing_if = "Option::is_none")]
    pub node_cidr_mask_size_ipv6: Option<i32>,
}

/// Settings of the horizontal pod autoscaler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HorizontalPodAutoscalerConfig {
    /// How long after start CPU samples are ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_initialization_period: Option<GoDuration>,
    /// How long a smaller recommendation must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downscale_stabilization: Option<GoDuration>,
    /// How long after start a pod may be unready without being ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_readiness_delay: Option<GoDuration>,
    /// How often it is looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sync_period: Option<GoDuration>,
    /// Smallest relative change that scales.
    #[serde(serialize_with = "go_number", skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<f64>,
}

/// Settings of kube-scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeSchedulerConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Volumes per node at most.
    #[serde(rename = "kubeMaxPDVols", skip_serializing_if = "Option::is_none")]
    pub kube_max_pd_vols: Option<String>,
    /// How pods are spread: `balanced` or `bin-packing`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub profile: Option<SchedulingProfile>,
}

string_enum! {
    /// How pods are spread over nodes.
    pub enum SchedulingProfile {
        /// Evenly.
        Balanced = "balanced",
        /// On as few as possible.
        BinPacking = "bin-packing",
    }
}

/// Settings of kube-proxy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeProxyConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<ProxyMode>,
    /// Whether it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

string_enum! {
    /// How kube-proxy works.
    pub enum ProxyMode {
        /// With iptables.
        IPTables = "IPTables",
        /// With nftables.
        NFTables = "NFTables",
        /// With IPVS.
        IPVS = "IPVS",
    }
}
