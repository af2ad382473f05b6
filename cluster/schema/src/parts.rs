//! What is judged of a custom resource beside its shape: objects inside it, and lists whose items are told apart
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/{objectmeta,listtype}`). It never judges types or bounds.

use std::collections::HashMap;

use base_yaml::go::json_kind;
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::{Map, Value};

use crate::tree::{Kind, ListType, Schema};

/// Errors of the objects that are embedded in `value`.
pub(crate) fn judge_embedded(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
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
                    judge_embedded(field, value, &path.field(key), errors);
                } else if let Some(field) = &object.additional {
                    judge_embedded(field, value, &path.key(key), errors);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            for (index, item) in items.iter().enumerate() {
                judge_embedded(&list.items, item, &path.index(index), errors);
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

/// Errors of lists in which an item stands twice; none where the object had such a list before.
pub(crate) fn judge_lists(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let mut found = Vec::new();
    lists(schema, value, &FieldPath::Root, &mut found);
    if found.is_empty() {
        return;
    }
    let mut before = Vec::new();
    if let Some(old) = old {
        lists(schema, old, &FieldPath::Root, &mut before);
    }
    if before.is_empty() {
        errors.extend(found);
    }
}

fn lists(schema: &Schema, value: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if !schema.node().has_parts {
        return;
    }
    match (schema.kind(), value) {
        (Kind::Object(object), Value::Object(map)) => {
            for (key, value) in map {
                if let Some(field) = object.fields.get(&**key) {
                    lists(field, value, &path.field(key), errors);
                } else if let Some(field) = &object.additional {
                    lists(field, value, &path.key(key), errors);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            match &list.list_type {
                ListType::Atomic => {}
                ListType::Set => twice(items.iter().cloned(), path, errors),
                ListType::Map { keys } => list_map(keys, items, path, errors),
            }
            for (index, item) in items.iter().enumerate() {
                lists(&list.items, item, &path.index(index), errors);
            }
        }
        _ => {}
    }
}

fn list_map(keys: &[Box<str>], items: &[Value], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let odd = |item: &&Value| !item.is_object() && !item.is_null();
    if let Some((index, item)) = items.iter().enumerate().find(|(_, item)| odd(item)) {
        let why = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(path.index(index), item.clone(), why));
        return;
    }
    let key_of = |item: &Value| -> Value {
        let fields = keys.iter();
        let fields = fields.filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
        Value::Object(fields.collect())
    };
    twice(items.iter().map(key_of), path, errors);
}

/// Tells each value that stands more than once, at its second place.
fn twice(values: impl Iterator<Item = Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(value.to_string()).or_default();
        *times += 1;
        if *times == 2 {
            errors.push(FieldError::duplicate(path.index(index), value));
        }
    }
}

/// What Go has in a field of metadata (apimachinery v0.35 `pkg/apis/meta/v1/types.go`).
#[derive(Clone, Copy)]
enum GoType {
    Text,
    Number,
    Texts,
    TextByText,
    Other,
}

const METADATA: [(&str, GoType); 12] = [
    ("annotations", GoType::TextByText),
    ("deletionGracePeriodSeconds", GoType::Number),
    ("finalizers", GoType::Texts),
    ("generateName", GoType::Text),
    ("generation", GoType::Number),
    ("labels", GoType::TextByText),
    ("name", GoType::Text),
    ("namespace", GoType::Text),
    ("ownerReferences", GoType::Other),
    ("resourceVersion", GoType::Text),
    ("selfLink", GoType::Text),
    ("uid", GoType::Text),
];

impl Schema {
    /// Why Go could not read the metadata of a custom resource, or of an object inside it.
    pub fn unreadable_metadata(&self, value: &Value) -> Option<String> {
        if !self.node().custom {
            return None;
        }
        let own = value.get("metadata").and_then(unreadable);
        own.or_else(|| unreadable_inside(self, value, &FieldPath::Root))
    }
}

fn unreadable_inside(schema: &Schema, value: &Value, path: &FieldPath<'_>) -> Option<String> {
    let node = schema.node();
    if !node.has_parts {
        return None;
    }
    match (&node.kind, value) {
        (Kind::Object(object), Value::Object(map)) => {
            if node.embedded_resource {
                for field in ["apiVersion", "kind"] {
                    if let Some(value) = map.get(field).filter(|value| !value.is_string()) {
                        let error = FieldError::invalid(path.field(field), value.clone(), "must be a string");
                        return Some(error.to_string());
                    }
                }
                if let Some((metadata, why)) = map.get("metadata").and_then(|value| Some((value, unreadable(value)?))) {
                    let error = FieldError::invalid(path.field("metadata"), metadata.clone(), why);
                    return Some(error.to_string());
                }
            }
            map.iter().find_map(|(key, value)| match object.fields.get(&**key) {
                Some(field) => unreadable_inside(field, value, &path.field(key)),
                None => unreadable_inside(object.additional.as_ref()?, value, &path.key(key)),
            })
        }
        (Kind::List(list), Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| unreadable_inside(&list.items, item, &path.index(index)))
        }
        _ => None,
    }
}

/// As Go's decoder says it.
fn unreadable(metadata: &Value) -> Option<String> {
    let fields = match metadata {
        Value::Null => return None,
        Value::Object(fields) => fields,
        other => {
            let found = json_kind(other);
            return Some(format!(
                "json: cannot unmarshal {found} into Go value of type v1.ObjectMeta"
            ));
        }
    };
    fields.iter().find_map(|(name, value)| {
        let (_, wanted) = METADATA.iter().find(|(known, _)| known == name)?;
        let odd_text = |value: &&Value| !value.is_string() && !value.is_null();
        let (odd, wanted) = match (wanted, value) {
            (_, Value::Null) | (GoType::Other, _) => return None,
            (GoType::Text, value) => (Some(value).filter(odd_text)?, "string"),
            (GoType::Number, value) => (Some(value).filter(|value| value.as_i64().is_none())?, "int64"),
            (GoType::Texts, Value::Array(items)) => (items.iter().find(odd_text)?, "string"),
            (GoType::Texts, value) => (value, "[]string"),
            (GoType::TextByText, Value::Object(map)) => (map.values().find(odd_text)?, "string"),
            (GoType::TextByText, value) => (value, "map[string]string"),
        };
        let found = json_kind(odd);
        Some(format!(
            "json: cannot unmarshal {found} into Go struct field ObjectMeta.{name} of type {wanted}"
        ))
    })
}
