//! Seeds: clusters that run control planes (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_seed.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{Condition, LastOperation, NamedResourceReference, ObjectReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessRestriction, Extension, Gardener, IPFamily, SeedSettings};

/// A cluster that runs control planes of shoots. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Seed {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: SeedSpec,
    /// What is known.
    pub status: Option<SeedStatus>,
}

kind!(Seed, "core.gardener.cloud", "v1beta1", "seeds", Cluster, { metadata, spec } optional { status });

/// A seed to be made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedTemplate {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<SeedSpec>,
}

/// What the seed is and offers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSpec {
    /// Where backups of etcd are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup: Option<Backup>,
    /// Domains and who serves them.
    pub dns: SeedDNS,
    /// Networks of the seed.
    pub networks: SeedNetworks,
    /// The provider.
    pub provider: SeedProvider,
    /// Only shoots that tolerate them may use the seed.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<SeedTaint>,
    /// Volumes of the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<SeedVolume>,
    /// What the seed offers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settings: Option<SeedSettings>,
    /// Ingresses of the seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<Ingress>,
    /// Restrictions on who may access it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub access_restrictions: Vec<AccessRestriction>,
    /// Extensions on or off, with their configuration.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub extensions: Vec<Extension>,
    /// Objects that extensions refer to, by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub resources: Vec<NamedResourceReference>,
}

/// How the seed stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedStatus {
    /// The gardenlet that worked on it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gardener: Option<Gardener>,
    /// Kubernetes version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes_version: Option<String>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Identity of the cluster, unique over all landscapes. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_identity: Option<String>,
    /// What it has in all.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// What of `capacity` may be used; key `shoots` limits the number of shoots.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub allocatable: BTreeMap<String, Quantity>,
    /// When gardenlet's certificate ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_certificate_expiration_timestamp: Option<Time>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
}

/// Where backups of etcd are kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Backup {
    /// Provider type of the object store. Immutable.
    pub provider: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<ObjectReference>,
}

/// Domains of the seed and its shoots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedDNS {
    /// The provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SeedDNSProvider>,
    /// Domain of the API servers' internal names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub internal: Option<SeedDNSProviderConfig>,
    /// Domains under which shoots get names when users bring none.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub defaults: Vec<SeedDNSProviderConfig>,
}

/// A domain and who serves it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedDNSProviderConfig {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The domain.
    pub domain: String,
    /// Zone at the provider; found if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    pub credentials_ref: ObjectReference,
}

/// Who serves the seed's own names.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedDNSProvider {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<ObjectReference>,
}

/// Ingresses of the seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Ingress {
    /// Domain of the seed's ingresses. Immutable.
    pub domain: String,
    /// The ingress controller.
    pub controller: IngressController,
}

/// The seed's ingress controller.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct IngressController {
    /// `nginx`.
    pub kind: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
}

/// Networks of the seed. Immutable (nodes once set).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedNetworks {
    /// Network of the nodes (CIDR). Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<String>,
    /// Network of the pods (CIDR). Immutable.
    pub pods: String,
    /// Network of the services (CIDR). Immutable.
    pub services: String,
    /// Networks of shoots that choose none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shoot_defaults: Option<ShootNetworks>,
    /// Networks that control planes must not reach.
    #[serde(
        rename = "blockCIDRs",
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub block_cidrs: Vec<String>,
    /// IP families; one, or two for dual-stack.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<IPFamily>,
}

/// Networks of shoots that choose none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootNetworks {
    /// Network of the pods (CIDR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pods: Option<String>,
    /// Network of the services (CIDR).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub services: Option<String>,
}

/// Where the seed runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedProvider {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Region.
    pub region: String,
    /// Zones.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<String>,
}

/// A taint of a seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedTaint {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Volumes of a seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedVolume {
    /// Smallest volume the seed can make.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_size: Option<Quantity>,
    /// Providers.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub providers: Vec<SeedVolumeProvider>,
}

/// Provider of volumes for a purpose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedVolumeProvider {
    /// What it is for.
    pub purpose: String,
    /// Name.
    pub name: String,
}
