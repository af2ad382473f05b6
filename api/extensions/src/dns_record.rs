//! DNS names (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_dnsrecord.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{
    Condition, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference, kind, or_empty, string_enum,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension, with_secret};
use crate::object::OwnPart;

/// A DNS name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNSRecord {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: DNSRecordSpec,
    /// What is known.
    pub status: Option<DNSRecordStatus>,
}

kind!(DNSRecord, "extensions.gardener.cloud", "v1alpha1", "dnsrecords", Namespaced, { metadata, spec } optional { status });

impl OwnPart for DNSRecord {
    type Own = Option<String>;

    fn set_own(&mut self, zone: Option<String>) {
        self.status.get_or_insert_default().zone = zone;
    }

    fn definition() -> Definition {
        with_secret(extension::<Self>("dns"))
            .immutable("spec.name")
            .immutable("spec.recordType")
            .column("DNS Name", ".spec.name")
            .column("Record Type", ".spec.recordType")
            .column("Status", STATE)
            .age()
    }

    fn secret_ref(&self) -> Option<&SecretReference> {
        Some(&self.spec.secret_ref)
    }
}

/// What the name stands for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNSRecordSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Secret with the credentials.
    pub secret_ref: SecretReference,
    /// Region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Zone at the provider, found by the extension if empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Name.
    pub name: String,
    /// A, AAAA, CNAME or TXT. Immutable.
    pub record_type: DNSRecordType,
    /// What the name stands for.
    #[serde(deserialize_with = "or_empty")]
    pub values: Vec<String>,
    /// Seconds that answers may be kept; nothing means 120.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<i64>,
}

string_enum! {
    /// A type of DNS record.
    pub enum DNSRecordType {
        /// IPv4 addresses.
        A = "A",
        /// IPv6 addresses.
        AAAA = "AAAA",
        /// Another name.
        CNAME = "CNAME",
        /// Texts.
        TXT = "TXT",
    }
}

/// What the extension reports about the name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DNSRecordStatus {
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
    /// Zone at the provider that was used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
}
