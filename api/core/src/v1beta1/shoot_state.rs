//! State that outlives a seed (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shootstate.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{NamedResourceReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is needed to restore a shoot's control plane elsewhere; same namespace and name as the shoot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootState {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ShootStateSpec,
}

kind!(ShootState, "core.gardener.cloud", "v1beta1", "shootstates", Namespaced, { metadata, spec } optional {  });

/// The state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootStateSpec {
    /// State that gardenlet itself needs.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub gardener: Vec<GardenerResourceData>,
    /// State of extension objects.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<ExtensionResourceState>,
    /// Objects that extensions' states refer to.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceData>,
}

/// One piece of gardenlet's own state.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GardenerResourceData {
    /// Name.
    pub name: String,
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// The data.
    pub data: RawJson,
    /// Labels.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
}

/// State of one extension object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExtensionResourceState {
    /// Kind.
    pub kind: String,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// The object's `status.state`, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RawJson>,
    /// Resources.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NamedResourceReference>,
}

/// A whole object that extensions' states refer to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceData {
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// API version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The data.
    pub data: RawJson,
}
