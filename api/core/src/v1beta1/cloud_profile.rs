//! Cloud profiles: what a cloud offers (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_cloudprofile.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{RawJson, kind, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelectorRequirement, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AccessRestriction, Bastion, MachineImage, MachineType};

/// What one cloud offers: versions, regions, machine types. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfile {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: CloudProfileSpec,
    /// What is known.
    pub status: Option<CloudProfileStatus>,
}

kind!(CloudProfile, "core.gardener.cloud", "v1beta1", "cloudprofiles", Cluster, { metadata, spec } optional { status });

/// The offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfileSpec {
    /// Authorities that nodes trust, PEM.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle: Option<String>,
    /// Kubernetes versions offered.
    pub kubernetes: KubernetesSettings,
    /// Machine images.
    #[serde(deserialize_with = "or_empty")]
    #[schemars(extend("nullable" = true, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_images: Vec<MachineImage>,
    /// Machine types.
    #[serde(deserialize_with = "or_empty")]
    #[schemars(extend("nullable" = true, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_types: Vec<MachineType>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Regions offered.
    #[serde(deserialize_with = "or_empty")]
    #[schemars(extend("nullable" = true, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub regions: Vec<Region>,
    /// Which seeds may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_selector: Option<SeedSelector>,
    /// Provider type of shoots that use the profile.
    #[serde(rename = "type")]
    pub type_: String,
    /// Volume types offered.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub volume_types: Vec<VolumeType>,
    /// Machine type and image of bastions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bastion: Option<Bastion>,
    /// Limits for shoots.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<Limits>,
    /// Capabilities that machine types and images may have, with all their values.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_capabilities: Vec<CapabilityDefinition>,
    /// Settings of the control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<CloudProfileControlPlane>,
}

/// Choices for control planes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfileControlPlane {
    /// Whether shoots may pin their control planes to zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow_zone_pinning: Option<bool>,
}

/// A label selector over seeds, and provider types.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SeedSelector {
    /// Labels that all must be there.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// Requirements that all must hold.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Provider types; `*` means all.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub provider_types: Vec<String>,
}

/// Kubernetes versions offered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubernetesSettings {
    /// Versions.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "version"))]
    pub versions: Vec<ExpirableVersion>,
}

/// A version with its classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExpirableVersion {
    /// Version.
    pub version: String,
    /// When the version may no longer be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Time>,
    /// How far the version may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classification: Option<VersionClassification>,
    /// Classifications over time.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub lifecycle: Vec<LifecycleStage>,
}

/// From when on a version has a classification.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct LifecycleStage {
    /// How far the version may be used.
    pub classification: VersionClassification,
    /// From when on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
}

string_enum! {
    /// How far a version may be used.
    pub enum VersionClassification {
        /// Not at all yet.
        Unavailable = "unavailable",
        /// By those who ask for it.
        Preview = "preview",
        /// By all.
        Supported = "supported",
        /// Still, but no longer chosen by itself.
        Deprecated = "deprecated",
        /// No longer.
        Expired = "expired",
    }
}

/// A region.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Region {
    /// Name.
    pub name: String,
    /// Zones.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub zones: Vec<AvailabilityZone>,
    /// Labels.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Restrictions on who may access it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub access_restrictions: Vec<AccessRestriction>,
}

/// A zone and what it lacks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AvailabilityZone {
    /// Name.
    pub name: String,
    /// Machine types that the zone lacks.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub unavailable_machine_types: Vec<String>,
    /// Volume types that the zone lacks.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub unavailable_volume_types: Vec<String>,
}

/// A volume type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct VolumeType {
    /// Class of the disk: `standard`, `premium`.
    pub class: String,
    /// Name.
    pub name: String,
    /// Whether it may be chosen; nothing means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// Smallest size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Quantity>,
}

/// Limits for shoots.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Limits {
    /// Nodes of a shoot at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_nodes_total: Option<i32>,
}

/// A capability and all values it may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CapabilityDefinition {
    /// Name.
    pub name: String,
    /// Values.
    #[serde(deserialize_with = "or_empty")]
    pub values: Vec<String>,
}

/// Classifications as of now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfileStatus {
    /// Kubernetes versions and settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<KubernetesStatus>,
    /// Machine images.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub machine_images: Vec<MachineImageStatus>,
}

/// Kubernetes versions and their classification now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubernetesStatus {
    /// Versions.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "version"))]
    pub versions: Vec<ExpirableVersionStatus>,
}

/// Versions of an image and their classification now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineImageStatus {
    /// Name.
    pub name: String,
    /// Versions.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "version"))]
    pub versions: Vec<ExpirableVersionStatus>,
}

/// A version's classification now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExpirableVersionStatus {
    /// Version.
    pub version: String,
    /// How far the version may be used.
    pub classification: VersionClassification,
}

/// Values by capability: `{"architecture": ["amd64"]}`.
pub type Capabilities = BTreeMap<String, Vec<String>>;
