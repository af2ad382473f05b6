//! A server of reviews, as kube-apiserver posts them to webhooks: JSON in, JSON out, by path; and how an AdmissionReview is
//! answered. It decides nothing.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use serde_json::{Value, json};

use crate::service::{HttpService, ResponseBody, full_body};

/// Largest review that is read, in bytes: twice the largest object that kube-apiserver accepts, before and after a change, and
/// 2 MiB around them. A listener in front of [`review_server`] must accept it.
pub const REVIEW_BYTES_MAX: usize = 8 << 20;

/// Answers a review; an error is the reason why the request is no review.
pub type Reviewer = Arc<dyn Fn(Value) -> Pin<Box<dyn Future<Output = Result<Value, String>> + Send>> + Send + Sync>;

/// A function as a reviewer.
pub fn reviewer<F>(review: impl Fn(Value) -> F + Send + Sync + 'static) -> Reviewer
where
    F: Future<Output = Result<Value, String>> + Send + 'static,
{
    Arc::new(move |posted| Box::pin(review(posted)))
}

/// The server: each path has a reviewer. Another path is answered with 404, another method with 405, a body that is no review or
/// larger than 8 MiB with 400.
#[must_use]
pub fn review_server<P: Into<String>>(paths: Vec<(P, Reviewer)>) -> HttpService {
    let paths: Vec<(String, Reviewer)> = paths.into_iter().map(|(path, review)| (path.into(), review)).collect();
    let paths = Arc::new(paths);
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let paths = Arc::clone(&paths);
        async move { Ok::<_, Infallible>(answer(&paths, request).await) }
    }))
}

/// What a webhook decides about a request (kubernetes/kubernetes v1.35 staging/src/k8s.io/api/admission/v1/types.go,
/// AdmissionResponse).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Admission {
    /// The status of a refusal.
    status: Option<Value>,
    patch: Vec<Value>,
    warnings: Vec<String>,
}

impl Admission {
    /// The request passes as it is.
    #[must_use]
    pub fn allowed() -> Self {
        Self::default()
    }

    /// The request passes with these changes: operations of a JSON patch (RFC 6902). Without any it passes as it is.
    #[must_use]
    pub fn patched(operations: Vec<Value>) -> Self {
        Self {
            patch: operations,
            ..Self::default()
        }
    }

    /// The request is refused. `code` is what its client gets, from 400 on; `reason` is Kubernetes' name for that, such as
    /// `Forbidden`. The API server puts the webhook's name in front of `message`.
    #[must_use]
    pub fn refused(code: u16, reason: &str, message: impl Into<String>) -> Self {
        let status = json!({"status": "Failure", "code": code, "reason": reason, "message": message.into()});
        Self {
            status: Some(status),
            ..Self::default()
        }
    }

    /// The same refusal with its causes, each with `reason`, `message` and `field`. It does not change an admission that passes.
    #[must_use]
    pub fn with_causes(mut self, causes: Vec<Value>) -> Self {
        if let Some(status) = self.status.as_mut().filter(|_| !causes.is_empty()) {
            status["details"] = json!({"causes": causes});
        }
        self
    }

    /// The same with warnings, which the client shows whatever becomes of its request. kube-apiserver cuts each to 256
    /// characters where there are many.
    #[must_use]
    pub fn with_warnings(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.warnings.extend(warnings);
        self
    }

    /// Whether the request passes.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        self.status.is_none()
    }

    /// The answer to the AdmissionReview that was posted, in its version.
    #[must_use]
    pub fn answer(self, review: &Value) -> Value {
        let mut response = json!({"uid": review["request"]["uid"], "allowed": self.is_allowed()});
        if !self.patch.is_empty() {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(Value::Array(self.patch).to_string()).into();
        }
        if let Some(status) = self.status {
            response["status"] = status;
        }
        if !self.warnings.is_empty() {
            response["warnings"] = self.warnings.into();
        }
        let version = review["apiVersion"].as_str().unwrap_or("admission.k8s.io/v1");
        json!({"apiVersion": version, "kind": "AdmissionReview", "response": response})
    }
}

async fn answer(paths: &[(String, Reviewer)], request: Request<Body>) -> Response<ResponseBody> {
    let path = request.uri().path();
    let Some((_, review)) = paths.iter().find(|(known, _)| *known == path) else {
        return respond(StatusCode::NOT_FOUND, "text/plain", "404 page not found".into());
    };
    if request.method() != Method::POST {
        let message = "a review is posted".into();
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", message);
    }
    let body = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect().await;
    let posted = body.map_err(|error| error.to_string()).and_then(|body| {
        serde_json::from_slice::<Value>(&body.to_bytes()).map_err(|error| format!("the review is not JSON: {error}"))
    });
    let answer = match posted {
        Ok(posted) => review(posted).await,
        Err(why) => Err(why),
    };
    match answer {
        Ok(answer) => respond(StatusCode::OK, "application/json", answer.to_string()),
        Err(why) => respond(StatusCode::BAD_REQUEST, "text/plain", why),
    }
}

fn respond(code: StatusCode, content_type: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(body));
    *response.status_mut() = code;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt;

    use super::*;

    async fn posted(method: Method, path: &str, body: &str) -> (u16, String) {
        let server = review_server(vec![(
            "/echo",
            reviewer(|review| async move {
                review
                    .is_object()
                    .then_some(review)
                    .ok_or_else(|| "no object".to_owned())
            }),
        )]);
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::from(body.as_bytes().to_vec())).unwrap();
        let response = server.oneshot(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn an_admission_is_answered_with_version_and_uid_of_its_review() {
        let review =
            json!({"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": "u1"}});
        let operation = json!({"op": "add", "path": "/a", "value": 1});
        let cases = [
            (Admission::allowed(), json!({"uid": "u1", "allowed": true})),
            (Admission::patched(Vec::new()), json!({"uid": "u1", "allowed": true})),
            (
                Admission::patched(vec![operation]).with_warnings(["w".to_owned()]),
                json!({
                    "uid": "u1", "allowed": true, "patchType": "JSONPatch", "warnings": ["w"],
                    "patch": "W3sib3AiOiJhZGQiLCJwYXRoIjoiL2EiLCJ2YWx1ZSI6MX1d",
                }),
            ),
            (
                Admission::refused(422, "Invalid", "no").with_causes(vec![json!({"field": "spec.a"})]),
                json!({
                    "uid": "u1", "allowed": false,
                    "status": {
                        "status": "Failure", "code": 422, "reason": "Invalid", "message": "no",
                        "details": {"causes": [{"field": "spec.a"}]},
                    },
                }),
            ),
        ];
        for (admission, response) in cases {
            let answer = admission.answer(&review);
            assert_eq!(answer["apiVersion"], "admission.k8s.io/v1beta1");
            assert_eq!(answer["kind"], "AdmissionReview");
            assert_eq!(answer["response"], response);
        }
        assert_eq!(
            Admission::allowed().answer(&json!({}))["apiVersion"],
            "admission.k8s.io/v1"
        );
    }

    #[tokio::test]
    async fn only_posted_reviews_of_known_paths_are_answered() {
        assert_eq!(
            posted(Method::POST, "/echo", r#"{"a":1}"#).await,
            (200, r#"{"a":1}"#.to_owned())
        );
        assert_eq!(posted(Method::POST, "/other", "{}").await.0, 404);
        assert_eq!(posted(Method::GET, "/echo", "").await.0, 405);
        assert_eq!(posted(Method::POST, "/echo", "[]").await, (400, "no object".to_owned()));
        let (code, why) = posted(Method::POST, "/echo", "{").await;
        assert!(code == 400 && why.starts_with("the review is not JSON"), "{why}");
        let (code, _) = posted(Method::POST, "/echo", &" ".repeat(REVIEW_BYTES_MAX + 1)).await;
        assert_eq!(code, 400);
    }
}
