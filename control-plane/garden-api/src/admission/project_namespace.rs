//! A project's namespace goes with its project: deleted by itself, it would lose its Secrets first and then wait for
//! Shoots that need them (gardener/gardener v1.150 pkg/admissioncontroller/webhook/admission/namespacedeletion).

use api_meta::labels::PROJECT_NAME;
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Guard, Operation, Review};
use futures::future::BoxFuture;

use super::some_of;
use crate::convert::{CORE, is_leaving, text};

/// Guards the deletion of Namespaces.
pub(crate) struct ProjectNamespace;

impl Guard for ProjectNamespace {
    fn resource(&self) -> (&str, &str) {
        ("", "namespaces")
    }

    fn review<'a>(&'a self, review: Review<'a>) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        Box::pin(async move {
            let deleted = review.old.filter(|_| review.call.operation == Operation::Delete);
            let Some(namespace) = deleted.filter(|namespace| !is_leaving(namespace)) else {
                return Ok(Vec::new());
            };
            let name = text(namespace, "/metadata/name");
            let projects = review.objects.list(CORE, "projects", None).await?;
            let label = namespace["metadata"]["labels"][PROJECT_NAME].as_str();
            let owner = projects.iter().find(|project| {
                text(project, "/spec/namespace") == name
                    && label.is_none_or(|owner| owner == text(project, "/metadata/name"))
            });
            if let Some(project) = owner.filter(|project| !is_leaving(project)) {
                let project = text(project, "/metadata/name");
                let why =
                    format!("it belongs to project {project} and goes with it; run: kubectl delete project {project}");
                return Err(Status::forbidden("", "namespaces", name, &why));
            }
            let shoots = review.objects.list(CORE, "shoots", Some(name)).await?;
            if shoots.is_empty() {
                return Ok(Vec::new());
            }
            let names: Vec<&str> = shoots.iter().map(|shoot| text(shoot, "/metadata/name")).collect();
            let why = format!("it still has Shoots: {}; delete those first", some_of(&names));
            Err(Status::forbidden("", "namespaces", name, &why))
        })
    }
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::User;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::tests::{Fixture, call};

    fn delete(fixture: &Fixture, namespace: &Value) -> Result<Vec<String>, String> {
        let user = User::new("alice", &[]);
        let review = Review {
            call: call(Operation::Delete, None, &user),
            object: None,
            old: Some(namespace),
            objects: fixture,
        };
        futures::executor::block_on(ProjectNamespace.review(review)).map_err(|status| status.to_string())
    }

    #[test]
    fn a_projects_namespace_goes_with_the_project_and_after_its_shoots() {
        const LEAVING: &str = "2026-01-01T00:00:00Z";
        let namespace = json!({"metadata": {"name": "garden-p"}});
        let project = |leaving: Option<&str>| json!({"metadata": {"name": "p", "deletionTimestamp": leaving}, "spec": {"namespace": "garden-p"}});
        let shoot = |name: &str| json!({"metadata": {"name": name, "namespace": "garden-p"}});

        let retained = Fixture::default().with("projects", project(None));
        let refusal = delete(&retained, &namespace).expect_err("the project stays");
        assert!(refusal.contains("run: kubectl delete project p"), "{refusal}");

        let full = Fixture::default()
            .with("projects", project(Some(LEAVING)))
            .with("shoots", shoot("a"))
            .with("shoots", shoot("b"));
        let refusal = delete(&full, &namespace).expect_err("shoots are in it");
        assert!(refusal.contains("it still has Shoots: a, b;"), "{refusal}");
        let orphans = Fixture::default().with("shoots", shoot("a"));
        assert!(delete(&orphans, &namespace).is_err(), "without a project, too");

        let empty = Fixture::default().with("projects", project(Some(LEAVING)));
        assert!(delete(&empty, &namespace).is_ok());
        assert!(delete(&retained, &json!({"metadata": {"name": "other"}})).is_ok());
        let going = json!({"metadata": {"name": "garden-p", "deletionTimestamp": LEAVING}});
        assert!(delete(&full, &going).is_ok(), "it is on its way");
    }
}
