//! Cloud profiles of one project (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_namespacedcloudprofile.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CloudProfileSpec, KubernetesSettings, Limits, MachineImage, MachineType, VolumeType};

/// A cloud profile of one project, extending another.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NamespacedCloudProfile {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: NamespacedCloudProfileSpec,
    /// What is known.
    pub status: Option<NamespacedCloudProfileStatus>,
}

kind!(NamespacedCloudProfile, "core.gardener.cloud", "v1beta1", "namespacedcloudprofiles", Namespaced, { metadata, spec } optional { status });

/// What it adds to its parent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NamespacedCloudProfileSpec {
    /// Authorities that nodes trust, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Kubernetes versions and settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesSettings>,
    /// Machine images.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_images: Vec<MachineImage>,
    /// Machine types.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_types: Vec<MachineType>,
    /// Volume types offered.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub volume_types: Vec<VolumeType>,
    /// The profile this one extends. Immutable.
    pub parent: CloudProfileReference,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Limits for shoots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NamespacedCloudProfileStatus {
    /// The parent's spec with this profile merged in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_profile_spec: Option<CloudProfileSpec>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Names a cloud profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfileReference {
    /// `CloudProfile` or `NamespacedCloudProfile`.
    pub kind: String,
    /// Name.
    pub name: String,
}
