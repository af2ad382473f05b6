//! `core.gardener.cloud/v1`: the newer form of ControllerDeployment (gardener/gardener v1.150 pkg/apis/core/v1).
//! It only describes; conversion stands in `api/rules`.

use api_meta::{LocalObjectReference, NamedResourceReference, RawJson, kind, or_empty};
use k8s_openapi::ByteString;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How an extension is installed. Cluster-scoped; types other than Helm stand in annotations.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerDeployment {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// A Helm chart.
    pub helm: Option<HelmControllerDeployment>,
    /// Give the extension's pods a kubeconfig for the garden.
    pub inject_garden_kubeconfig: Option<bool>,
    /// Secrets and ConfigMaps for templates in the chart's values, by name.
    #[serde(default, deserialize_with = "or_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "name"))]
    pub resources: Vec<NamedResourceReference>,
}

kind!(ControllerDeployment, "core.gardener.cloud", "v1", "controllerdeployments", Cluster, { metadata } optional { helm, inject_garden_kubeconfig = "injectGardenKubeconfig", resources });

/// A Helm chart with values: either the chart itself or where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HelmControllerDeployment {
    /// The chart: gzipped tar archive, base64 in JSON.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "api_meta::schema::bytes")]
    pub raw_chart: Option<ByteString>,
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
