//! Networks and the like that machines need (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_infrastructure.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, SecretReference, kind, or_empty};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension, regional, with_secret};
use crate::object::OwnPart;

/// The networks and the like that a shoot's machines need.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Infrastructure {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: InfrastructureSpec,
    /// What is known.
    pub status: Option<InfrastructureStatus>,
}

kind!(Infrastructure, "extensions.gardener.cloud", "v1alpha1", "infrastructures", Namespaced, { metadata, spec } optional { status });

/// Status of an Infrastructure beside the common one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InfrastructureOwn {
    /// The nodes' network, where the provider chose it.
    pub nodes_cidr: Option<String>,
    /// Where traffic from the cluster comes from.
    pub egress_cidrs: Vec<String>,
    /// All networks in use.
    pub networking: Option<InfrastructureStatusNetworking>,
}

impl OwnPart for Infrastructure {
    type Own = InfrastructureOwn;

    fn set_own(&mut self, own: InfrastructureOwn) {
        let InfrastructureOwn {
            nodes_cidr,
            egress_cidrs,
            networking,
        } = own;
        let status = self.status.get_or_insert_default();
        status.nodes_cidr = nodes_cidr;
        status.egress_cidrs = egress_cidrs;
        status.networking = networking;
    }

    fn definition() -> Definition {
        with_secret(regional(extension::<Self>("infra")))
            .column("Region", ".spec.region")
            .column("Status", STATE)
            .age()
    }

    fn secret_ref(&self) -> Option<&SecretReference> {
        Some(&self.spec.secret_ref)
    }
}

/// What the infrastructure shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InfrastructureSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Region.
    pub region: String,
    /// Secret with the credentials.
    pub secret_ref: SecretReference,
    /// Public key for SSH on the nodes; base64 in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub ssh_public_key: Option<ByteString>,
    /// Name of the API server in older documents. It is accepted and not used, since the DNSRecord has the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns: Option<RawJson>,
}

/// What the extension reports about the infrastructure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InfrastructureStatus {
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
    /// Network of the nodes, if the infrastructure chose one.
    #[serde(rename = "nodesCIDR", skip_serializing_if = "Option::is_none")]
    pub nodes_cidr: Option<String>,
    /// Networks from which the shoot's nodes call the outside.
    #[serde(
        rename = "egressCIDRs",
        default,
        deserialize_with = "or_empty",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub egress_cidrs: Vec<String>,
    /// Networks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub networking: Option<InfrastructureStatusNetworking>,
}

/// Networks the infrastructure ended up with.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InfrastructureStatusNetworking {
    /// Networks of the pods.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// Networks of the nodes.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Networks of the services.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
}
