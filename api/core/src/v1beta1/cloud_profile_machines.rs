//! Machine types and images of a cloud profile (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_cloudprofile.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CRI, Capabilities, LifecycleStage, VersionClassification};

/// A machine image with its versions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineImage {
    /// Name.
    pub name: String,
    /// Versions.
    #[serde(deserialize_with = "or_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "version"))]
    pub versions: Vec<MachineImageVersion>,
    /// How updates are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<MachineImageUpdateStrategy>,
}

/// One version of a machine image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineImageVersion {
    /// Version.
    pub version: String,
    /// When the version may no longer be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Time>,
    /// How far the version may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub classification: Option<VersionClassification>,
    /// When in a shoot's flow it is handled; only for kind Extension.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub lifecycle: Vec<LifecycleStage>,
    /// Container runtimes that the image comes with.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub cri: Vec<CRI>,
    /// CPU architectures: `amd64` (if empty), `arm64`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub architectures: Vec<String>,
    /// Kubelet versions it works with: a semver range such as `>= 1.31`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_version_constraint: Option<String>,
    /// Updates of nodes in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_updates: Option<InPlaceUpdates>,
    /// Sets of capabilities the image comes in.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub capability_flavors: Vec<Capabilities>,
}

string_enum! {
    /// To which version a machine image is updated by itself.
    pub enum MachineImageUpdateStrategy {
        /// Newest patch of the same minor.
        Patch = "patch",
        /// Newest minor of the same major.
        Minor = "minor",
        /// Newest of all.
        Major = "major",
    }
}

/// Whether an image version supports updates in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InPlaceUpdates {
    /// Whether it works.
    pub supported: bool,
    /// Oldest version from which an update in place works.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_version_for_update: Option<String>,
}

/// A machine type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineType {
    /// CPU cores.
    pub cpu: Quantity,
    /// GPUs.
    pub gpu: Quantity,
    /// Memory.
    pub memory: Quantity,
    /// Name.
    pub name: String,
    /// Disk that comes with the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<MachineTypeStorage>,
    /// Whether it may be chosen; nothing means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable: Option<bool>,
    /// CPU architecture: `amd64` (if empty) or `arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
    /// Capabilities by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub capabilities: Capabilities,
    /// Settings of the machine controllers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_controller_manager: Option<CloudProfileMachineControllerManagerSettings>,
}

/// The disk that comes with a machine type: `size` if fixed, `minSize` if not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineTypeStorage {
    /// Class of the disk: `standard`, `premium`.
    pub class: String,
    /// Size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Smallest size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_size: Option<Quantity>,
}

/// Settings of the machine controllers for a machine type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudProfileMachineControllerManagerSettings {
    /// How long a machine may take to join.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_creation_timeout: Option<GoDuration>,
}

/// Machine type and image of bastions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Bastion {
    /// Machine image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_image: Option<BastionMachineImage>,
    /// Machine type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_type: Option<BastionMachineType>,
}

/// Machine image of bastions; without a version the newest that fits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionMachineImage {
    /// Name.
    pub name: String,
    /// Version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}

/// Machine type of bastions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionMachineType {
    /// Name.
    pub name: String,
}
