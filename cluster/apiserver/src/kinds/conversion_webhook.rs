//! A ConversionReview out, objects of another version in: what is sent, what must come back, and what is accepted of it.
//! (apiextensions-apiserver v0.35 pkg/apiserver/conversion/webhook_converter.go)

use std::sync::Arc;
use std::time::Duration;

use base_yaml::go::go_type;
use bytes::Bytes;
use cluster_fields::{FieldError, FieldPath, aggregate, names};
use serde_json::{Map, Value, json};

use crate::connections::network::Network;
use crate::connections::review_response::{self, Answered};
use crate::connections::webhook_client::{Client, Clients};
use crate::kinds::conversion_cache::Recent;
use crate::kinds::kind::Kind;
use crate::wire::status::Status;

const GROUP: &str = "apiextensions.k8s.io";
const KIND: &str = "ConversionReview";
/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Objects that go into one request at most, so that an answer stays well below the limit of its size.
const BATCH_MAX: usize = 100;
/// Bytes of objects that go into one request; a single object may have more.
const BATCH_BYTES_MAX: usize = 2 << 20;
/// What a webhook may change of metadata.
const CHANGEABLE: [&str; 2] = ["labels", "annotations"];

/// The webhook that converts the objects of a kind.
pub(crate) struct Converter {
    client: Result<Arc<Client>, String>,
    /// The version of reviews that it gets; none if it supports none that is known here.
    review: Option<&'static str>,
    pub(crate) recent: Recent,
}

impl Converter {
    /// From `spec.conversion.webhook`.
    pub(crate) fn of(webhook: &Value, clients: &Clients) -> Self {
        let versions = webhook.get("conversionReviewVersions").and_then(Value::as_array);
        let mut versions = versions.into_iter().flatten().filter_map(Value::as_str);
        let review = versions.find_map(|version| ["v1", "v1beta1"].into_iter().find(|known| *known == version));
        let config = webhook.get("clientConfig").unwrap_or(&Value::Null);
        Self {
            client: clients.client(config),
            review,
            recent: Recent::default(),
        }
    }

    /// One object in another version. Errors: 500 with what went wrong.
    pub(crate) async fn one(
        &self,
        network: &Network,
        kind: &dyn Kind,
        value: Value,
        to: &str,
    ) -> Result<Value, Status> {
        let converted = self.all(network, kind, vec![value], to, true).await?;
        let first = converted.into_iter().next();
        first.ok_or_else(|| Status::internal("a conversion gave no object"))
    }

    /// Objects in another version than they are in, in their order; `as_read` drops fields that it does not have.
    pub(crate) async fn all(
        &self,
        network: &Network,
        kind: &dyn Kind,
        values: Vec<Value>,
        to: &str,
        as_read: bool,
    ) -> Result<Vec<Value>, Status> {
        let (mut converted, mut batch, mut bytes) = (Vec::with_capacity(values.len()), Vec::new(), 0);
        for value in values {
            let length = value.to_string().len();
            if !batch.is_empty() && (batch.len() == BATCH_MAX || bytes + length > BATCH_BYTES_MAX) {
                let full = std::mem::take(&mut batch);
                converted.extend(
                    Box::pin(self.batch(network, kind, full, to, as_read))
                        .await
                        .map_err(Status::failed)?,
                );
                bytes = 0;
            }
            bytes += length;
            batch.push(value);
        }
        if !batch.is_empty() {
            converted.extend(
                Box::pin(self.batch(network, kind, batch, to, as_read))
                    .await
                    .map_err(Status::failed)?,
            );
        }
        Ok(converted)
    }

    async fn batch(
        &self,
        network: &Network,
        kind: &dyn Kind,
        originals: Vec<Value>,
        to: &str,
        as_read: bool,
    ) -> Result<Vec<Value>, String> {
        let review = self.review.ok_or("no supported conversion review versions")?;
        let who = originals.first().map(typed).unwrap_or_default();
        let failed = |why: String| format!("conversion webhook for {who} failed: {why}");
        let wanted = kind.resource().api_version(to);
        let uid = network.entropy.uid();
        let body = json!({
            "kind": KIND, "apiVersion": format!("{GROUP}/{review}"),
            "request": {"uid": uid, "desiredAPIVersion": wanted, "objects": originals},
        });
        let client = self.client.as_ref().map_err(Clone::clone)?;
        let reply = client.post(network, TIMEOUT, Bytes::from(body.to_string())).await;
        let answered = reply.and_then(|reply| review_response::read(&reply, GROUP, KIND));
        let objects = answered
            .and_then(|answered| objects(review, &uid, answered))
            .map_err(failed)?;
        if objects.len() != originals.len() {
            return Err(format!(
                "conversion webhook for {who} returned {} objects, expected {}",
                objects.len(),
                originals.len()
            ));
        }
        let pairs = originals.iter().zip(objects);
        let mut objects = pairs
            .map(|(original, converted)| accepted(original, converted, &wanted))
            .collect::<Result<Vec<Value>, String>>()?;
        if let Some(schema) = kind.schema(to).filter(|_| as_read) {
            for object in &mut objects {
                schema.prune(object);
                schema.normalize(object);
            }
        }
        Ok(objects)
    }
}

/// `group/version, Kind=Kind`.
fn typed(value: &Value) -> String {
    format!("{}, Kind={}", text(value, "/apiVersion"), text(value, "/kind"))
}

fn text<'v>(value: &'v Value, path: &str) -> &'v str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

/// The objects of an answer. Errors: it is not the one that was requested, or the webhook refuses.
fn objects(review: &str, uid: &str, answered: Answered) -> Result<Vec<Value>, String> {
    let (api_version, kind) = &answered.typed;
    let wanted = format!("{GROUP}/{review}");
    if review == "v1" && (*api_version != wanted || kind != KIND) {
        let slash = if api_version.is_empty() { "/" } else { api_version };
        return Err(format!(
            "expected webhook response of {wanted}, Kind={KIND}, got {slash}, Kind={kind}"
        ));
    }
    let mut response = answered.response.ok_or("no response provided")?;
    let given = text(&response, "/uid");
    if review == "v1" && given != uid {
        return Err(format!("expected response.uid={uid:?}, got {given:?}"));
    }
    let (status, message) = (text(&response, "/result/status"), text(&response, "/result/message"));
    if status != "Success" {
        return Err(match message {
            "" => format!("response.result.status was '{status}', not 'Success'"),
            message => message.to_owned(),
        });
    }
    match response.get_mut("convertedObjects").map(Value::take) {
        Some(Value::Array(objects)) => Ok(objects),
        _ => Ok(Vec::new()),
    }
}

/// A converted object with the metadata that a webhook may not change. Errors: it is not the same object.
fn accepted(original: &Value, converted: Value, wanted: &str) -> Result<Value, String> {
    if text(&converted, "/kind").is_empty() {
        return Err(format!("Object 'Kind' is missing in '{converted}'"));
    }
    let invalid = |why: String| {
        let who = typed(original);
        format!("conversion webhook for {who} returned invalid {why}")
    };
    let (version, kind) = (text(&converted, "/apiVersion"), text(&converted, "/kind"));
    if version != wanted {
        return Err(invalid(format!(
            "object at index 0: invalid groupVersion (expected {wanted}, received {version})"
        )));
    }
    let own = text(original, "/kind");
    if kind != own {
        return Err(invalid(format!(
            "object at index 0: invalid kind (expected {own}, received {kind})"
        )));
    }
    for (what, path) in [
        ("name", "/metadata/name"),
        ("namespace", "/metadata/namespace"),
        ("UID", "/metadata/uid"),
    ] {
        let (before, after) = (text(original, path), text(&converted, path));
        if before != after {
            return Err(invalid(format!(
                "object: must have the same {what}: {before} != {after}"
            )));
        }
    }
    let metadata = metadata(original, &converted).map_err(|why| invalid(format!("metadata: {why}")))?;
    let mut object = converted;
    if let Some(fields) = object.as_object_mut() {
        fields.insert("metadata".to_owned(), Value::Object(metadata));
    }
    Ok(object)
}

/// The metadata that the object had, with the labels and annotations that it was given.
fn metadata(original: &Value, converted: &Value) -> Result<Map<String, Value>, String> {
    let given = match converted.get("metadata") {
        None => return Err("missing metadata in converted object".to_owned()),
        Some(Value::Object(given)) => given,
        Some(other) => {
            let kind = go_type(other);
            return Err(format!("invalid metadata of type {kind} in converted object"));
        }
    };
    let before = original.get("metadata").and_then(Value::as_object);
    let mut metadata = before.cloned().unwrap_or_default();
    for field in CHANGEABLE {
        let new = match given.get(field) {
            None | Some(Value::Null) => {
                metadata.remove(field);
                continue;
            }
            Some(Value::Object(new)) => new,
            Some(other) => {
                let kind = go_type(other);
                return Err(format!("invalid metadata.{field} of type {kind} in converted object"));
            }
        };
        if let Some((key, value)) = new.iter().find(|(_, value)| !value.is_string()) {
            let kind = go_type(value);
            return Err(format!(
                "metadata.{field}[{key}] must be a string, but is {kind} in converted object"
            ));
        }
        if metadata.get(field).and_then(Value::as_object) != Some(new) {
            check(field, new)?;
        }
        metadata.insert(field.to_owned(), Value::Object(new.clone()));
    }
    Ok(metadata)
}

fn check(field: &str, new: &Map<String, Value>) -> Result<(), String> {
    let mut errors: Vec<FieldError> = Vec::new();
    let path = FieldPath::Root.field("metadata");
    match field {
        "labels" => names::validate_labels(new, &path.field("labels"), &mut errors),
        // Upstream has this path.
        _ => names::validate_annotations(new, &path.field("annotation"), &mut errors),
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(aggregate(&errors))
    }
}
