//! Configuration of container runtimes on nodes (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_operatingsystemconfig.go).
//! It only describes; providers act on it and answer in the status.

use api_core::v1beta1::CRIName;
use api_meta::{RawJson, or_empty, string_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Configuration of the container runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CRIConfig {
    /// Name.
    pub name: CRIName,
    /// Who manages control groups; the kubelet must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cgroup_driver: Option<CgroupDriverName>,
    /// Configuration of containerd.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containerd: Option<ContainerdConfig>,
}

string_enum! {
    /// Who manages control groups.
    pub enum CgroupDriverName {
        /// The file system.
        Cgroupfs = "cgroupfs",
        /// systemd.
        Systemd = "systemd",
    }
}

/// Configuration of containerd.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerdConfig {
    /// Mirrors of registries.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub registries: Vec<RegistryConfig>,
    /// The pause image.
    pub sandbox_image: String,
    /// Changes of containerd's plug-in configuration.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginConfig>,
}

/// A change of containerd's plug-in configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PluginConfig {
    /// `add` or `remove`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub op: Option<PluginPathOperation>,
    /// Path of the table in containerd's configuration.
    #[serde(deserialize_with = "or_empty")]
    pub path: Vec<String>,
    /// The table's new content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::any")]
    pub values: Option<RawJson>,
}

string_enum! {
    /// What to do with a table.
    pub enum PluginPathOperation {
        /// Set it.
        Add = "add",
        /// Remove it.
        Remove = "remove",
    }
}

/// Mirrors of a registry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RegistryConfig {
    /// The registry mirrored.
    pub upstream: String,
    /// The registry itself; nothing means the upstream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// Mirrors, tried in order.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<RegistryHost>,
    /// Wait until the mirrors answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub readiness_probe: Option<bool>,
}

/// A mirror.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct RegistryHost {
    /// URL.
    pub url: String,
    /// What the host may be used for.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub capabilities: Vec<RegistryCapability>,
    /// Paths of the host's authorities.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ca_certs: Vec<String>,
    /// The URL is the whole API root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub override_path: Option<bool>,
}

string_enum! {
    /// What a mirror may be used for.
    pub enum RegistryCapability {
        /// Fetching.
        Pull = "pull",
        /// Turning tags into digests.
        Resolve = "resolve",
        /// Storing.
        Push = "push",
    }
}
