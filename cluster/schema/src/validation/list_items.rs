//! Lists of a custom resource whose items must differ: sets, and lists with keys (apiextensions-apiserver v0.35
//! `pkg/apiserver/schema/listtype`).

use std::collections::HashMap;

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::tree::schema::{Kind, ListType, Schema};

/// Errors of lists in which an item stands twice; none where the old object already had such a list.
pub(crate) fn validate_lists(schema: &Schema, value: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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

/// Reports each value that stands more than once, at its second place.
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
