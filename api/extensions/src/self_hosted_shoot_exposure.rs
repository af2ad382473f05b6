//! Exposure of self-hosted control planes (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_selfhostedshootexposure.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, ObjectReference, RawJson, kind, or_empty};
use k8s_openapi::api::core::v1::{LoadBalancerIngress, NodeAddress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension};
use crate::object::OwnPart;

/// Makes the control plane of a self-hosted shoot reachable.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SelfHostedShootExposure {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: SelfHostedShootExposureSpec,
    /// What is known.
    pub status: Option<SelfHostedShootExposureStatus>,
}

kind!(SelfHostedShootExposure, "extensions.gardener.cloud", "v1alpha1", "selfhostedshootexposures", Namespaced, { metadata, spec } optional { status });

impl OwnPart for SelfHostedShootExposure {
    type Own = Vec<LoadBalancerIngress>;

    fn set_own(&mut self, ingress: Vec<LoadBalancerIngress>) {
        self.status.get_or_insert_default().ingress = ingress;
    }

    fn definition() -> Definition {
        extension::<Self>("exp").column("Status", STATE).age()
    }
}

/// What to expose.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SelfHostedShootExposureSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// The credentials: v1 Secret or security.gardener.cloud WorkloadIdentity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<ObjectReference>,
    /// Port.
    pub port: i32,
    /// The control plane nodes to expose.
    #[serde(deserialize_with = "or_empty")]
    pub endpoints: Vec<ControlPlaneEndpoint>,
}

/// A control plane node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControlPlaneEndpoint {
    /// Name of the node.
    pub node_name: String,
    /// Addresses of the node, as in Node status.
    #[serde(deserialize_with = "or_empty")]
    pub addresses: Vec<NodeAddress>,
}

/// What the extension reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SelfHostedShootExposureStatus {
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
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub ingress: Vec<LoadBalancerIngress>,
}
