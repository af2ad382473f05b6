//! ManagedResource: objects to be applied and kept (gardener/gardener v1.150 pkg/apis/resources/v1alpha1/types.go).
//! It only describes; resource-manager acts on it.

use std::collections::BTreeMap;

use api_meta::conditions::managed_resource::RESOURCES_APPLIED;
use api_meta::{Condition, ConditionStatus, LocalObjectReference, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Objects to be applied and kept, from Secrets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedResource {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ManagedResourceSpec,
    /// What is known.
    pub status: Option<ManagedResourceStatus>,
}

kind!(ManagedResource, "resources.gardener.cloud", "v1alpha1", "managedresources", Namespaced, { metadata, spec } optional { status });

/// Why a ManagedResource has not been applied in its present form.
#[must_use]
pub fn not_applied(resource: &ManagedResource) -> Option<String> {
    let Some(status) = &resource.status else {
        return Some("gardener-resource-manager has not seen it yet".to_owned());
    };
    if status.observed_generation != resource.metadata.generation {
        return Some("gardener-resource-manager has not seen its newest form yet".to_owned());
    }
    match Condition::find(&status.conditions, RESOURCES_APPLIED) {
        Some(condition) if condition.status == ConditionStatus::True => None,
        Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
        None => Some("gardener-resource-manager has not applied it yet".to_owned()),
    }
}

/// What to apply and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedResourceSpec {
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// Secrets with the objects; all values of a Secret are applied, keys in order.
    #[serde(deserialize_with = "or_empty")]
    pub secret_refs: Vec<LocalObjectReference>,
    /// Labels put on every object.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub inject_labels: BTreeMap<String, String>,
    /// Remove labels that others set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_overwrite_labels: Option<bool>,
    /// Remove annotations that others set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub force_overwrite_annotations: Option<bool>,
    /// Leave the objects in place when this goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub keep_objects: Option<bool>,
    /// Sets of group and kind that are the same object under several names.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub equivalences: Vec<Vec<GroupKind>>,
    /// Delete the volume claims of StatefulSets with them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_persistent_volume_claims: Option<bool>,
}

/// What was applied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ManagedResourceStatus {
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What is applied now.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ObjectReference>,
    /// Checksum of what is in the Secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secrets_data_checksum: Option<String>,
}

/// An applied object with the labels and annotations it was given.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ObjectReference {
    /// Kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Unique id. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// API version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Path within the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
    /// Labels.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// A group and kind, without version.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct GroupKind {
    /// API group; empty for Kubernetes' core group.
    pub group: String,
    /// Kind.
    pub kind: String,
}
