//! Pod networks (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_network.go).
//! It only describes; providers act on it and answer in the status.

use api_core::v1beta1::IPFamily;
use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension};
use crate::object::OwnPart;

/// The pod network of a shoot.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Network {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: NetworkSpec,
    /// What is known.
    pub status: Option<NetworkStatus>,
}

kind!(Network, "extensions.gardener.cloud", "v1alpha1", "networks", Namespaced, { metadata, spec } optional { status });

impl OwnPart for Network {
    type Own = Vec<IPFamily>;

    fn set_own(&mut self, families: Vec<IPFamily>) {
        self.status.get_or_insert_default().ip_families = families;
    }

    fn definition() -> Definition {
        extension::<Self>("")
            .immutable("spec.podCIDR")
            .immutable("spec.serviceCIDR")
            .column("Pod CIDR", ".spec.podCIDR")
            .column("Service CIDR", ".spec.serviceCIDR")
            .column("Status", STATE)
            .age()
    }
}

/// What the network shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NetworkSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Network of the pods. Immutable.
    #[serde(rename = "podCIDR")]
    pub pod_cidr: String,
    /// Network of the services. Immutable.
    #[serde(rename = "serviceCIDR")]
    pub service_cidr: String,
    /// IP families; one, or two for dual-stack.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<IPFamily>,
}

/// What the extension reports about the network.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NetworkStatus {
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
    /// IP families; one, or two for dual-stack.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ip_families: Vec<IPFamily>,
}
