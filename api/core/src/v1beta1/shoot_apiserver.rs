//! kube-apiserver settings of a shoot (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use std::collections::BTreeMap;

use api_meta::{GoDuration, ObjectReference, RawJson, or_empty, string_enum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ControlPlaneAutoscaling;

/// Settings of kube-apiserver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeAPIServerConfig {
    /// Feature gates by name.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub feature_gates: BTreeMap<String, bool>,
    /// Admission plug-ins switched on, off or configured.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub admission_plugins: Vec<AdmissionPlugin>,
    /// Audiences that tokens are checked against.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub api_audiences: Vec<String>,
    /// What the API server logs about requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_config: Option<AuditConfig>,
    /// API versions on or off.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub runtime_config: BTreeMap<String, bool>,
    /// Service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_config: Option<ServiceAccountConfig>,
    /// Watch cache sizes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watch_cache_sizes: Option<WatchCacheSizes>,
    /// Requests served at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<APIServerRequests>,
    /// Whether requests without credentials are let through authentication.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_anonymous_authentication: Option<bool>,
    /// How long events are kept; at most 7 days.
    #[serde(rename = "eventTTL", skip_serializing_if = "Option::is_none")]
    pub event_ttl: Option<GoDuration>,
    /// Log levels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<APIServerLogging>,
    /// Seconds that pods tolerate nodes that are not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_not_ready_toleration_seconds: Option<i64>,
    /// Seconds that pods tolerate nodes that cannot be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_unreachable_toleration_seconds: Option<i64>,
    /// What of etcd's content is encrypted, and how.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_config: Option<EncryptionConfig>,
    /// Authentication configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_authentication: Option<StructuredAuthentication>,
    /// Authorization configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured_authorization: Option<StructuredAuthorization>,
    /// Bounds of its vertical scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<ControlPlaneAutoscaling>,
    /// Oldest TLS version accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_min_version: Option<String>,
}

/// Log levels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct APIServerLogging {
    /// Log level.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verbosity: Option<i32>,
    /// Log level of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_access_verbosity: Option<i32>,
}

/// Requests served at once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct APIServerRequests {
    /// Reading requests at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_non_mutating_inflight: Option<i32>,
    /// Writing requests at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_mutating_inflight: Option<i32>,
}

/// What of etcd's content is encrypted, and how.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EncryptionConfig {
    /// Resources encrypted beside Secrets.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The provider.
    pub provider: EncryptionProvider,
}

/// How etcd's content is encrypted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EncryptionProvider {
    /// Type.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<EncryptionProviderType>,
}

string_enum! {
    /// How etcd's content is encrypted.
    pub enum EncryptionProviderType {
        /// AES in CBC mode.
        Aescbc = "aescbc",
        /// AES in GCM mode.
        Aesgcm = "aesgcm",
        /// XSalsa20 and Poly1305.
        Secretbox = "secretbox",
    }
}

/// Service account tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ServiceAccountConfig {
    /// Issuer of service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
    /// Let old tokens live longer than asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extend_token_expiration: Option<bool>,
    /// How long tokens may be valid at most; 30 to 90 days.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_token_expiration: Option<GoDuration>,
    /// Further issuers whose tokens the API server accepts; the first in `issuer` signs.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub accepted_issuers: Vec<String>,
}

/// What is logged about requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AuditConfig {
    /// The audit policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_policy: Option<AuditPolicy>,
}

/// The audit policy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AuditPolicy {
    /// ConfigMap in the project's namespace with the policy in key `policy`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_ref: Option<ObjectReference>,
}

/// Authentication configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StructuredAuthentication {
    /// ConfigMap in the project's namespace with the configuration in key `config.yaml`.
    pub config_map_name: String,
}

/// Authorization configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct StructuredAuthorization {
    /// ConfigMap in the project's namespace with the configuration in key `config.yaml`.
    pub config_map_name: String,
    /// Kubeconfigs of webhook authorizers.
    #[serde(deserialize_with = "or_empty")]
    pub kubeconfigs: Vec<AuthorizerKubeconfigReference>,
}

/// The kubeconfig of a webhook authorizer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AuthorizerKubeconfigReference {
    /// Name of the authorizer in the authorization configuration.
    pub authorizer_name: String,
    /// Name of the Secret.
    pub secret_name: String,
}

/// An admission plug-in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AdmissionPlugin {
    /// Name.
    pub name: String,
    /// Its configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<RawJson>,
    /// Off, although it would be on by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disabled: Option<bool>,
    /// Secret in the project's namespace with a kubeconfig in key `kubeconfig`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig_secret_name: Option<String>,
}

/// Watch cache sizes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WatchCacheSizes {
    /// Size for resources not listed; none means the API server's own.
    #[serde(rename = "default", skip_serializing_if = "Option::is_none")]
    pub default_: Option<i32>,
    /// Sizes by resource.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceWatchCacheSize>,
}

/// Watch cache size of one resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceWatchCacheSize {
    /// API group of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Resource.
    pub resource: String,
    /// Objects kept.
    pub size: i32,
}
