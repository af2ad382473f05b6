//! How extensions are installed, in the older form (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_controllerdeployment.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{LocalObjectReference, RawJson, kind};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an extension is installed, in the older form: a type and a configuration. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerDeployment {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// `helm`, or the name of another installer.
    #[serde(rename = "type")]
    pub type_: String,
    /// What to install; for type `helm`: chart, values, ociRepository.
    pub provider_config: RawJson,
    /// Give the extension's pods a kubeconfig for the garden.
    pub inject_garden_kubeconfig: Option<bool>,
}

kind!(ControllerDeployment, "core.gardener.cloud", "v1beta1", "controllerdeployments", Cluster, { metadata, type_ = "type", provider_config = "providerConfig" } optional { inject_garden_kubeconfig = "injectGardenKubeconfig" });

/// A Helm chart with values: either the chart itself or where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HelmControllerDeployment {
    /// The chart: gzipped tar archive, base64 in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub chart: Option<ByteString>,
    /// Values of the chart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::any")]
    pub values: Option<RawJson>,
    /// The chart in an OCI registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci_repository: Option<OCIRepository>,
}

/// An artefact in an OCI registry: `ref`, or `repository` with `tag` or `digest`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct OCIRepository {
    /// Full reference of the artefact; excludes the parts.
    #[serde(rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Repository of the artefact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Tag of the artefact.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Digest of the artefact, `sha256:...`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// Secret in namespace `garden` with registry credentials in key `.dockerconfigjson`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_secret_ref: Option<LocalObjectReference>,
    /// Secret in namespace `garden` with the registry's authorities in key `bundle.crt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_bundle_secret_ref: Option<LocalObjectReference>,
}
