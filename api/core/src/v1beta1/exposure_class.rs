//! Ways to expose control planes (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_exposureclass.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{SeedSelector, Toleration};

/// A way to expose control planes. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExposureClass {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// Name of the handler in gardenlet's configuration. Immutable.
    pub handler: String,
    /// Seeds that offer it.
    pub scheduling: Option<ExposureClassScheduling>,
}

kind!(ExposureClass, "core.gardener.cloud", "v1beta1", "exposureclasses", Cluster, { metadata, handler } optional { scheduling });

/// Seeds that offer it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExposureClassScheduling {
    /// Which seeds may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_selector: Option<SeedSelector>,
    /// Taints that are tolerated.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "key"))]
    pub tolerations: Vec<Toleration>,
}
