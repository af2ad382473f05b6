//! A namespace is one project's: who names the namespace of another project would take over its Shoots. It changes
//! nothing, and never looks at what a project named before.

use api_meta::labels::PROJECT_NAME;
use api_meta::names::PROJECT_NAMESPACE_PREFIX;
use cluster_apiserver::Status;
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::{Objects, Review};
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{CORE, is_leaving, refuse, text};

/// Validates the namespace of a Project.
pub(crate) struct OneProject;

impl Plugin for OneProject {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ResourceReferenceManager)
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            let Some(project) = review.object.filter(|_| writes_object(&review.call)) else {
                return Ok(Vec::new());
            };
            let wanted = namespace_of(project);
            if is_leaving(project) || review.old.is_some_and(|old| namespace_of(old) == wanted) {
                return Ok(Vec::new());
            }
            let name = text(project, "/metadata/name");
            if let Some(owner) = owner(review.objects, &wanted, name).await? {
                // The message does not reveal projects that the caller may not see.
                let (user, objects) = (review.call.user, review.objects);
                let may_know = objects.allowed(user, "get", CORE, "projects", None, &owner).await?;
                let owner = if may_know {
                    format!("project {owner}")
                } else {
                    "another project".to_owned()
                };
                let words = format!("belongs to {owner}; choose a namespace without a project, or leave the field out");
                let error = FieldError::invalid("spec.namespace", wanted, words);
                refuse("Project", review.call.name, &[error])?;
            }
            Ok(Vec::new())
        })
    }
}

/// The namespace that a project has or will get.
fn namespace_of(project: &Value) -> String {
    match text(project, "/spec/namespace") {
        "" => format!("{PROJECT_NAMESPACE_PREFIX}{}", text(project, "/metadata/name")),
        chosen => chosen.to_owned(),
    }
}

/// Which other project owns the namespace, if any.
async fn owner(objects: &dyn Objects, namespace: &str, project: &str) -> Result<Option<String>, Status> {
    if let Some(found) = objects.get("", "namespaces", None, namespace).await?
        && let Some(owner) = found["metadata"]["labels"][PROJECT_NAME].as_str()
    {
        return Ok((owner != project).then(|| owner.to_owned()));
    }
    let projects = objects.list(CORE, "projects", None).await?;
    let names = projects.iter().filter(|other| namespace_of(other) == namespace);
    let mut names = names.map(|other| text(other, "/metadata/name"));
    Ok(names.find(|other| *other != project).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    fn project(name: &str, namespace: Option<&str>) -> Value {
        json!({"metadata": {"name": name}, "spec": {"namespace": namespace}})
    }

    #[test]
    fn the_namespace_of_another_project_is_refused_by_label_and_by_spec() {
        let labels = json!({"project.gardener.cloud/name": "c"});
        let mut fixture = Fixture::default()
            .with("projects", project("a", Some("garden-x")))
            .with("projects", project("b", None))
            .with(
                "namespaces",
                json!({"metadata": {"name": "garden-y", "labels": labels}}),
            );
        let make =
            |fixture: &Fixture, project: &Value| review(&OneProject, Operation::Create, Some(project), None, fixture);
        for (requested, owner) in [("garden-x", "a"), ("garden-b", "b"), ("garden-y", "c")] {
            let refusal = make(&fixture, &project("n", Some(requested))).expect_err(requested);
            let words = format!("spec.namespace: Invalid value: \"{requested}\": belongs to project {owner};");
            assert!(refusal.contains(&words), "{refusal}");
        }
        assert!(
            make(&fixture, &project("x", None)).is_err(),
            "the name that it would get"
        );
        assert!(make(&fixture, &project("n", None)).is_ok());
        assert!(make(&fixture, &project("c", Some("garden-y"))).is_ok());
        let (before, after) = (project("b", None), project("b", Some("garden-b")));
        assert!(review(&OneProject, Operation::Update, Some(&after), Some(&before), &fixture).is_ok());
        fixture.denied.push("projects");
        let refusal = make(&fixture, &project("n", Some("garden-x"))).expect_err("taken");
        assert!(refusal.contains("belongs to another project;"), "{refusal}");
    }
}
