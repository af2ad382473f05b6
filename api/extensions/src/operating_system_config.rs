//! Units and files of nodes (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_operatingsystemconfig.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{
    Condition, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference, kind, or_empty, string_enum,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::crds::{STATE, extension};
use crate::object::OwnPart;
use crate::{CRIConfig, ExtensionClass};

/// Units and files of a pool's nodes, translated for an operating system.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct OperatingSystemConfig {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: OperatingSystemConfigSpec,
    /// What is known.
    pub status: Option<OperatingSystemConfigStatus>,
}

kind!(OperatingSystemConfig, "extensions.gardener.cloud", "v1alpha1", "operatingsystemconfigs", Namespaced, { metadata, spec } optional { status });

/// Status of an OperatingSystemConfig beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatingSystemConfigOwn {
    /// Units the extension adds.
    pub extension_units: Vec<Unit>,
    /// Files the extension adds.
    pub extension_files: Vec<File>,
    /// Where the user data is (purpose provision).
    pub cloud_config: Option<CloudConfig>,
}

impl OwnPart for OperatingSystemConfig {
    type Own = OperatingSystemConfigOwn;

    fn set_own(&mut self, own: OperatingSystemConfigOwn) {
        let OperatingSystemConfigOwn {
            extension_units,
            extension_files,
            cloud_config,
        } = own;
        let status = self.status.get_or_insert_default();
        status.extension_units = extension_units;
        status.extension_files = extension_files;
        status.cloud_config = cloud_config;
    }

    fn definition() -> Definition {
        extension::<Self>("osc")
            .immutable("spec.purpose")
            .column("Purpose", ".spec.purpose")
            .column("Status", STATE)
            .age()
    }

    fn purpose(&self) -> Option<&str> {
        Some(self.spec.purpose.as_str())
    }
}

/// What the nodes shall have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct OperatingSystemConfigSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Configuration of the container runtime.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cri_config: Option<CRIConfig>,
    /// What it is for.
    pub purpose: OperatingSystemConfigPurpose,
    /// systemd units.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub units: Vec<Unit>,
    /// Files to write.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
    /// Updates of nodes in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_updates: Option<InPlaceUpdates>,
}

string_enum! {
    /// What an OperatingSystemConfig is for.
    pub enum OperatingSystemConfigPurpose {
        /// The user data of new machines.
        Provision = "provision",
        /// Running nodes.
        Reconcile = "reconcile",
    }
}

/// A systemd unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Unit {
    /// Name.
    pub name: String,
    /// What to do with the unit now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<UnitCommand>,
    /// Whether the unit starts with the system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable: Option<bool>,
    /// The content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// Drop-ins of the unit.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub drop_ins: Vec<DropIn>,
    /// Files the unit depends on: it is restarted when they change.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub file_paths: Vec<String>,
}

string_enum! {
    /// What to do with a unit.
    pub enum UnitCommand {
        /// Start it.
        Start = "start",
        /// Restart it.
        Restart = "restart",
        /// Stop it.
        Stop = "stop",
    }
}

/// A drop-in of a unit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DropIn {
    /// Name.
    pub name: String,
    /// The content.
    pub content: String,
}

/// A file on the nodes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct File {
    /// Path.
    pub path: String,
    /// File mode as a number, for instance 420 for 0644.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub permissions: Option<u32>,
    /// What is in it.
    pub content: FileContent,
    /// Only on the node with this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_name: Option<String>,
}

/// What is in a file: exactly one of Secret, text, image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FileContent {
    /// Secret with the credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<FileContentSecretRef>,
    /// The content itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inline: Option<FileContentInline>,
    /// Do not encode the content on the way to the node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transmit_unencoded: Option<bool>,
    /// A file of a container image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image_ref: Option<FileContentImageRef>,
}

/// Content from a Secret.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FileContentSecretRef {
    /// Name.
    pub name: String,
    /// Key in the Secret.
    pub data_key: String,
}

/// Content as text.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FileContentInline {
    /// `""` for plain text, `b64` for base64.
    pub encoding: String,
    /// The data.
    pub data: String,
}

/// Content from a container image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FileContentImageRef {
    /// Image.
    pub image: String,
    /// Path of the file in the image.
    pub file_path_in_image: String,
}

/// What the extension reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct OperatingSystemConfigStatus {
    /// What the provider reports, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<RawJson>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
    /// What went wrong last; empty after success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the extension needs to take over on another seed, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<RawJson>,
    /// Resources.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NamedResourceReference>,
    /// Units that the extension adds.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub extension_units: Vec<Unit>,
    /// Files that the extension adds.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub extension_files: Vec<File>,
    /// Where the user data is; only for purpose `provision`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_config: Option<CloudConfig>,
    /// Updates of nodes in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_place_updates: Option<InPlaceUpdatesStatus>,
}

/// Where the user data is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CloudConfig {
    /// Secret with the credentials.
    pub secret_ref: SecretReference,
}

/// Versions to update nodes to in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InPlaceUpdates {
    /// Version of the operating system to update to.
    pub operating_system_version: String,
    /// Version of the kubelet to update to.
    pub kubelet: String,
    /// When credentials on the nodes were rotated last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_rotation: Option<CredentialsRotation>,
}

/// How nodes are updated in place.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InPlaceUpdatesStatus {
    /// How the operating system is updated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os_update: Option<OSUpdate>,
}

/// How the operating system is updated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct OSUpdate {
    /// What to run.
    pub command: String,
    /// Arguments of the command.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
}

/// When credentials on the nodes were rotated last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CredentialsRotation {
    /// The certificate authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authorities: Option<CARotation>,
    /// The key that signs service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_key: Option<ServiceAccountKeyRotation>,
}

/// When the authorities were rotated last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CARotation {
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
}

/// When the service account key was rotated last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ServiceAccountKeyRotation {
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
}
