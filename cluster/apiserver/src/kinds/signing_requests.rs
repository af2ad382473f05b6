//! What the server itself sets in a CertificateSigningRequest, and what must be true of one. Pure; approving and signing are
//! work of controllers.

use base_secrets::SigningRequest;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cluster_fields::FieldError;
use serde_json::{Value, json};

use crate::kinds::kind::Call;

pub(crate) const GROUP: &str = "certificates.k8s.io";

/// `spec.request` must be a signing request in PEM, signed by the key that it is about.
pub(crate) fn validate(object: &Value) -> Vec<FieldError> {
    let encoded = object
        .pointer("/spec/request")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let decoded = STANDARD.decode(encoded).unwrap_or_default();
    let text = String::from_utf8_lossy(&decoded);
    let why = if !text.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        "PEM block type must be CERTIFICATE REQUEST".to_owned()
    } else if let Err(error) = SigningRequest::from_pem(&text) {
        error.to_string()
    } else {
        return Vec::new();
    };
    vec![FieldError::invalid("spec.request", encoded, why)]
}

pub(crate) fn signer(request: &Value) -> &str {
    request
        .pointer("/spec/signerName")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn is_decision(condition: &Value) -> bool {
    matches!(
        condition.get("type").and_then(Value::as_str),
        Some("Approved" | "Denied")
    )
}

/// A write of the status leaves approval and denial as they were.
fn keep_decision(object: &mut Value, old: &Value) {
    let conditions = |object: &Value| object.pointer("/status/conditions").and_then(Value::as_array).cloned();
    let (given, before) = (
        conditions(object).unwrap_or_default(),
        conditions(old).unwrap_or_default(),
    );
    let decisions = || before.iter().filter(|condition| is_decision(condition));
    if given.iter().filter(|condition| is_decision(condition)).eq(decisions()) {
        return;
    }
    let others = given.iter().filter(|condition| !is_decision(condition));
    let merged: Vec<Value> = decisions().chain(others).cloned().collect();
    if let Some(fields) = object.as_object_mut() {
        let status = fields.entry("status").or_insert_with(|| json!({}));
        if let Some(status) = status.as_object_mut() {
            status.insert("conditions".to_owned(), Value::Array(merged));
        }
    }
}

/// The server writes the requester of a certificate; approval and issuing are written apart
/// (kubernetes/kubernetes v1.35 pkg/registry/certificates/certificates/strategy.go).
pub(crate) fn prepare(call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    if let (Some(old), Some("status")) = (old, call.subresource) {
        keep_decision(object, old);
    }
    let Some(fields) = object.as_object_mut() else { return };
    match (old, call.subresource) {
        (None, _) => {
            let user = call.user;
            if let Some(spec) = fields.get_mut("spec").and_then(Value::as_object_mut) {
                for field in ["username", "uid", "groups", "extra"] {
                    spec.remove(field);
                }
                spec.insert("username".to_owned(), json!(user.name));
                if !user.uid.is_empty() {
                    spec.insert("uid".to_owned(), json!(user.uid));
                }
                if !user.groups.is_empty() {
                    spec.insert("groups".to_owned(), json!(user.groups));
                }
                if !user.extra.is_empty() {
                    spec.insert("extra".to_owned(), json!(user.extra));
                }
            }
        }
        (Some(old), None) => {
            if let Some(spec) = old.get("spec") {
                fields.insert("spec".to_owned(), spec.clone());
            }
        }
        (Some(old), Some("approval")) => {
            let conditions = fields
                .get("status")
                .and_then(|status| status.get("conditions"))
                .cloned();
            if let Some(spec) = old.get("spec") {
                fields.insert("spec".to_owned(), spec.clone());
            }
            let mut status = old.get("status").cloned().unwrap_or_else(|| json!({}));
            if let Some(status) = status.as_object_mut() {
                match conditions {
                    Some(conditions) => status.insert("conditions".to_owned(), conditions),
                    None => status.remove("conditions"),
                };
            }
            stamp_conditions(&mut status, call);
            fields.insert("status".to_owned(), status);
        }
        (Some(_), Some(_)) => {}
    }
}

fn stamp_conditions(status: &mut Value, call: &Call<'_>) {
    let now = json!(crate::kinds::metadata::timestamp(call.now));
    let conditions = status.get_mut("conditions").and_then(Value::as_array_mut);
    for condition in conditions.into_iter().flatten().filter_map(Value::as_object_mut) {
        for field in ["lastUpdateTime", "lastTransitionTime"] {
            let missing = condition.get(field).is_none_or(Value::is_null);
            if missing {
                condition.insert(field.to_owned(), now.clone());
            }
        }
    }
}
