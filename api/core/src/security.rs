//! `security.gardener.cloud/v1alpha1`: credentials (gardener/gardener v1.150 pkg/apis/security/v1alpha1).
//! It only describes; it never holds a secret beyond the token of a TokenRequest.

use api_meta::{ObjectReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Makes a Secret or WorkloadIdentity usable as cloud credentials.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CredentialsBinding {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// The provider.
    pub provider: CredentialsBindingProvider,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity. Immutable.
    pub credentials_ref: ObjectReference,
    /// Quotas that apply.
    #[serde(default, deserialize_with = "or_empty")]
    pub quotas: Vec<ObjectReference>,
}

kind!(CredentialsBinding, "security.gardener.cloud", "v1alpha1", "credentialsbindings", Namespaced, { metadata, provider, credentials_ref = "credentialsRef" } optional { quotas });

/// Provider types; several are separated by commas. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CredentialsBindingProvider {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
}

/// An identity whose tokens a cloud trusts.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkloadIdentity {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: WorkloadIdentitySpec,
    /// What is known.
    pub status: Option<WorkloadIdentityStatus>,
}

kind!(WorkloadIdentity, "security.gardener.cloud", "v1alpha1", "workloadidentities", Namespaced, { metadata, spec } optional { status });

/// What its tokens say and where they are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkloadIdentitySpec {
    /// Audiences of the tokens.
    #[serde(deserialize_with = "or_empty")]
    pub audiences: Vec<String>,
    /// Where the tokens are used.
    pub target_system: TargetSystem,
}

/// Where the tokens are used.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TargetSystem {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
}

/// What is known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct WorkloadIdentityStatus {
    /// Subject of the tokens.
    pub sub: String,
}

/// Asks for a token of a WorkloadIdentity; subresource `token`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TokenRequest {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: TokenRequestSpec,
    /// What is known.
    pub status: Option<TokenRequestStatus>,
}

kind!(TokenRequest, "security.gardener.cloud", "v1alpha1", "tokenrequests", Namespaced, { metadata, spec } optional { status });

/// What the token shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TokenRequestSpec {
    /// The object on whose behalf the token is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context_object: Option<ContextObject>,
    /// Seconds that it shall be valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expiration_seconds: Option<i64>,
}

/// The object on whose behalf the token is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContextObject {
    /// Kind.
    pub kind: String,
    /// API version of the object.
    pub api_version: String,
    /// Name.
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Unique id. Immutable once set.
    pub uid: String,
}

/// The token.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TokenRequestStatus {
    /// The token.
    pub token: String,
    /// When it ends.
    pub expiration_timestamp: Option<Time>,
}
