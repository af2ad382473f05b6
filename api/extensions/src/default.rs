//! Fields that all extension kinds have (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_defaults.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, or_empty, string_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What every extension kind is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DefaultSpec {
    /// Which extension is responsible. Immutable.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
}

/// What every extension kind answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DefaultStatus {
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
    /// Objects that belong to the state.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NamedResourceReference>,
}

string_enum! {
    /// For whom an extension object is.
    pub enum ExtensionClass {
        /// The garden.
        Garden = "garden",
        /// The seed.
        Seed = "seed",
        /// A shoot.
        Shoot = "shoot",
    }
}
