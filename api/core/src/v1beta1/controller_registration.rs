//! What extensions are responsible for (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_controllerregistration.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{GoDuration, kind, or_empty, string_enum};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds and types an extension is responsible for. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerRegistration {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ControllerRegistrationSpec,
}

kind!(ControllerRegistration, "core.gardener.cloud", "v1beta1", "controllerregistrations", Cluster, { metadata, spec } optional {  });

/// What is registered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerRegistrationSpec {
    /// Kinds and types it is responsible for.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["kind", "type"]))]
    pub resources: Vec<ControllerResource>,
    /// How it is installed; nothing if it is installed by other means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deployment: Option<ControllerRegistrationDeployment>,
}

/// One kind and type.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerResource {
    /// Kind of extensions.gardener.cloud.
    pub kind: String,
    /// Type; compared without regard to case.
    #[serde(rename = "type")]
    pub type_: String,
    /// How long reconciliation may take; nothing means 3 minutes. Only for kind Extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile_timeout: Option<GoDuration>,
    /// Whether this controller has the main word: only it writes lastOperation, lastError, observedGeneration and
    /// state. Exactly one per kind and type. Immutable; nothing means yes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub primary: Option<bool>,
    /// When in a shoot's flow it is handled; only for kind Extension.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<ControllerResourceLifecycle>,
    /// Whether it works for shoots without workers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workerless_supported: Option<bool>,
    /// Clusters for which the extension is on unless they disable it; must be within `clusterCompatibility`.
    /// Formerly `globallyEnabled: true`, which means `[shoot]`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub auto_enable: Vec<ClusterType>,
    /// Older spelling of `autoEnable: [shoot]`, which is written in its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub globally_enabled: Option<bool>,
    /// Clusters in which the extension works.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "set"))]
    pub cluster_compatibility: Vec<ClusterType>,
    /// Whether endpoints are kept up to date; only for kind SelfHostedShootExposure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub continuous_endpoint_update: Option<bool>,
}

/// When in a shoot's flow an Extension is handled; nothing means reconcile after, delete and migrate before the API
/// server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerResourceLifecycle {
    /// When to reconcile it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reconcile: Option<ControllerResourceLifecycleStrategy>,
    /// When to delete it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete: Option<ControllerResourceLifecycleStrategy>,
    /// When to migrate it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub migrate: Option<ControllerResourceLifecycleStrategy>,
}

string_enum! {
    /// A point in a shoot's flow.
    pub enum ControllerResourceLifecycleStrategy {
        /// Before the API server is there (or after it is gone).
        BeforeKubeAPIServer = "BeforeKubeAPIServer",
        /// While the API server is there.
        AfterKubeAPIServer = "AfterKubeAPIServer",
        /// After the workers; only for reconcile.
        AfterWorker = "AfterWorker",
    }
}

string_enum! {
    /// A kind of cluster an Extension works for.
    pub enum ClusterType {
        /// Shoots.
        Shoot = "shoot",
        /// Seeds.
        Seed = "seed",
    }
}

/// When and where it is installed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ControllerRegistrationDeployment {
    /// When it is installed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ControllerDeploymentPolicy>,
    /// Which seeds may be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_selector: Option<LabelSelector>,
    /// The ControllerDeployment to install; at most one.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub deployment_refs: Vec<DeploymentRef>,
}

string_enum! {
    /// When an extension is installed in a seed.
    pub enum ControllerDeploymentPolicy {
        /// When something there needs it.
        OnDemand = "OnDemand",
        /// Always.
        Always = "Always",
        /// Always while the seed has shoots.
        AlwaysExceptNoShoots = "AlwaysExceptNoShoots",
    }
}

/// Names a ControllerDeployment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DeploymentRef {
    /// Name.
    pub name: String,
}
