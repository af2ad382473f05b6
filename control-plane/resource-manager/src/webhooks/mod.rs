//! The admission webhooks of the seed's gardener-resource-manager, as one HTTP server. It answers reviews and writes nothing.

mod token_mount;

use api_meta::Fault;
use base_client::{HttpService, review_server, reviewer};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use components_seed::TOKEN_MOUNT_PATH;
use kube::Client;
use serde_json::{Value, json};

/// The server. It reads the accounts of pods in `target`.
#[must_use]
pub fn webhooks(target: Client) -> HttpService {
    let mounts = reviewer(move |review| {
        let target = target.clone();
        async move {
            let patched = token_mount::patch(&target, &review["request"]).await;
            Ok(review_answer(&review, patched))
        }
    });
    review_server(vec![(TOKEN_MOUNT_PATH, mounts)])
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
