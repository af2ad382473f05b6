//! Small types that several kinds use (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_common.go, types_utils.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{RawJson, or_empty, string_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A restriction on who may access a region, seed or shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AccessRestriction {
    /// Name.
    pub name: String,
}

/// A restriction with options.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AccessRestrictionWithOptions {
    /// Name.
    pub name: String,
    /// Options of the restriction.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// An extension in a Shoot or Seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Extension {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Configuration for the extension, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Off, although a registration turns it on by itself. Formerly `enabled: false`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Older spelling, the opposite of `disabled`, which is written in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
}

/// A process of this system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Gardener {
    /// Identity of the process.
    pub id: String,
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
}

/// Redundancy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HighAvailability {
    /// Which failure is survived.
    pub failure_tolerance: FailureTolerance,
}

/// Which failure is survived.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FailureTolerance {
    /// Type.
    #[serde(rename = "type")]
    pub type_: FailureToleranceType,
}

string_enum! {
    /// A failure that a control plane survives.
    pub enum FailureToleranceType {
        /// The failure of a node.
        Node = "node",
        /// The failure of a zone.
        Zone = "zone",
    }
}

string_enum! {
    /// An IP family.
    pub enum IPFamily {
        /// Version 4.
        IPv4 = "IPv4",
        /// Version 6.
        IPv6 = "IPv6",
    }
}
