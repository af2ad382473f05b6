//! Projects: tenants of the garden (gardener/gardener v1.150 pkg/apis/core/v1beta1/types_project.go).
//! It only describes; defaults and validation stand in `api/rules`.

use api_meta::{Condition, kind, or_empty, string_enum};
use k8s_openapi::api::rbac::v1::Subject;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A tenant: a namespace in the garden and its members. Cluster-scoped.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Project {
    /// Kubernetes' metadata.
    pub metadata: ObjectMeta,
    /// What is wanted.
    pub spec: ProjectSpec,
    /// What is known.
    pub status: Option<ProjectStatus>,
}

kind!(Project, "core.gardener.cloud", "v1beta1", "projects", Cluster, { metadata, spec } optional { status });

/// Who owns the project and what it may do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProjectSpec {
    /// Who created the project. Immutable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_by: Option<Subject>,
    /// For people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Who owns the project.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<Subject>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purpose: Option<String>,
    /// Who may do what in the project.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<ProjectMember>,
    /// Namespace of the project in the garden: `garden` or `garden-...`; made up if empty. Immutable once set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Taints that are tolerated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tolerations: Option<ProjectTolerations>,
    /// Kinds whose deletion a second person must confirm.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub dual_approval_for_deletion: Vec<DualApprovalForDeletion>,
}

/// How the project stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProjectStatus {
    /// The generation that the status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it stands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<ProjectPhase>,
    /// Since when the project is unused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_since_timestamp: Option<Time>,
    /// When the unused project will be deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale_auto_delete_timestamp: Option<Time>,
    /// When something happened in the project last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_activity_timestamp: Option<Time>,
    /// What is known about it.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "type"))]
    pub conditions: Vec<Condition>,
}

string_enum! {
    /// Where a project stands.
    pub enum ProjectPhase {
        /// Not made yet.
        Pending = "Pending",
        /// Usable.
        Ready = "Ready",
        /// Something went wrong.
        Failed = "Failed",
        /// Going.
        Terminating = "Terminating",
    }
}

/// A user, group or service account with roles in the project.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProjectMember {
    /// Kind.
    pub kind: String,
    /// API group of the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_group: Option<String>,
    /// Name.
    pub name: String,
    /// Namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Main role: see `roles`.
    pub role: String,
    /// Further roles: owner, admin, viewer, uam, serviceaccountmanager, `extension:<name>`.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
}

/// Taints of seeds that the project's shoots may tolerate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ProjectTolerations {
    /// Tolerations that every shoot of the project gets.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "key"))]
    pub defaults: Vec<Toleration>,
    /// Tolerations that shoots of the project may use.
    #[serde(default, deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key"], "x-kubernetes-patch-strategy" = "merge", "x-kubernetes-patch-merge-key" = "key"))]
    pub whitelist: Vec<Toleration>,
}

/// A taint that is tolerated; without value, whatever its value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Toleration {
    /// Key.
    pub key: String,
    /// Value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Objects whose deletion a second person must confirm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct DualApprovalForDeletion {
    /// Resource.
    pub resource: String,
    /// Which objects.
    pub selector: LabelSelector,
    /// Whether service accounts need a second confirmation as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub include_service_accounts: Option<bool>,
}
