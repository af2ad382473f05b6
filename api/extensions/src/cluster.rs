//! What extensions know about a shoot (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_cluster.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::{RawJson, kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The Shoot, its Seed and CloudProfile, for extensions in the seed. Cluster-scoped; named after the shoot's
/// technical id.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Cluster {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ClusterSpec,
}

kind!(Cluster, "extensions.gardener.cloud", "v1alpha1", "clusters", Cluster, { metadata, spec } optional {  });

/// The three objects, whole, as opaque JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterSpec {
    /// The whole CloudProfile.
    pub cloud_profile: RawJson,
    /// The whole Seed; nothing for self-hosted shoots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<RawJson>,
    /// The whole Shoot.
    pub shoot: RawJson,
}
