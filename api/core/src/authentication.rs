//! `authentication.gardener.cloud/v1alpha1`: bodies of the shoot subresources `adminkubeconfig` and
//! `viewerkubeconfig` (gardener/gardener v1.150 pkg/apis/authentication/v1alpha1). They are never stored.

use api_meta::kind;
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Asks for a kubeconfig with all rights in a shoot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AdminKubeconfigRequest {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: KubeconfigRequestSpec,
    /// The answer.
    pub status: Option<KubeconfigRequestStatus>,
}

kind!(AdminKubeconfigRequest, "authentication.gardener.cloud", "v1alpha1", "adminkubeconfigrequests", Namespaced, { metadata, spec } optional { status });

/// Asks for a kubeconfig that may read a shoot, but no Secrets.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ViewerKubeconfigRequest {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is asked for.
    pub spec: KubeconfigRequestSpec,
    /// The answer.
    pub status: Option<KubeconfigRequestStatus>,
}

kind!(ViewerKubeconfigRequest, "authentication.gardener.cloud", "v1alpha1", "viewerkubeconfigrequests", Namespaced, { metadata, spec } optional { status });

/// What kubeconfig is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeconfigRequestSpec {
    /// Seconds that it shall be valid; nothing means one hour. The answer may be shorter.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
}

/// The kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct KubeconfigRequestStatus {
    /// The kubeconfig, YAML; base64 in JSON.
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub kubeconfig: ByteString,
    /// When its certificate ends.
    pub expiration_timestamp: Option<Time>,
}
