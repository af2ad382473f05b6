//! Machine classes: how machines are made (gardener/machine-controller-manager pkg/apis/machine/v1alpha1).
//! It only describes; `extensions/machines` acts on it.

use std::collections::BTreeMap;

use api_meta::{RawJson, SecretReference, kind, or_empty};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How machines of a kind are made: opaque to the machine controllers, read by their driver.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct MachineClass {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What its node has.
    pub node_template: Option<NodeTemplate>,
    /// Secret with cloud credentials.
    pub credentials_secret_ref: Option<SecretReference>,
    /// Configuration for the driver, opaque.
    pub provider_spec: RawJson,
    /// Which driver is responsible.
    pub provider: Option<String>,
    /// Secret with user data in key `userData`, and credentials unless named apart.
    pub secret_ref: Option<SecretReference>,
}

kind!(MachineClass, "machine.sapcloud.io", "v1alpha1", "machineclasses", Namespaced, { metadata, provider_spec = "providerSpec" } optional { node_template = "nodeTemplate", credentials_secret_ref = "credentialsSecretRef", provider, secret_ref = "secretRef" });

/// What a node has, for scaling up from zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct NodeTemplate {
    /// What it has in all.
    #[serde(deserialize_with = "or_empty")]
    pub capacity: BTreeMap<String, Quantity>,
    /// Resources that exist only in the scheduler's view.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub virtual_capacity: BTreeMap<String, Quantity>,
    /// Machine type.
    pub instance_type: String,
    /// Region.
    pub region: String,
    /// Zone at the provider, found by the extension if empty.
    pub zone: String,
    /// CPU architecture: `amd64` (if empty) or `arm64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub architecture: Option<String>,
}
