//! The status of a CustomResourceDefinition: how it begins, and whether what it defines is served. Pure.

use cluster_schema::unknown_formats;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::kind::Call;
use crate::kinds::metadata;

pub(crate) fn text<'d>(definition: &'d Value, path: &str) -> &'d str {
    definition.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

pub(crate) fn conditions(definition: &Value) -> &[Value] {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.map(Vec::as_slice).unwrap_or_default()
}

/// Whether it has names of its own, so that it is served.
pub(crate) fn is_established(definition: &Value) -> bool {
    is_true(definition, "Established")
}

pub(crate) fn is_true(definition: &Value, kind: &str) -> bool {
    let is_met = |condition: &Value| condition["type"] == kind && condition["status"] == "True";
    conditions(definition).iter().any(is_met)
}

/// Adds the storage version to `status.storedVersions`.
pub(crate) fn add_stored_version(definition: &mut Value) {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    // Several storage versions are refused later.
    let storing = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true);
    let storing: Option<Value> = storing.and_then(|version| version.get("name").cloned());
    let Some(fields) = definition.as_object_mut() else {
        return;
    };
    let status = fields.entry("status").or_insert_with(|| json!({}));
    let Some(status) = status.as_object_mut() else { return };
    let stored = status.entry("storedVersions").or_insert_with(|| json!([]));
    let stored = stored.as_array_mut();
    if let (Some(version), Some(stored)) = (storing, stored)
        && !stored.contains(&version)
    {
        stored.push(version);
    }
}

/// The status of a definition before its conditions are set, as Go writes it.
pub(crate) fn begin_status(definition: &mut Value) {
    if let Some(status) = definition.get_mut("status").and_then(Value::as_object_mut) {
        status.insert("acceptedNames".to_owned(), json!({"kind": "", "plural": ""}));
        status.insert("conditions".to_owned(), Value::Null);
    }
}

/// Warnings of an accepted definition: formats that are not known.
pub(crate) fn warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let formats = |definition: &Value| -> Vec<String> {
        let versions = definition.pointer("/spec/versions").map(unknown_formats);
        let formats = versions.into_iter().flatten();
        formats
            .map(|format| format!("unrecognized format {format:?}"))
            .collect()
    };
    let had = old.map(formats).unwrap_or_default();
    let new = formats(definition).into_iter();
    new.filter(|format| !had.contains(format)).collect()
}

/// Sets what no client may choose: the stored versions.
pub(crate) fn prepare(call: &Call<'_>, definition: &mut Value) {
    let stored = definition.pointer("/status/storedVersions").and_then(Value::as_array);
    if call.subresource.is_none() || stored.is_none_or(Vec::is_empty) {
        add_stored_version(definition);
    }
}

/// Marks a CRD as going away: it waits for its instances.
pub(crate) fn begin_deletion(definition: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<String> = metadata::finalizers(definition)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
    }
    let generation = metadata::number(definition, "generation");
    if let Ok(metadata) = metadata::of_mut(definition) {
        metadata::set_finalizers(metadata, &finalizers);
        // Its store begins the deletion by itself, unlike that of other kinds.
        if metadata.remove("deletionGracePeriodSeconds").is_some() {
            metadata.insert("generation".to_owned(), Value::from((generation - 1).max(1)));
        }
    }
    let terminating = json!({
        "type": "Terminating", "status": "True", "reason": "InstanceDeletionPending",
        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        "lastTransitionTime": metadata::timestamp(now),
    });
    let conditions = definition
        .pointer_mut("/status/conditions")
        .and_then(Value::as_array_mut);
    let is_terminating = |condition: &Value| condition.get("type") == Some(&json!("Terminating"));
    if let Some(conditions) = conditions.filter(|conditions| !conditions.iter().any(is_terminating)) {
        conditions.push(terminating);
    }
}

/// The finalizer that waits for the instances to go.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
