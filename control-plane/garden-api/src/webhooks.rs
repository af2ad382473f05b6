//! Guards of kinds that the garden does not serve itself, as webhooks of the kube-apiserver in front of it. They read the garden by
//! requests and write nothing.

use std::sync::Arc;

use base_client::{Admission, Reviewer, reviewer};
use base_clock::Clock;
use cluster_apiserver::kind::{Call, Guard, Objects, Operation, Review};
use cluster_apiserver::{Status, User};
use futures::future::BoxFuture;
use http::{Request, StatusCode};
use kube::Client;
use serde_json::{Value, json};

use crate::admission::{ProjectNamespace, SecretInUse};
use crate::convert::{CORE, SECURITY, text};

/// Where deletions of Namespaces are reviewed (gardener/gardener v1.150
/// pkg/admissioncontroller/webhook/admission/namespacedeletion).
pub const NAMESPACE_DELETION_PATH: &str = "/webhooks/validate-namespace-deletion";
/// Where deletions of Secrets are reviewed: they get a warning, never a refusal.
pub const SECRET_IN_USE_PATH: &str = "/webhooks/warn-of-secret-in-use";

/// A reviewer for each guard, by path. `garden` may list Projects, Shoots and bindings.
#[must_use]
pub fn guards(garden: &Client, clock: &Clock) -> Vec<(&'static str, Reviewer)> {
    let of = |guard: Arc<dyn Guard>| {
        let (objects, clock) = (ByRequest(garden.clone()), clock.clone());
        reviewer(move |review| {
            let (guard, objects, clock) = (guard.clone(), objects.clone(), clock.clone());
            async move { reviewed(&*guard, &objects, &clock, &review).await }
        })
    };
    vec![
        (NAMESPACE_DELETION_PATH, of(Arc::new(ProjectNamespace))),
        (SECRET_IN_USE_PATH, of(Arc::new(SecretInUse))),
    ]
}

/// Answers an AdmissionReview (`admission.k8s.io/v1`) of a deletion; others pass.
async fn reviewed(guard: &dyn Guard, objects: &dyn Objects, clock: &Clock, review: &Value) -> Result<Value, String> {
    let request = &review["request"];
    if text(review, "/kind") != "AdmissionReview" || !request.is_object() {
        return Err("an AdmissionReview with a request was expected".to_owned());
    }
    let outcome = match text(request, "/operation") {
        "DELETE" => {
            let user = User::new(text(request, "/userInfo/username"), &[]);
            let call = Call {
                operation: Operation::Delete,
                version: "v1",
                subresource: None,
                namespace: request["namespace"].as_str().filter(|name| !name.is_empty()),
                name: text(request, "/name"),
                user: &user,
                now: clock.now(),
                dry_run: request["dryRun"] == true,
            };
            let old = &request["oldObject"];
            let review = Review {
                call,
                object: None,
                old: old.is_object().then_some(old),
                objects,
            };
            guard.review(review).await
        }
        _ => Ok(Vec::new()),
    };
    let admission = match outcome {
        Ok(warnings) => Admission::allowed().with_warnings(warnings),
        Err(status) => Admission::refused(status.code().as_u16(), status.reason(), status.message()),
    };
    Ok(admission.answer(review))
}

/// The garden's objects, each read with a request.
#[derive(Clone)]
struct ByRequest(Client);

impl ByRequest {
    /// `None` for what is not there.
    async fn read(&self, path: &str) -> Result<Option<Value>, Status> {
        let unavailable = |why: String| Status::unavailable(format!("the garden could not be read: {why}"));
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| unavailable(error.to_string()))?;
        match self.0.request::<Value>(request).await {
            Ok(read) => Ok(Some(read)),
            Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => Ok(None),
            Err(error) => Err(unavailable(error.to_string())),
        }
    }
}

impl Objects for ByRequest {
    fn get<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move {
            let path = format!("{}/{name}", path(group, resource, namespace)?);
            Ok(self.read(&path).await?.map(Arc::new))
        })
    }

    fn list<'a>(
        &'a self,
        group: &'a str,
        resource: &'a str,
        namespace: Option<&'a str>,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async move {
            let Some(mut list) = self.read(&path(group, resource, namespace)?).await? else {
                return Err(Status::unavailable(format!("the garden does not serve {resource}")));
            };
            let kind = text(&list, "/kind").trim_end_matches("List").to_owned();
            let Value::Array(items) = list["items"].take() else {
                return Err(Status::unavailable(format!("the list of {resource} has no items")));
            };
            let with_kind = |mut item: Value| {
                // The objects in a list do not repeat it.
                item["kind"] = json!(kind);
                Arc::new(item)
            };
            Ok(items.into_iter().map(with_kind).collect())
        })
    }

    /// Refused: none of these guards asks for rights.
    fn allowed<'a>(
        &'a self,
        _user: &'a User,
        verb: &'a str,
        _group: &'a str,
        resource: &'a str,
        _namespace: Option<&'a str>,
        _name: &'a str,
    ) -> BoxFuture<'a, Result<bool, Status>> {
        let why = Status::internal(format!("a webhook's guard may not ask who may {verb} {resource}"));
        Box::pin(async move { Err(why) })
    }
}

/// The path of a resource in its hub version.
fn path(group: &str, resource: &str, namespace: Option<&str>) -> Result<String, Status> {
    let version = match group {
        CORE => "v1beta1",
        SECURITY => "v1alpha1",
        _ => return Err(Status::internal(format!("no guard reads group {group:?}"))),
    };
    let inside = namespace.map(|namespace| format!("/namespaces/{namespace}"));
    Ok(format!(
        "/apis/{group}/{version}{}/{resource}",
        inside.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::tests::Fixture;

    async fn answer(guard: &dyn Guard, objects: &dyn Objects, request: Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let answer = reviewed(guard, objects, &Clock::real(), &review).await.unwrap();
        answer["response"].clone()
    }

    #[tokio::test]
    async fn refusal_and_warning_are_answers_to_the_request() {
        let deletion =
            |old: Value| json!({"uid": "1", "operation": "DELETE", "name": old["metadata"]["name"], "oldObject": old});
        let project = json!({"metadata": {"name": "p"}, "spec": {"namespace": "garden-p"}});
        let garden = Fixture::default().with("projects", project);
        let namespace = json!({"metadata": {"name": "garden-p"}});
        let refused = answer(&ProjectNamespace, &garden, deletion(namespace.clone())).await;
        assert_eq!(
            (&refused["uid"], &refused["allowed"], &refused["status"]["code"]),
            (&json!("1"), &json!(false), &json!(403)),
            "{refused}"
        );
        assert!(
            refused["status"]["message"].as_str().unwrap().contains("project p"),
            "{refused}"
        );
        let other = answer(&ProjectNamespace, &garden, deletion(json!({"metadata": {"name": "q"}}))).await;
        assert_eq!(other, json!({"uid": "1", "allowed": true}));
        let update = json!({"uid": "2", "operation": "UPDATE", "oldObject": namespace});
        assert_eq!(
            answer(&ProjectNamespace, &garden, update).await,
            json!({"uid": "2", "allowed": true})
        );

        let binding =
            json!({"kind": "SecretBinding", "metadata": {"name": "b", "namespace": "n"}, "secretRef": {"name": "c"}});
        let garden = Fixture::default().with("secretbindings", binding);
        let secret = json!({"metadata": {"name": "c", "namespace": "n"}});
        let warned = answer(&SecretInUse, &garden, deletion(secret)).await;
        assert_eq!(warned["allowed"], true);
        assert!(
            warned["warnings"][0].as_str().unwrap().contains("SecretBinding n/b"),
            "{warned}"
        );
    }

    #[tokio::test]
    async fn what_is_no_review_is_an_error() {
        for review in [
            json!({}),
            json!({"kind": "AdmissionReview"}),
            json!({"kind": "Pod", "request": {}}),
        ] {
            let outcome = reviewed(&SecretInUse, &Fixture::default(), &Clock::real(), &review).await;
            assert!(outcome.is_err(), "{review}");
        }
    }
}
