//! Objects that are embedded in a custom resource: version, kind, metadata (apiextensions-apiserver v0.35
//! `pkg/apiserver/schema/objectmeta`). It never validates types or bounds.

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::{Map, Value};

use crate::tree::schema::{Kind, Schema};

/// Errors of the objects that are embedded in `value`.
pub(crate) fn validate_embedded(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let node = schema.node();
    if !node.has_parts {
        return;
    }
    match (&node.kind, value) {
        (Kind::Object(object), Value::Object(map)) => {
            if node.embedded_resource {
                embedded(map, path, errors);
            }
            for (key, value) in map {
                if let Some(field) = object.fields.get(&**key) {
                    validate_embedded(field, value, &path.field(key), errors);
                } else if let Some(field) = &object.additional {
                    validate_embedded(field, value, &path.key(key), errors);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                validate_embedded(&list.items, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn embedded(object: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut text = |field: &'static str| {
        let at = path.field(field);
        let text = match object.get(field) {
            None => {
                errors.push(FieldError::required(at, ""));
                return None;
            }
            Some(value) => value.as_str(),
        };
        match text {
            None => errors.push(FieldError::invalid(at, object[field].clone(), "must be a string")),
            Some("") => errors.push(FieldError::invalid(at, "", "must not be empty")),
            Some(text) => return Some(text),
        }
        None
    };
    let (version, kind) = (text("apiVersion"), text("kind"));
    if let Some(version) = version.filter(|version| version.matches('/').count() > 1) {
        let why = format!("unexpected GroupVersion string: {version}");
        errors.push(FieldError::invalid(path.field("apiVersion"), version, why));
    }
    if let Some((kind, why)) = kind.and_then(|kind| Some((kind, names::dns_label_1035(&kind.to_lowercase())?))) {
        let why = format!("may have mixed case, but should otherwise match: {why}");
        errors.push(FieldError::invalid(path.field("kind"), kind, why));
    }
    let Some(metadata) = object.get("metadata").and_then(Value::as_object) else {
        return;
    };
    let at = path.field("metadata");
    for field in ["generateName", "name"] {
        let name = metadata.get(field).and_then(Value::as_str).unwrap_or_default();
        if let Some(why) = names::path_segment(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(at.field(field), name, why));
        }
    }
    if let Some(labels) = metadata.get("labels").and_then(Value::as_object) {
        names::validate_labels(labels, &at.field("labels"), errors);
    }
    if let Some(annotations) = metadata.get("annotations").and_then(Value::as_object) {
        names::validate_annotations(annotations, &at.field("annotations"), errors);
    }
}
