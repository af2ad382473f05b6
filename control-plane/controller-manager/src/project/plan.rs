//! What a project needs next. Pure.

use std::sync::Arc;

use api_core::v1beta1::Project;
use api_meta::names::{GARDEN_NAMESPACE, PROJECT_NAMESPACE_PREFIX};
use api_meta::{finalizers, labels};
use base_client::has_finalizer;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};

/// What is known about one project.
pub(crate) struct Seen {
    pub(crate) project: Arc<Project>,
    pub(crate) namespace: Option<Arc<Namespace>>,
    /// Names of the shoots in the namespace.
    pub(crate) shoots: Vec<String>,
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// Finalizer and `spec.namespace` have to be set first.
    Claim {
        /// The namespace's name.
        namespace: String,
    },
    /// The namespace belongs to another project.
    Refuse(String),
    /// Namespace and roles as they shall be.
    Keep(Box<Namespace>),
    /// The namespace is going although the project stays: wait.
    Wait,
    /// Deletion has to wait for these shoots.
    Blocked(Vec<String>),
    /// The namespace has to go.
    DeleteNamespace(String),
    /// The namespace is going: wait.
    WaitForNamespace,
    /// Nothing holds the project any more.
    Release,
}

/// The namespace a project has or will have.
pub(crate) fn namespace_name(project: &Project) -> String {
    let chosen = project.spec.namespace.clone();
    chosen.unwrap_or_else(|| format!("{PROJECT_NAMESPACE_PREFIX}{}", project.name_any()))
}

pub(crate) fn plan(seen: &Seen) -> Plan {
    let project = &*seen.project;
    let name = namespace_name(project);
    let ours = seen
        .namespace
        .as_ref()
        .filter(|namespace| belongs_to(namespace, project));
    if project.meta().deletion_timestamp.is_some() {
        return plan_deletion(seen, ours.map(|namespace| &**namespace), name);
    }
    if seen.namespace.is_some() && ours.is_none() {
        let project = project.name_any();
        return Plan::Refuse(format!(
            "namespace {name} exists and does not belong to project {project}"
        ));
    }
    if !has_finalizer(project, finalizers::GARDENER) || project.spec.namespace.is_none() {
        return Plan::Claim { namespace: name };
    }
    match &seen.namespace {
        Some(namespace) if namespace.meta().deletion_timestamp.is_some() => Plan::Wait,
        _ => Plan::Keep(Box::new(namespace_of(project, name))),
    }
}

fn plan_deletion(seen: &Seen, ours: Option<&Namespace>, name: String) -> Plan {
    if !has_finalizer(&*seen.project, finalizers::GARDENER) {
        return Plan::WaitForNamespace;
    }
    let Some(namespace) = ours else { return Plan::Release };
    if !seen.shoots.is_empty() {
        return Plan::Blocked(seen.shoots.clone());
    }
    match namespace.meta().deletion_timestamp {
        Some(_) => Plan::WaitForNamespace,
        None if name == GARDEN_NAMESPACE => Plan::Release,
        None => Plan::DeleteNamespace(name),
    }
}

/// A namespace is the project's if its label names it; the garden's own may be adopted by the project that names it.
fn belongs_to(namespace: &Namespace, project: &Project) -> bool {
    match namespace.labels().get(labels::PROJECT_NAME) {
        Some(owner) => *owner == project.name_any(),
        None => namespace.name_any() == GARDEN_NAMESPACE,
    }
}

fn namespace_of(project: &Project, name: String) -> Namespace {
    let labels = [
        (labels::ROLE.to_owned(), labels::role::PROJECT.to_owned()),
        (labels::PROJECT_NAME.to_owned(), project.name_any()),
    ];
    // The garden's own namespace outlives the project that adopted it.
    let owner = project.controller_owner_ref(&()).filter(|_| name != GARDEN_NAMESPACE);
    Namespace {
        metadata: ObjectMeta {
            owner_references: owner.map(|owner| vec![owner]),
            name: Some(name),
            labels: Some(labels.into()),
            ..ObjectMeta::default()
        },
        ..Namespace::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn seen(metadata: Value, namespace: Option<Value>, shoots: &[&str]) -> Seen {
        let mut full = json!({"name": "dev", "uid": "u"});
        for (key, value) in metadata.as_object().unwrap() {
            full[key] = value.clone();
        }
        Seen {
            project: Arc::new(
                serde_json::from_value(json!({"metadata": full, "spec": {"namespace": "garden-dev"}})).unwrap(),
            ),
            namespace: namespace.map(|metadata| {
                let mut namespace: Namespace = serde_json::from_value(json!({"metadata": metadata})).unwrap();
                namespace.metadata.name = Some("garden-dev".into());
                Arc::new(namespace)
            }),
            shoots: shoots.iter().map(ToString::to_string).collect(),
        }
    }

    #[test]
    fn a_project_claims_then_keeps_its_namespace_and_never_takes_anothers() {
        let ours = json!({"labels": {"project.gardener.cloud/name": "dev"}});
        let claimed = json!({"finalizers": ["gardener"]});
        assert_eq!(
            plan(&seen(json!({}), None, &[])),
            Plan::Claim {
                namespace: "garden-dev".into()
            }
        );
        let Plan::Keep(namespace) = plan(&seen(claimed.clone(), None, &[])) else {
            panic!("a namespace is made")
        };
        assert_eq!(namespace.labels()["gardener.cloud/role"], "project");
        assert!(matches!(plan(&seen(claimed.clone(), Some(ours), &[])), Plan::Keep(_)));
        assert!(matches!(
            plan(&seen(claimed.clone(), Some(json!({})), &[])),
            Plan::Refuse(_)
        ));
        let others = json!({"labels": {"project.gardener.cloud/name": "prod"}});
        assert!(matches!(plan(&seen(claimed, Some(others), &[])), Plan::Refuse(_)));
    }

    #[test]
    fn deletion_waits_for_shoots_then_for_the_namespace() {
        let going = json!({"finalizers": ["gardener"], "deletionTimestamp": "2026-01-01T00:00:00Z"});
        let ours = json!({"labels": {"project.gardener.cloud/name": "dev"}});
        let mut ours_going = ours.clone();
        ours_going["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert_eq!(
            plan(&seen(going.clone(), Some(ours.clone()), &["a"])),
            Plan::Blocked(vec!["a".into()])
        );
        assert_eq!(
            plan(&seen(going.clone(), Some(ours), &[])),
            Plan::DeleteNamespace("garden-dev".into())
        );
        assert_eq!(
            plan(&seen(going.clone(), Some(ours_going), &[])),
            Plan::WaitForNamespace
        );
        assert_eq!(plan(&seen(going.clone(), None, &[])), Plan::Release);
        assert_eq!(
            plan(&seen(going, Some(json!({})), &["theirs"])),
            Plan::Release,
            "a foreign namespace stays"
        );
    }
}
