//! References from one object to another. Kubernetes' own reference types are re-exported, never copied.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use k8s_openapi::api::autoscaling::v1::CrossVersionObjectReference;
pub use k8s_openapi::api::core::v1::{LocalObjectReference, ObjectReference, SecretReference};

/// A named reference to an object of the same namespace (`spec.resources` of a Shoot, `status.resources` of an
/// extension object). Source: gardener/gardener v1.150 pkg/apis/core/v1beta1/types_common.go.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NamedResourceReference {
    /// The name by which other fields refer to this entry.
    pub name: String,
    /// The object itself.
    pub resource_ref: CrossVersionObjectReference,
}
