//! Quotas and secret bindings (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_quota.go, types_secretbinding.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{ObjectReference, SecretReference, kind, null_if_empty, or_empty};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Limits for the shoots of a project or credential.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Quota {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: QuotaSpec,
}

kind!(Quota, "core.gardener.cloud", "v1beta1", "quotas", Namespaced, { metadata, spec } optional {  });

/// The limits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct QuotaSpec {
    /// Days after which a shoot under this quota is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_lifetime_days: Option<i32>,
    /// Limits by resource.
    #[serde(deserialize_with = "or_empty", serialize_with = "null_if_empty")]
    #[schemars(extend("nullable" = true))]
    pub metrics: BTreeMap<String, Quantity>,
    /// What it counts: a Project or a credential.
    pub scope: ObjectReference,
}

/// Makes a Secret usable as cloud credentials: the older form of CredentialsBinding.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SecretBinding {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// The Secret with the credentials. Immutable.
    pub secret_ref: SecretReference,
    /// Quotas that apply.
    #[serde(default, deserialize_with = "or_empty")]
    pub quotas: Vec<ObjectReference>,
    /// The provider.
    pub provider: Option<SecretBindingProvider>,
}

kind!(SecretBinding, "core.gardener.cloud", "v1beta1", "secretbindings", Namespaced, { metadata, secret_ref = "secretRef" } optional { quotas, provider });

/// Provider types; several are separated by commas. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SecretBindingProvider {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
}
