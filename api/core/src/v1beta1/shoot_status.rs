//! How a shoot stands (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{Condition, LastError, LastOperation, LastOperationState, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Gardener, PendingWorkersRollout, ShootCredentials};

/// How the cluster stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootStatus {
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub conditions: Vec<Condition>,
    /// What would prevent operations.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub constraints: Vec<Condition>,
    /// The gardenlet that worked on it last.
    pub gardener: Gardener,
    /// Whether it sleeps.
    pub hibernated: bool,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// What went wrong last, one entry per failed task; empty after success.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// When the present series of tries began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_cycle_start_time: Option<Time>,
    /// The seed that runs the control plane now; differs from the spec's during migration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// Namespace in the seed and name of the Cluster. Immutable.
    #[serde(rename = "technicalID")]
    pub technical_id: String,
    /// Unique id. Immutable once set.
    pub uid: String,
    /// Identity of the cluster, unique over all landscapes. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_identity: Option<String>,
    /// Addresses under which the shoot's API server and its issuer can be reached.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub advertised_addresses: Vec<ShootAdvertisedAddress>,
    /// When migration to another seed began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_start_time: Option<Time>,
    /// Rotation of credentials and encryption at rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials: Option<ShootCredentials>,
    /// When a hibernation schedule fired last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_hibernation_trigger_time: Option<Time>,
    /// What maintenance did last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_maintenance: Option<LastMaintenance>,
    /// Networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<NetworkingStatus>,
    /// Updates of nodes in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_updates: Option<InPlaceUpdatesStatus>,
    /// Roll-outs of pools that a user has requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manual_worker_pool_rollout: Option<ManualWorkerPoolRollout>,
    /// Progress of a move without downtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_migration: Option<LiveMigration>,
}

/// An address of the shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootAdvertisedAddress {
    /// Name.
    pub name: String,
    /// URL.
    pub url: String,
    /// What stands behind the address, for clients that want one application only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
}

impl ShootAdvertisedAddress {
    /// How the host below the internal domain is called.
    pub const INTERNAL: &'static str = "internal";

    /// The host of an address' URL; none of one that is not by https.
    pub fn host_of(url: &str) -> Option<&str> {
        url.strip_prefix("https://")?.split([':', '/']).next()
    }
}

/// Networks in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NetworkingStatus {
    /// Networks of the pods.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Networks of the nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Networks of the services.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// Networks from which the shoot's nodes call the outside.
    #[serde(
        rename = "egressCIDRs",
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub egress_cidrs: Vec<String>,
}

/// What maintenance did last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LastMaintenance {
    /// For people.
    pub description: String,
    /// When it was started.
    pub triggered_time: Option<Time>,
    /// Where it stands.
    pub state: LastOperationState,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_reason: Option<String>,
}

/// Updates of nodes in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InPlaceUpdatesStatus {
    /// Pools with updates to come.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_worker_updates: Option<PendingWorkerUpdates>,
}

/// Pools with updates to come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PendingWorkerUpdates {
    /// Pools that update their nodes by themselves.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub auto_in_place_update: Vec<String>,
    /// Pools whose nodes a user selects for update.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub manual_in_place_update: Vec<String>,
}

/// Roll-outs of pools that a user has requested.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManualWorkerPoolRollout {
    /// Pools that must still be rolled out.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub pending_workers_rollouts: Vec<PendingWorkersRollout>,
}

/// Progress of a move without downtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LiveMigration {
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub conditions: Vec<Condition>,
}
