//! Rotation of a shoot's credentials (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_shoot.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::EncryptionProviderType;

/// Credentials of the shoot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootCredentials {
    /// Rotation of credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rotation: Option<ShootCredentialsRotation>,
    /// How etcd's content is encrypted now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_at_rest: Option<EncryptionAtRest>,
}

/// Rotation of credentials, one field each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootCredentialsRotation {
    /// The certificate authorities.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certificate_authorities: Option<CARotation>,
    /// The nodes' SSH key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_keypair: Option<ShootSSHKeypairRotation>,
    /// Credentials of monitoring and logging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observability: Option<ObservabilityRotation>,
    /// The key that signs service account tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_key: Option<ServiceAccountKeyRotation>,
    /// The key that encrypts etcd's content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub etcd_encryption_key: Option<ETCDEncryptionKeyRotation>,
}

string_enum! {
    /// Where a rotation stands.
    pub enum CredentialsRotationPhase {
        /// The new credentials are being added.
        Preparing = "Preparing",
        /// The same, without rolling out workers.
        PreparingWithoutWorkersRollout = "PreparingWithoutWorkersRollout",
        /// Workers must be rolled out.
        WaitingForWorkersRollout = "WaitingForWorkersRollout",
        /// Old and new are valid.
        Prepared = "Prepared",
        /// The old ones are being removed.
        Completing = "Completing",
        /// Done.
        Completed = "Completed",
    }
}

/// How etcd's content is encrypted now.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EncryptionAtRest {
    /// Resources encrypted now.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// The provider.
    pub provider: EncryptionProviderStatus,
}

/// The encryption in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EncryptionProviderStatus {
    /// Type.
    #[serde(rename = "type")]
    pub type_: EncryptionProviderType,
}

/// Rotation of the certificate authorities.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CARotation {
    /// Where it stands.
    pub phase: CredentialsRotationPhase,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When preparation ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_finished_time: Option<Time>,
    /// When completion was asked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_triggered_time: Option<Time>,
    /// Pools that must still be rolled out.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub pending_workers_rollouts: Vec<PendingWorkersRollout>,
}

/// Rotation of a kubeconfig.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootKubeconfigRotation {
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
}

/// Rotation of the nodes' SSH key.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ShootSSHKeypairRotation {
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
}

/// Rotation of the credentials of monitoring and logging.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ObservabilityRotation {
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
}

/// Rotation of the key that signs service account tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ServiceAccountKeyRotation {
    /// Where it stands.
    pub phase: CredentialsRotationPhase,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When preparation ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_finished_time: Option<Time>,
    /// When completion was asked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_triggered_time: Option<Time>,
    /// Pools that must still be rolled out.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub pending_workers_rollouts: Vec<PendingWorkersRollout>,
}

/// Rotation of the key that encrypts etcd's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ETCDEncryptionKeyRotation {
    /// Where it stands.
    pub phase: CredentialsRotationPhase,
    /// When the rotation was completed last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_time: Option<Time>,
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
    /// When preparation ended last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_finished_time: Option<Time>,
    /// When completion was asked for last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_completion_triggered_time: Option<Time>,
    /// Complete the rotation by itself once it is prepared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_complete_after_prepared: Option<bool>,
}

/// A pool that must still be rolled out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PendingWorkersRollout {
    /// Name.
    pub name: String,
    /// When the rotation was started last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_initiation_time: Option<Time>,
}
