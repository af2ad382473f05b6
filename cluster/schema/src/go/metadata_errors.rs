//! Errors of Go's decoder for the metadata of custom resources and of objects inside them. All else of a custom resource has no
//! type in Go.

use base_yaml::go::json_kind;
use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::tree::schema::{Kind, Schema};

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
    /// Why Go cannot decode the metadata of a custom resource, or of an object inside it.
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

/// The error of Go's decoder.
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
