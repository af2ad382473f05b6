//! Machines (gardener/machine-controller-manager pkg/apis/machine/v1alpha1).
//! It only describes; `extensions/machines` acts on it.

use api_meta::{GoDuration, kind, or_empty, string_enum};
use k8s_openapi::api::core::v1::{NodeAddress, NodeCondition, NodeSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Machine {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: MachineSpec,
    /// What is known.
    pub status: Option<MachineStatus>,
}

kind!(Machine, "machine.sapcloud.io", "v1alpha1", "machines", Namespaced, { metadata, spec } optional { status });

/// What the machine shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineSpec {
    /// Which MachineClass it is made by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ClassSpec>,
    /// Id of the machine at the provider.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// What its node has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_template: Option<NodeTemplateSpec>,
    /// How long draining may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drain_timeout: Option<GoDuration>,
    /// How long it may be unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health_timeout: Option<GoDuration>,
    /// How long joining may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timeout: Option<GoDuration>,
    /// How long an update in place may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_update_timeout: Option<GoDuration>,
    /// Never replace machines for bad health.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disable_health_timeout: Option<bool>,
    /// How often eviction of a pod is tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_evict_retries: Option<i32>,
    /// Comma list of node conditions that make it unhealthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_conditions: Option<String>,
    /// How long it is kept when preserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_timeout: Option<GoDuration>,
}

/// Names a MachineClass.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClassSpec {
    /// API group of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Labels, annotations and taints for the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NodeTemplateSpec {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<NodeSpec>,
}

/// How the machine stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineStatus {
    /// Addresses of the node, as in Node status.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<NodeAddress>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<NodeCondition>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_status: Option<CurrentStatus>,
    /// State that the driver reported, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_known_state: Option<String>,
}

/// What was done to the machine last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LastOperation {
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The driver's error code, such as `ResourceExhausted`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<String>,
    /// When it was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// How it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<MachineState>,
    /// What it is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<MachineOperationType>,
}

string_enum! {
    /// How an operation on a machine stands.
    pub enum MachineState {
        /// Under way.
        Processing = "Processing",
        /// It failed.
        Failed = "Failed",
        /// Done.
        Successful = "Successful",
    }
}

string_enum! {
    /// An operation on a machine.
    pub enum MachineOperationType {
        /// Make it.
        Create = "Create",
        /// Change it.
        Update = "Update",
        /// Look at its node.
        HealthCheck = "HealthCheck",
        /// Update its node in place.
        InPlaceUpdate = "InPlaceUpdate",
        /// Remove it.
        Delete = "Delete",
    }
}

/// The machine's phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CurrentStatus {
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<MachinePhase>,
    /// Whether a time-out runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_active: Option<bool>,
    /// When it was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Until when it is preserved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preserve_expiry_time: Option<Time>,
}

string_enum! {
    /// Where a machine stands.
    pub enum MachinePhase {
        /// Being made, or not joined yet.
        Pending = "Pending",
        /// Made, waiting for its node.
        Available = "Available",
        /// Its node is ready.
        Running = "Running",
        /// Going.
        Terminating = "Terminating",
        /// Its node is not healthy; within `healthTimeout`.
        Unknown = "Unknown",
        /// To be replaced.
        Failed = "Failed",
        /// Making it failed; tried again.
        CrashLoopBackOff = "CrashLoopBackOff",
        /// Its node is being updated in place.
        InPlaceUpdating = "InPlaceUpdating",
        /// Its node was updated in place.
        InPlaceUpdateSuccessful = "InPlaceUpdateSuccessful",
        /// Updating its node in place failed.
        InPlaceUpdateFailed = "InPlaceUpdateFailed",
    }
}

/// A machine that failed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineSummary {
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Id of the machine at the provider.
    #[serde(rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// Name of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner_ref: Option<String>,
}

/// A machine to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineTemplateSpec {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<MachineSpec>,
}
