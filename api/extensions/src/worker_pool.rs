//! Worker pools as extensions see them (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_worker.go).
//! It only describes; providers act on it and answer in the status.

use std::collections::BTreeMap;

use api_core::v1beta1::{KubeletConfig, MachineControllerManagerSettings, MachineUpdateStrategy};
use api_meta::{GoDuration, RawJson, or_empty};
use k8s_openapi::api::core::v1::{SecretKeySelector, Taint};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A worker pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerPool {
    /// Name of the machine type.
    pub machine_type: String,
    /// Most machines.
    pub maximum: i32,
    /// Machines above the wanted number during an update: a number or a percentage.
    pub max_surge: IntOrString,
    /// Machines below the wanted number during an update: a number or a percentage.
    pub max_unavailable: IntOrString,
    /// Annotations of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Taints of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Machine image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_image: Option<MachineImage>,
    /// Fewest machines.
    pub minimum: i32,
    /// Name.
    pub name: String,
    /// Secret in the shoot with the pool's operating system configuration; part of the pool's hash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_agent_secret_name: Option<String>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Secret with the machines' user data.
    pub user_data_secret_ref: SecretKeySelector,
    /// Disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Further disks.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub data_volumes: Vec<DataVolume>,
    /// The data volume that the kubelet's folder is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_data_volume_name: Option<String>,
    /// Zones.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// Settings of the machine controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_controller_manager: Option<MachineControllerManagerSettings>,
    /// Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// Settings of the kubelets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_config: Option<KubeletConfig>,
    /// What a node of the pool has, for scaling up from zero.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_template: Option<NodeTemplate>,
    /// CPU architecture: `amd64` (if empty) or `arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Settings of the cluster autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_autoscaler: Option<ClusterAutoscalerOptions>,
    /// Order in which the autoscaler prefers pools; higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How updates are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<MachineUpdateStrategy>,
}

/// Settings of the cluster autoscaler for one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterAutoscalerOptions {
    /// Use below which a node is not needed, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_utilization_threshold: Option<String>,
    /// GPU use below which a node is not needed, 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_gpu_utilization_threshold: Option<String>,
    /// How long a node must not be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unneeded_time: Option<GoDuration>,
    /// How long an unready node must not be needed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down_unready_time: Option<GoDuration>,
    /// How long a new node may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_node_provision_time: Option<GoDuration>,
}

/// What a node has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NodeTemplate {
    /// What it has in all.
    #[serde(deserialize_with = "or_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources that exist only in the scheduler's view.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub virtual_capacity: BTreeMap<String, Quantity>,
}

/// A machine image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineImage {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// The root disk of a pool's machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Volume {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Size.
    pub size: String,
    /// Whether the disk is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
}

/// A further disk of a pool's machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DataVolume {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Size.
    pub size: String,
    /// Whether the disk is encrypted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encrypted: Option<bool>,
}
