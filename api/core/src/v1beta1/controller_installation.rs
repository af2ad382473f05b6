//! Requests to install extensions in seeds (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_controllerinstallation.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{Condition, ObjectReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The request to install an extension in a seed. Cluster-scoped; made by controller-manager, answered in
/// conditions.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerInstallation {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ControllerInstallationSpec,
    /// What is known.
    pub status: Option<ControllerInstallationStatus>,
}

kind!(ControllerInstallation, "core.gardener.cloud", "v1beta1", "controllerinstallations", Cluster, { metadata, spec } optional { status });

/// What to install where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerInstallationSpec {
    /// The ControllerRegistration it is made for. Immutable but for its resourceVersion.
    pub registration_ref: ObjectReference,
    /// The seed it is installed in. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_ref: Option<ObjectReference>,
    /// The self-hosted shoot it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shoot_ref: Option<ObjectReference>,
    /// The ControllerDeployment it is made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment_ref: Option<ObjectReference>,
    /// Objects that the ControllerDeployment refers to.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub resource_refs: Vec<ObjectReference>,
}

/// How the installation stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerInstallationStatus {
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub conditions: Vec<Condition>,
    /// What the provider reports, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_status: Option<RawJson>,
}
