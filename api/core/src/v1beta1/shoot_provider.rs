//! Provider and worker pools of a shoot (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, RawJson, or_empty, string_enum};
use k8s_openapi::api::core::v1::Taint;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Backup, ClusterAutoscalerOptions, KubeletConfig};

/// The provider, its configuration and the worker pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Provider {
    /// Provider type. Immutable.
    #[serde(rename = "type")]
    pub type_: String,
    /// Configuration for the provider's control plane, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane_config: Option<RawJson>,
    /// Configuration for the provider's infrastructure, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_config: Option<RawJson>,
    /// The worker pools; none makes the shoot workerless.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub workers: Vec<Worker>,
    /// Settings of all pools.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers_settings: Option<WorkersSettings>,
}

/// A worker pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Worker {
    /// Annotations of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Authorities that nodes trust, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Container runtime interface of the nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cri: Option<CRI>,
    /// Kubernetes settings of this pool, over those of the shoot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<WorkerKubernetes>,
    /// Labels of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Name.
    pub name: String,
    /// Machine type and image.
    pub machine: Machine,
    /// Most machines.
    pub maximum: i32,
    /// Fewest machines.
    pub minimum: i32,
    /// Machines above the wanted number during an update: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_surge: Option<IntOrString>,
    /// Machines below the wanted number during an update: a number or a percentage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Taints of the pool's nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
    /// Disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<Volume>,
    /// Further disks.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub data_volumes: Vec<DataVolume>,
    /// The data volume that the kubelet's folder is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_data_volume_name: Option<String>,
    /// Zones of the pool; what is removed later must have no machines.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
    /// System components.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_components: Option<WorkerSystemComponents>,
    /// Settings of the machine controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_controller_manager: Option<MachineControllerManagerSettings>,
    /// Kernel parameters of the nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
    /// Settings of the cluster autoscaler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_autoscaler: Option<ClusterAutoscalerOptions>,
    /// Order in which the autoscaler prefers pools; higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How updates are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<MachineUpdateStrategy>,
    /// The pool runs the shoot's own control plane (self-hosted shoots).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<WorkerControlPlane>,
}

/// A pool that runs the shoot's own control plane.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerControlPlane {
    /// Where backups of etcd are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// How the control plane is reached from outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exposure: Option<Exposure>,
}

/// How the control plane is reached from outside: exactly one way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Exposure {
    /// Expose the control plane by an extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<ExtensionExposure>,
    /// Names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<DNSExposure>,
}

/// By an extension of kind SelfHostedShootExposure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExtensionExposure {
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
}

/// Settings of the machine controllers for one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineControllerManagerSettings {
    /// How long a node may take to drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_drain_timeout: Option<GoDuration>,
    /// How long a machine may be unhealthy before it is replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_health_timeout: Option<GoDuration>,
    /// How long a machine may take to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_creation_timeout: Option<GoDuration>,
    /// How often eviction of a pod is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_evict_retries: Option<i32>,
    /// Node conditions that make a machine unhealthy.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub node_conditions: Vec<String>,
    /// How long an update in place may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_timeout: Option<GoDuration>,
    /// Never replace machines for bad health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_health_timeout: Option<bool>,
    /// How long a preserved machine is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_preserve_timeout: Option<GoDuration>,
    /// How many failed machines are kept for inspection at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_machine_max: Option<i32>,
}

/// Whether system components may run on the pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerSystemComponents {
    /// Whether system components may run on these nodes.
    pub allow: bool,
}

/// Kubernetes settings of one pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerKubernetes {
    /// Settings of the kubelets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet: Option<KubeletConfig>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

string_enum! {
    /// How the machines of a pool are updated.
    pub enum MachineUpdateStrategy {
        /// Replaced one after the other.
        AutoRollingUpdate = "AutoRollingUpdate",
        /// In place, by themselves.
        AutoInPlaceUpdate = "AutoInPlaceUpdate",
        /// In place, when a user selects them.
        ManualInPlaceUpdate = "ManualInPlaceUpdate",
    }
}

/// Machine type and image of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Machine {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<ShootMachineImage>,
    /// CPU architecture: `amd64` (if empty) or `arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}

/// Machine image of a pool; without a version the newest supported one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootMachineImage {
    /// Name.
    pub name: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
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

/// Container runtime interface of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CRI {
    /// Name.
    pub name: CRIName,
    /// Additional container runtimes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub container_runtimes: Vec<ContainerRuntime>,
}

string_enum! {
    /// A container runtime interface.
    pub enum CRIName {
        /// containerd.
        Containerd = "containerd",
    }
}

/// An additional container runtime of a pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerRuntime {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
}

/// Settings of all pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkersSettings {
    /// Whether nodes run an SSH server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_access: Option<SSHAccess>,
}

/// Whether nodes run an SSH server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SSHAccess {
    /// Whether it is on.
    pub enabled: bool,
}

/// Expose the control plane by DNS alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DNSExposure {}
