//! Additional container runtimes (gardener/gardener v1.150 pkg/apis/extensions/v1alpha1/types_containerruntime.go).
//! It only describes; providers act on it and answer in the status.

use api_meta::crd::Definition;
use api_meta::{Condition, LastError, LastOperation, NamedResourceReference, RawJson, kind, or_empty};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ExtensionClass;
use crate::crds::{STATE, extension};
use crate::object::OwnPart;

/// An additional container runtime on the nodes of a pool.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerRuntime {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ContainerRuntimeSpec,
    /// What is known.
    pub status: Option<ContainerRuntimeStatus>,
}

kind!(ContainerRuntime, "extensions.gardener.cloud", "v1alpha1", "containerruntimes", Namespaced, { metadata, spec } optional { status });

impl OwnPart for ContainerRuntime {
    type Own = ();

    fn set_own(&mut self, (): ()) {}

    fn definition() -> Definition {
        extension::<Self>("cr")
            .immutable("spec.workerPool.name")
            .column("Status", STATE)
            .age()
    }
}

/// What the runtime shall be.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerRuntimeSpec {
    /// Type.
    #[serde(rename = "type")]
    pub type_: String,
    /// For whom the object is reconciled; nothing means a shoot. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<ExtensionClass>,
    /// Configuration for the provider, opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_config: Option<RawJson>,
    /// Folder on the nodes for the runtime's binaries.
    pub binary_path: String,
    /// The pool it is for.
    pub worker_pool: ContainerRuntimeWorkerPool,
}

/// The pool it is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerRuntimeWorkerPool {
    /// Name.
    pub name: String,
    /// Which objects.
    pub selector: LabelSelector,
}

/// What the extension reports about the runtime.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ContainerRuntimeStatus {
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
