//! `seedmanagement.gardener.cloud/v1alpha1`: Shoots that become seeds, and gardenlets that deploy themselves
//! (gardener/gardener v1.150 pkg/apis/seedmanagement/v1alpha1). It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{Condition, LocalObjectReference, RawJson, kind, or_empty};
use k8s_openapi::api::core::v1::{EnvVar, ResourceRequirements, Toleration, VolumeMount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::v1::OCIRepository;

/// A Shoot that is registered as seed, with a gardenlet of its own. Its name is the seed's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeed {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ManagedSeedSpec,
    /// What is known.
    pub status: Option<ManagedSeedStatus>,
}

kind!(ManagedSeed, "seedmanagement.gardener.cloud", "v1alpha1", "managedseeds", Namespaced, { metadata, spec } optional { status });

/// What the seed shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSpec {
    /// The Shoot, in namespace `garden`. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shoot: Option<ManagedSeedShoot>,
    /// The seed's gardenlet.
    pub gardenlet: GardenletConfig,
}

/// The Shoot that is registered as seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedShoot {
    /// Its name.
    pub name: String,
}

/// How the gardenlet of a managed seed is deployed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletConfig {
    /// Its Deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<GardenletDeployment>,
    /// Its GardenletConfiguration (`gardenlet.config.gardener.cloud/v1alpha1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::any")]
    pub config: Option<RawJson>,
    /// How it gets its first access to the garden: `ServiceAccount`, `BootstrapToken` or `None`. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<String>,
    /// Whether its configuration is merged with that of the gardenlet that deploys it. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_with_parent: Option<bool>,
}

/// The Deployment of a gardenlet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletDeployment {
    /// Number of replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replica_count: Option<i32>,
    /// Old ReplicaSets that are retained.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
    /// ServiceAccount of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Container image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<GardenletImage>,
    /// Resources of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceRequirements>,
    /// Labels of the pods.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations of the pods.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_annotations: BTreeMap<String, String>,
    /// Further volumes of the pods, as they are written: the schema of volumes would be larger than all else here.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "any_objects")]
    pub additional_volumes: Vec<Value>,
    /// Further volumes that the container mounts.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub additional_volume_mounts: Vec<VolumeMount>,
    /// Environment of the container.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Tolerations of the pods.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Whether Kubernetes probes the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_health_probes: Option<bool>,
}

fn any_objects(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "array", "items": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}})
}

/// A gardenlet's container image: `ref`, or `repository` and `tag`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletImage {
    /// Repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Tag.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// `Always`, `IfNotPresent` or `Never`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<String>,
    /// Full reference; excludes the parts.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

/// What is known about a managed seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedStatus {
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// A gardenlet that is deployed once and upgrades itself from then on. Its name is the seed's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Gardenlet {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: GardenletSpec,
    /// What is known.
    pub status: Option<ManagedSeedStatus>,
}

kind!(Gardenlet, "seedmanagement.gardener.cloud", "v1alpha1", "gardenlets", Namespaced, { metadata, spec } optional { status });

/// What the gardenlet shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletSpec {
    /// Its Deployment and the chart of it.
    pub deployment: GardenletSelfDeployment,
    /// Its GardenletConfiguration (`gardenlet.config.gardener.cloud/v1alpha1`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::any")]
    pub config: Option<RawJson>,
    /// Secret with a kubeconfig of the cluster that it is deployed into first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_ref: Option<LocalObjectReference>,
}

/// The Deployment of a gardenlet that deploys itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletSelfDeployment {
    /// What all gardenlets' Deployments have.
    #[serde(flatten)]
    pub common: GardenletDeployment,
    /// Its chart.
    pub helm: GardenletHelm,
    /// Images of the components that it deploys, YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_vector_overwrite: Option<String>,
    /// Images of what these components deploy, YAML.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub component_image_vector_overwrite: Option<String>,
}

/// A gardenlet's chart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenletHelm {
    /// Where it is.
    #[serde(rename = "ociRepository")]
    pub oci_repository: OCIRepository,
}

/// Managed seeds with Shoots of their own, all after one template.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSet {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ManagedSeedSetSpec,
    /// What is known.
    pub status: Option<ManagedSeedSetStatus>,
}

kind!(ManagedSeedSet, "seedmanagement.gardener.cloud", "v1alpha1", "managedseedsets", Namespaced, { metadata, spec } optional { status });

/// Which managed seeds there shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSetSpec {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Labels of the managed seeds and Shoots of the set. Immutable.
    pub selector: LabelSelector,
    /// The managed seeds.
    pub template: ManagedSeedTemplate,
    /// Their Shoots.
    pub shoot_template: ManagedShootTemplate,
    /// How changes reach those that are there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<ManagedSeedSetUpdateStrategy>,
    /// Old revisions that are retained. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision_history_limit: Option<i32>,
}

/// A managed seed to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedTemplate {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ManagedSeedSpec,
}

/// A Shoot to be made for a managed seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedShootTemplate {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted, a `ShootSpec`. The schema of Shoots stands in their own kind.
    #[schemars(schema_with = "api_meta::schema::any")]
    pub spec: RawJson,
}

/// How changes reach managed seeds that are there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSetUpdateStrategy {
    /// `RollingUpdate`.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// One after the other.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<ManagedSeedSetRollingUpdate>,
}

/// One after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSetRollingUpdate {
    /// The first number that is updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<i32>,
}

/// What is known about the managed seeds of a set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedSeedSetStatus {
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many there are.
    pub replicas: i32,
    /// How many of them are ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready_replicas: Option<i32>,
    /// The number that the next one gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_replica_number: Option<i32>,
    /// How many are of the current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_replicas: Option<i32>,
    /// How many are of the new revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub updated_replicas: Option<i32>,
    /// The current revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_revision: Option<String>,
    /// The new revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_revision: Option<String>,
    /// Names of revisions that were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collision_count: Option<i32>,
    /// What is known about the set.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The one that is waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending_replica: Option<PendingReplica>,
}

/// A managed seed that its set waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PendingReplica {
    /// Its name.
    pub name: String,
    /// Why it is waited for.
    pub reason: String,
    /// Since when.
    pub since: Option<Time>,
    /// How often the operation on its Shoot was retried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<i32>,
}
