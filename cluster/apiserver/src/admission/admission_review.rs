//! `AdmissionReview`: the request that is sent to a webhook, the validation of its response, and the status of a refusal. It
//! never decides what a failure means; a response that is no review is reported by `connections/review_response`.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/request, errors)

use std::collections::BTreeMap;

use base64::Engine as _;
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::admission::attributes::AdmissionAttributes;
use crate::configuration::webhook::{ReviewVersion, Webhook};
use crate::connections::review_response;
use crate::connections::webhook_client::Reply;
use crate::wire::decode::{Encoding, try_decode, undecodable};
use crate::wire::status::{Details, Status};

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

/// A response that lets the request pass.
#[derive(Debug, Default)]
pub(crate) struct Allowed {
    pub(crate) warnings: Vec<String>,
    /// A JSON patch, not empty.
    pub(crate) patch: Option<Value>,
}

/// Why a webhook does not let the request pass.
#[derive(Debug)]
pub(crate) enum Failed {
    /// It denied the request, or cannot be called for a dry run.
    Refused(Status),
    /// The call failed, or the response is invalid.
    Calling(String),
    /// The request itself has waited for too long.
    Late,
}

/// `AdmissionResponse`.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Response {
    uid: String,
    allowed: bool,
    status: Option<Value>,
    patch: Option<String>,
    patch_type: Option<String>,
    audit_annotations: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// 504: the time of the request is over. kube-apiserver detects a timeout that the client set elsewhere than its own, so
/// the messages differ.
pub(crate) fn timed_out(attributes: &AdmissionAttributes<'_>) -> Status {
    let of = |why: &str| Status::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {why}"));
    match attributes.context.query.get("timeout") {
        Some(_) => of("request did not complete within the allotted timeout").bare(),
        None => of("request did not complete within requested timeout - context deadline exceeded")
            .detailed(Details::default()),
    }
}

/// Sends the review to a webhook and reads its response.
pub(crate) async fn send(
    hook: &Webhook,
    attributes: &AdmissionAttributes<'_>,
    version: &str,
    (object, old): (Option<&Value>, Option<&Value>),
) -> Result<Allowed, Failed> {
    if attributes.dry_run && !hook.takes_dry_runs {
        let why = format!("admission webhook {:?} does not support dry run", hook.name);
        return Err(Failed::Refused(Status::bad_request(why)));
    }
    let Some(review) = hook.version else {
        let why = "webhook does not accept known AdmissionReview versions (v1, v1beta1)";
        return Err(Failed::Calling(format!("could not create admission objects: {why}")));
    };
    let client = hook
        .client
        .as_ref()
        .map_err(|why| Failed::Calling(format!("could not get REST client: {why}")))?;
    let uid = attributes.context.server.entropy.uid();
    let body = review_of(review, &uid, attributes, version, object, old)
        .await
        .map_err(Failed::Refused)?;
    let left = attributes.deadline().saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(Failed::Late);
    }
    let timeout = hook.timeout.min(left);
    let reply = client.post(&attributes.context.server.network, timeout, body).await;
    if Instant::now() >= attributes.deadline() {
        return Err(Failed::Late);
    }
    let reply = reply.map_err(|why| Failed::Calling(format!("failed to call webhook: {why}")))?;
    let (typed, response) = read(&reply).map_err(|why| Failed::Calling(format!("failed to call webhook: {why}")))?;
    let response = verify(hook, review, &uid, &typed, response)
        .map_err(|why| Failed::Calling(format!("received invalid webhook response: {why}")))?;
    for (key, value) in &response.audit_annotations {
        attributes
            .context
            .annotate(format!("{}/{key}", hook.name), value.clone());
    }
    if !response.allowed {
        let status = refusal(&hook.name, response.status.as_ref()).warned(response.warnings);
        return Err(Failed::Refused(status));
    }
    let patch = match response.patch.filter(|_| hook.mutating) {
        None => None,
        Some(patch) => patch_of(&patch, response.patch_type.as_deref().unwrap_or_default())?,
    };
    Ok(Allowed {
        warnings: response.warnings,
        patch,
    })
}

/// The request as JSON.
async fn review_of<'a>(
    review: ReviewVersion,
    uid: &str,
    attributes: &AdmissionAttributes<'a>,
    version: &'a str,
    object: Option<&Value>,
    old: Option<&Value>,
) -> Result<Bytes, Status> {
    let mut request = attributes.request(version);
    request.insert("uid".to_owned(), Value::from(uid));
    for (field, value) in [("object", object), ("oldObject", old)] {
        let value = attributes.some_in_version(value, version).await?;
        let value = value.map_or(Value::Null, |value| value.into_owned());
        request.insert(field.to_owned(), value);
    }
    let mut whole = Map::new();
    whole.insert("kind".to_owned(), Value::from(KIND));
    whole.insert("apiVersion".to_owned(), Value::from(api_version(review)));
    whole.insert("request".to_owned(), Value::Object(request));
    Ok(Bytes::from(Value::Object(whole).to_string()))
}

fn api_version(review: ReviewVersion) -> &'static str {
    match review {
        ReviewVersion::V1 => "admission.k8s.io/v1",
        ReviewVersion::V1Beta1 => "admission.k8s.io/v1beta1",
    }
}

/// Group/version and kind of a review, and its response. Errors: the reply is no review.
fn read(reply: &Reply) -> Result<((String, String), Option<Response>), String> {
    let answered = review_response::read(reply, GROUP, KIND)?;
    match answered.response {
        None => Ok((answered.typed, None)),
        Some(response) => match serde_json::from_value(without_nulls(&response)) {
            Ok(response) => Ok((answered.typed, Some(response))),
            Err(error) => Err(undecodable(Encoding::Json, &format!("json: {error}"))),
        },
    }
}

/// To Go's decoder a null field is an absent one.
fn without_nulls(response: &Value) -> Value {
    let mut response = response.clone();
    if let Some(fields) = response.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    response
}

fn verify(
    hook: &Webhook,
    review: ReviewVersion,
    uid: &str,
    typed: &(String, String),
    response: Option<Response>,
) -> Result<Response, String> {
    let mut response = response.ok_or("webhook response was absent")?;
    if review == ReviewVersion::V1Beta1 {
        // v1beta1 requires nothing of the following.
        let patched = response.patch.as_ref().is_some_and(|patch| !patch.is_empty());
        response.patch_type = patched.then(|| "JSONPatch".to_owned());
        return Ok(response);
    }
    if response.uid != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", response.uid));
    }
    let wanted = (api_version(review), KIND);
    if (typed.0.as_str(), typed.1.as_str()) != wanted {
        let slash = if typed.0.is_empty() { "/" } else { &typed.0 };
        return Err(format!(
            "expected webhook response of {}, Kind={KIND}, got {slash}, Kind={}",
            wanted.0, typed.1
        ));
    }
    let has_patch = response.patch.as_ref().is_some_and(|patch| !patch.is_empty());
    match (hook.mutating, has_patch, response.patch_type.as_deref()) {
        (true, true, None) => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, Some(_)) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, true, Some("")) => Err("webhook returned invalid response.patchType of \"\"".to_owned()),
        (false, true, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, _, Some(_)) => Err("validating webhook may not return response.patchType".to_owned()),
        _ => Ok(response),
    }
}

fn patch_of(patch: &str, patch_type: &str) -> Result<Option<Value>, Failed> {
    if patch.is_empty() {
        return Ok(None);
    }
    let undecodable = |why: String| Failed::Calling(format!("received undecodable patch in webhook response: {why}"));
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(patch)
        .map_err(|error| undecodable(error.to_string()))?;
    let patch = try_decode(&bytes, Encoding::Json).map_err(undecodable)?.value;
    let Value::Array(operations) = &patch else {
        let kind = base_yaml::go::json_kind(&patch);
        return Err(undecodable(format!(
            "json: cannot unmarshal {kind} into Go value of type jsonpatch.Patch"
        )));
    };
    if operations.is_empty() {
        return Ok(None);
    }
    if patch_type != "JSONPatch" {
        return Err(Failed::Calling(format!("unsupported patch type {patch_type:?}")));
    }
    Ok(Some(patch))
}

/// The status of a refusal; its message begins with the name of the webhook.
fn refusal(name: &str, given: Option<&Value>) -> Status {
    let text = |field: &str| given.and_then(|given| given.get(field)?.as_str()).unwrap_or_default();
    let denied = format!("admission webhook {name:?} denied the request");
    let message = match (text("message"), text("reason")) {
        ("", "") => format!("{denied} without explanation"),
        ("", reason) => format!("{denied}: {reason}"),
        (message, _) => format!("{denied}: {message}"),
    };
    let code = given.and_then(|given| given.get("code")?.as_u64()).unwrap_or_default();
    let code = u16::try_from(code).ok().filter(|code| *code >= 400);
    let code = StatusCode::from_u16(code.unwrap_or(400)).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let status = Status::new(code, text("reason").to_owned(), message);
    let details = given
        .and_then(|given| given.get("details"))
        .filter(|details| details.is_object());
    match details.map(|details| serde_json::from_value::<Details>(details.clone())) {
        Some(Ok(details)) => status.detailed(details),
        _ => status,
    }
}
