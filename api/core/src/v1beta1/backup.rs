//! Backup buckets and entries in the garden (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_backupbucket.go, types_backupentry.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{LastError, LastOperation, ObjectReference, RawJson, SecretReference, kind};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bucket for backups of a seed's shoots, in the garden. Cluster-scoped; named after the seed's uid.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupBucket {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: BackupBucketSpec,
    /// What is known.
    pub status: Option<BackupBucketStatus>,
}

kind!(BackupBucket, "core.gardener.cloud", "v1beta1", "backupbuckets", Cluster, { metadata, spec } optional { status });

/// What the bucket shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupBucketSpec {
    /// The provider.
    pub provider: BackupBucketProvider,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<ObjectReference>,
    /// The self-hosted shoot it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shoot_ref: Option<ObjectReference>,
}

/// What is known about the bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupBucketStatus {
    /// What the provider reports, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<RawJson>,
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// What went wrong last; empty after success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Secret with credentials that the extension made, to be used instead of those given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generated_secret_ref: Option<SecretReference>,
}

/// Where the bucket is. Immutable.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupBucketProvider {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// Region.
    pub region: String,
}

/// The backup of one shoot, in the garden. Named `<technicalID>--<shoot uid>`; keeps its data for a grace period on
/// deletion.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupEntry {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: BackupEntrySpec,
    /// What is known.
    pub status: Option<BackupEntryStatus>,
}

kind!(BackupEntry, "core.gardener.cloud", "v1beta1", "backupentries", Namespaced, { metadata, spec } optional { status });

/// Where the backup is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupEntrySpec {
    /// The bucket it is in.
    pub bucket_name: String,
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// The self-hosted shoot it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shoot_ref: Option<ObjectReference>,
}

/// What is known about the backup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupEntryStatus {
    /// What was done last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_operation: Option<LastOperation>,
    /// What went wrong last; empty after success.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_error: Option<LastError>,
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_name: Option<String>,
    /// When migration to another seed began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migration_start_time: Option<Time>,
}
