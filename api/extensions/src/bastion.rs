//! Machines through which people reach nodes (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_bastion.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, kind, or_empty};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::LoadBalancerIngress;
use k8s_openapi::api::networking::v1::IPBlock;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension};
use crate::object::OwnPart;

/// A machine through which people reach a shoot's nodes.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Bastion {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: BastionSpec,
    /// What is known.
    pub status: Option<BastionStatus>,
}

kind!(Bastion, "extensions.gardener.cloud", "v1alpha1", "bastions", Namespaced, { metadata, spec } optional { status });

impl OwnPart for Bastion {
    type Own = Option<LoadBalancerIngress>;

    fn set_own(&mut self, ingress: Option<LoadBalancerIngress>) {
        self.status.get_or_insert_default().ingress = ingress;
    }

    fn definition() -> Definition {
        extension::<Self>("")
            .immutable("spec.userData")
            .column("Status", STATE)
            .column("IP", ".status.ingress.ip")
            .column("Hostname", ".status.ingress.hostname")
            .age()
    }
}

/// What the bastion shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// User data of the machine; base64 in JSON. Immutable.
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub user_data: ByteString,
    /// Who may connect.
    #[serde(deserialize_with = "or_empty")]
    pub ingress: Vec<BastionIngressPolicy>,
}

/// A network that may connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionIngressPolicy {
    /// Allowed network.
    pub ip_block: IPBlock,
}

/// What the extension reports about the bastion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct BastionStatus {
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
    /// Where it can be reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<LoadBalancerIngress>,
}
