//! `operations.gardener.cloud/v1alpha1`: bastions in the garden (gardener/gardener v1.150 pkg/apis/operations/v1alpha1).
//! It only describes; gardenlet turns one into an extension object.

use api_meta::{Condition, LocalObjectReference, kind, or_empty};
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::api::networking::v1::IPBlock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A machine through which a user reaches a shoot's nodes for a while.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Bastion {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: BastionSpec,
    /// What is known.
    pub status: Option<BastionStatus>,
}

kind!(Bastion, "operations.gardener.cloud", "v1alpha1", "bastions", Namespaced, { metadata, spec } optional { status });

/// What the bastion shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionSpec {
    /// The shoot in the same namespace. Immutable.
    pub shoot_ref: LocalObjectReference,
    /// The shoot's seed; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// The shoot's provider type; set by the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_type: Option<String>,
    /// The user's public key for SSH. Immutable.
    pub ssh_public_key: String,
    /// Who may connect.
    #[serde(deserialize_with = "or_empty")]
    pub ingress: Vec<BastionIngressPolicy>,
}

/// A network that may connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionIngressPolicy {
    /// Allowed network.
    pub ip_block: IPBlock,
}

/// What is known about the bastion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionStatus {
    /// Where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<LoadBalancerIngress>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// When its user asked to keep it last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_timestamp: Option<Time>,
    /// When it will be deleted without another heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_timestamp: Option<Time>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
