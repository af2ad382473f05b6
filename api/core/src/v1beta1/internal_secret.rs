//! Secrets that only system components see (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_internalsecret.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{kind, or_empty};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::Deserialize;

/// A Secret that only system components see, in a project's namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InternalSecret {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// Whether the data may never change.
    pub immutable: Option<bool>,
    /// The data; base64 in JSON.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(schema_with = "api_meta::schema::bytes_map")]
    pub data: BTreeMap<String, ByteString>,
    /// Data as text; write only.
    #[serde(default, deserialize_with = "or_empty")]
    pub string_data: BTreeMap<String, String>,
    /// Type.
    #[serde(rename = "type")]
    pub type_: Option<String>,
}

kind!(InternalSecret, "core.gardener.cloud", "v1beta1", "internalsecrets", Namespaced, { metadata } optional { immutable, data, string_data = "stringData", type_ = "type" });
