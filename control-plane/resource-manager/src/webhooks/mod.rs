//! The admission webhooks of the seed's gardener-resource-manager, as one HTTP server. It answers reviews and writes nothing.

mod token_mount;

use std::convert::Infallible;

use api_meta::Fault;
use base_client::{HttpService, ResponseBody, full_body};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use components_seed::TOKEN_MOUNT_PATH;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Largest review that is read: the largest object twice, and then some.
const REVIEW_BYTES_MAX: usize = 8 << 20;

/// The server. It reads the accounts of pods in `target`.
#[must_use]
pub fn webhooks(target: Client) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        let target = target.clone();
        async move { Ok::<_, Infallible>(answer(&target, request).await) }
    }))
}

async fn answer(target: &Client, request: Request<Body>) -> Response<ResponseBody> {
    if request.uri().path() != TOKEN_MOUNT_PATH {
        return respond(StatusCode::NOT_FOUND, "text/plain", "404 page not found".into());
    }
    if request.method() != Method::POST {
        let message = "a review is posted".into();
        return respond(StatusCode::METHOD_NOT_ALLOWED, "text/plain", message);
    }
    let read = Limited::new(request.into_body(), REVIEW_BYTES_MAX).collect().await;
    let review = read.map_err(|error| error.to_string()).and_then(|body| {
        serde_json::from_slice::<Value>(&body.to_bytes()).map_err(|error| format!("the review is not JSON: {error}"))
    });
    match review {
        Ok(review) => {
            let patched = token_mount::patch(target, &review["request"]).await;
            let answer = review_answer(&review, patched);
            respond(StatusCode::OK, "application/json", answer.to_string())
        }
        Err(why) => respond(StatusCode::BAD_REQUEST, "text/plain", why),
    }
}

/// An `AdmissionReview` of the request's version. A fault refuses the object: what it requests could not be known.
fn review_answer(review: &Value, patched: Result<Vec<Value>, Fault>) -> Value {
    let mut response = json!({"uid": review["request"]["uid"], "allowed": patched.is_ok()});
    match patched {
        Ok(patch) if patch.is_empty() => {}
        Ok(patch) => {
            response["patchType"] = "JSONPatch".into();
            response["patch"] = STANDARD.encode(Value::Array(patch).to_string()).into();
        }
        Err(fault) => response["status"] = json!({"code": 500, "message": fault.chain()}),
    }
    json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})
}

fn respond(code: StatusCode, content_type: &'static str, body: String) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(body));
    *response.status_mut() = code;
    let content_type = header::HeaderValue::from_static(content_type);
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
