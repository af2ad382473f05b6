//! Entries in buckets, one per shoot (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_backupentry.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension, with_secret};
use crate::object::OwnPart;

/// One shoot's folder in a bucket. Cluster-scoped.
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

kind!(BackupEntry, "extensions.gardener.cloud", "v1alpha1", "backupentries", Cluster, { metadata, spec } optional { status });

impl OwnPart for BackupEntry {
    type Own = ();

    fn set_own(&mut self, (): ()) {}

    fn definition() -> Definition {
        with_secret(extension::<Self>("be"))
            .column("Region", ".spec.region")
            .column("Bucket", ".spec.bucketName")
            .column("Status", STATE)
            .age()
    }

    fn secret_ref(&self) -> Option<&SecretReference> {
        Some(&self.spec.secret_ref)
    }
}

/// What the entry shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupEntrySpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// `status.providerStatus` of the BackupBucket, byte for byte.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backup_bucket_provider_status: Option<RawJson>,
    /// Region.
    pub region: String,
    /// The bucket it is in.
    pub bucket_name: String,
    /// Secret with the credentials.
    pub secret_ref: SecretReference,
}

/// What the extension reports about the entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BackupEntryStatus {
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
    /// Resources.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<NamedResourceReference>,
}
