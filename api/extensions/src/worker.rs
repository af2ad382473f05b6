//! Machines of shoots (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_worker.go).
//! It only describes; providers act on it and answer in the status.

use std::collections::BTreeMap;

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference, kind, or_empty};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crds::{STATE, extension, regional, with_secret};
use crate::object::OwnPart;
use crate::{ExtensionClass, WorkerPool};

/// The machines of a shoot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Worker {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: WorkerSpec,
    /// What is known.
    pub status: Option<WorkerStatus>,
}

kind!(Worker, "extensions.gardener.cloud", "v1alpha1", "workers", Namespaced, { metadata, spec } optional { status });

/// Status of a Worker beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorkerOwn {
    /// The machine deployments, for the cluster autoscaler.
    pub machine_deployments: Vec<MachineDeployment>,
    /// When they were written last.
    pub last_update_time: Option<Time>,
}

impl OwnPart for Worker {
    type Own = WorkerOwn;

    fn set_own(&mut self, own: WorkerOwn) {
        let WorkerOwn {
            machine_deployments,
            last_update_time,
        } = own;
        let status = self.status.get_or_insert_default();
        status.machine_deployments = machine_deployments;
        status.machine_deployments_last_update_time = last_update_time;
    }

    fn definition() -> Definition {
        with_secret(regional(extension::<Self>("")))
            .column("Region", ".spec.region")
            .column("Status", STATE)
            .age()
    }

    fn secret_ref(&self) -> Option<&SecretReference> {
        Some(&self.spec.secret_ref)
    }
}

/// The pools.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// `status.providerStatus` of the Infrastructure, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub infrastructure_provider_status: Option<RawJson>,
    /// Region.
    pub region: String,
    /// Secret with the credentials.
    pub secret_ref: SecretReference,
    /// Public key for SSH on the nodes; base64 in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub ssh_public_key: Option<ByteString>,
    /// The worker pools.
    #[serde(deserialize_with = "or_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub pools: Vec<WorkerPool>,
}

/// What the extension reports about the machines.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkerStatus {
    /// What the provider reports, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<RawJson>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What went wrong last; empty after success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the extension needs to take over on another seed, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RawJson>,
    /// Resources.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NamedResourceReference>,
    /// The machine deployments made of the pools.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub machine_deployments: Vec<MachineDeployment>,
    /// When `machineDeployments` was written last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_deployments_last_update_time: Option<Time>,
    /// Updates of nodes in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_updates: Option<InPlaceUpdatesWorkerStatus>,
}

/// Updates in place by pool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InPlaceUpdatesWorkerStatus {
    /// Hash by pool.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub worker_pool_to_hash_map: BTreeMap<String, String>,
}

/// A machine deployment made of a pool in a zone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineDeployment {
    /// Name.
    pub name: String,
    /// Fewest machines.
    pub minimum: i32,
    /// Most machines.
    pub maximum: i32,
    /// Order in which the autoscaler prefers pools; higher first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// How many failed machines are kept for inspection at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_preserve_failed_machine_max: Option<i32>,
}
