//! `metadata`: what the server sets, retains and validates on every object of every kind.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/api/validation/objectmeta.go,
//! staging/src/k8s.io/apiserver/pkg/registry/rest)

use std::collections::BTreeSet;

use cluster_fields::{FieldError, FieldPath, names};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::kinds::kind::Kind;
use crate::wire::status::Status;

/// Longest base of a generated name: the suffix must fit 63 characters with it.
const GENERATED_BASE_MAX: usize = 58;
/// Characters of the random suffix.
pub(crate) const GENERATED_SUFFIX: usize = 5;

/// Time as `metav1.Time` prints it: whole seconds, UTC.
pub(crate) fn timestamp(now: Timestamp) -> String {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The object's `metadata`; an empty one is put there when it is missing. Errors: 400 when it is no JSON object.
pub(crate) fn of_mut(object: &mut Value) -> Result<&mut Map<String, Value>, Status> {
    let fields = object
        .as_object_mut()
        .ok_or_else(|| Status::bad_request("the body is not a JSON object"))?;
    let metadata = fields.entry("metadata").or_insert(Value::Null);
    if metadata.is_null() {
        *metadata = Value::Object(Map::new());
    }
    metadata
        .as_object_mut()
        .ok_or_else(|| Status::bad_request("metadata is not a JSON object"))
}

/// A text of `metadata`; empty when it is missing.
pub(crate) fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// The finalizers.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object
        .get("metadata")
        .and_then(|metadata| metadata.get("finalizers"))
        .and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Replaces the finalizers; an empty list removes the field.
pub(crate) fn set_finalizers(metadata: &mut Map<String, Value>, finalizers: &[String]) {
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), Value::from(finalizers.to_vec()));
    }
}

/// Whether deletion has begun.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "deletionTimestamp").is_empty()
}

/// A number of `metadata`.
pub(crate) fn number(object: &Value, field: &str) -> i64 {
    object
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
        .and_then(Value::as_i64)
        .unwrap_or_default()
}

/// The name made from `generateName` and a suffix.
pub(crate) fn generated_name(base: &str, suffix: &str) -> String {
    let mut end = base.len().min(GENERATED_BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &base[..end])
}

/// Drops empty maps and lists that Go would not print, and fields that no longer mean anything. An empty list of managed
/// fields stays: it requests that they are reset.
pub(crate) fn normalize(metadata: &mut Map<String, Value>) {
    metadata.remove("selfLink");
    if metadata.get("managedFields").is_some_and(Value::is_null) {
        metadata.remove("managedFields");
    }
    for field in ["labels", "annotations", "ownerReferences", "finalizers"] {
        let empty = match metadata.get(field) {
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(items)) => items.is_empty(),
            Some(Value::Null) => true,
            _ => false,
        };
        if empty {
            metadata.remove(field);
        }
    }
    // Go does not print zero.
    if metadata
        .get("generation")
        .is_some_and(|number| number.as_i64() == Some(0))
    {
        metadata.remove("generation");
    }
    for field in [
        "generateName",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        if metadata
            .get(field)
            .is_some_and(|value| value.is_null() || value.as_str() == Some(""))
        {
            metadata.remove(field);
        }
    }
}

/// Errors of a new object's metadata.
pub(crate) fn validate(kind: &dyn Kind, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let Some(metadata) = object.get("metadata").and_then(Value::as_object) else {
        return errors;
    };
    let (root, name) = (FieldPath::Root, text(object, "name"));
    let path = root.field("metadata");
    let base = text(object, "generateName");
    if !base.is_empty() {
        let base_name = format!("{}x", base);
        if let Some(why) = kind.refuse_name(&base_name) {
            errors.push(FieldError::invalid(path.field("generateName"), base, why));
        }
    }
    if name.is_empty() {
        errors.push(FieldError::required(
            path.field("name"),
            "name or generateName is required",
        ));
    } else if let Some(why) = kind.refuse_name(name) {
        errors.push(FieldError::invalid(path.field("name"), name, why));
    }
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        names::validate_labels(labels, &path.field("labels"), &mut errors);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        names::validate_annotations(annotations, &path.field("annotations"), &mut errors);
    }
    for finalizer in finalizers(object) {
        names::validate_qualified_name(finalizer, &path.field("finalizers"), &mut errors);
    }
    owners(metadata, &path, &mut errors);
    errors
}

fn owners(metadata: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(owners) = metadata.get("ownerReferences").and_then(Value::as_array) else {
        return;
    };
    let list = path.field("ownerReferences");
    let mut controller: Option<String> = None;
    for owner in owners {
        let get = |field: &str| owner.get(field).and_then(Value::as_str).unwrap_or_default();
        for (field, why) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if get(field).is_empty() {
                errors.push(FieldError::invalid(list.field(field), "", why));
            }
        }
        if (get("apiVersion"), get("kind")) == ("v1", "Event") {
            let why = "/v1, Kind=Event is disallowed from being an owner";
            errors.push(FieldError::invalid(list, owner.clone(), why).shown_as(in_order(owner)));
        }
        if owner.get("controller").and_then(Value::as_bool) == Some(true) {
            let named = format!("{}/{}", get("kind"), get("name"));
            if let Some(other) = &controller {
                let why = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {other} and {named}"
                );
                let shown: Vec<String> = owners.iter().map(in_order).collect();
                let error = FieldError::invalid(list, Value::Array(owners.clone()), why);
                errors.push(error.shown_as(format!("[{}]", shown.join(","))));
                return;
            }
            controller = Some(named);
        }
    }
}

/// An owner reference with its fields as Go declares them.
fn in_order(owner: &Value) -> String {
    let fields = ["apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion"];
    let shown = fields
        .into_iter()
        .filter_map(|field| Some(format!("{field:?}:{}", owner.get(field)?)));
    format!("{{{}}}", shown.collect::<Vec<_>>().join(","))
}

/// Warnings of new finalizers of a custom resource whose names have no domain, so that others may use them as well.
pub(crate) fn finalizer_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let had = old.map(finalizers).unwrap_or_default();
    let mut new = finalizers(object);
    new.retain(|finalizer| !had.contains(finalizer) && !finalizer.contains('/'));
    new.retain(|finalizer| !names::STANDARD_FINALIZERS.contains(finalizer));
    new.sort_unstable();
    new.dedup();
    let warnings = new.into_iter().map(|finalizer| {
        let with_path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        format!(
            "metadata.finalizers: {finalizer:?}: prefer a domain-qualified finalizer name{with_path} to avoid accidental conflicts with other finalizer writers"
        )
    });
    warnings.collect()
}

/// Errors of a change of metadata.
pub(crate) fn validate_update(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["name", "namespace", "uid"] {
        let (new, was) = (text(object, field), text(old, field));
        if new != was {
            errors.push(FieldError::invalid(
                format!("metadata.{field}"),
                new,
                "field is immutable",
            ));
        }
    }
    if is_deleting(old) {
        let had = finalizers(old);
        let new: BTreeSet<&str> = finalizers(object)
            .into_iter()
            .filter(|finalizer| !had.contains(finalizer))
            .collect();
        if !new.is_empty() {
            let list: Vec<String> = new.iter().map(|finalizer| format!("{finalizer:?}")).collect();
            let why = format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                list.join(", ")
            );
            errors.push(FieldError::forbidden("metadata.finalizers", why));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_names_stay_within_63_characters() {
        assert_eq!(generated_name("a-", "xxxxx"), "a-xxxxx");
        assert_eq!(generated_name(&"a".repeat(80), "xxxxx").len(), 63);
        assert_eq!(generated_name(&"ä".repeat(80), "xxxxx").len(), 63);
    }

    #[test]
    fn times_are_whole_seconds_in_utc() {
        let now: Timestamp = "2026-01-02T03:04:05.678Z".parse().unwrap();
        assert_eq!(timestamp(now), "2026-01-02T03:04:05Z");
    }
}
