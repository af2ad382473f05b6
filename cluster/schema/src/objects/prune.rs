//! Dropping fields that a schema does not know (apiextensions-apiserver v0.35 `pkg/apiserver/schema/pruning`).
//! It never changes the value of a field that stays.

use cluster_fields::{ERRORS_MAX, FieldPath};
use serde_json::Value;

use crate::tree::schema::{Kind, Schema};

impl Schema {
    /// Drop unknown fields. Returns their paths for strict field validation (`unknown field "spec.foo"`): those of the
    /// object's own metadata first, those of the metadata of objects inside it last, else sorted. Of very many only the
    /// first are named, all are dropped.
    pub fn prune(&self, value: &mut Value) -> Vec<String> {
        let mut dropped = Vec::new();
        prune(self, value, &FieldPath::Root, Place::Object, &mut dropped);
        dropped.sort();
        dropped.into_iter().map(|(_, path)| path).collect()
    }
}

/// Where a field stands, in the order in which unknown ones are reported.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    OwnMetadata,
    Object,
    EmbeddedMetadata,
}

fn prune(schema: &Schema, value: &mut Value, path: &FieldPath<'_>, place: Place, dropped: &mut Vec<(Place, String)>) {
    let node = schema.node();
    match (schema.kind(), value) {
        (Kind::Object(object), Value::Object(map)) => {
            let keep_unknown = node.preserve_unknown;
            let known = |key: &str| keep_unknown || object.additional.is_some() || object.fields.contains_key(key);
            if map.keys().any(|key| !known(key)) {
                map.retain(|key, _| {
                    let keep = known(key);
                    if !keep && dropped.len() < ERRORS_MAX {
                        dropped.push((place, path.field(key).to_string()));
                    }
                    keep
                });
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = schema.field(key) {
                    let place = match (&**key, path) {
                        ("metadata", FieldPath::Root) if node.custom => Place::OwnMetadata,
                        ("metadata", _) if node.embedded_resource => Place::EmbeddedMetadata,
                        _ => place,
                    };
                    prune(field, value, &path.field(key), place, dropped);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            for (index, item) in items.iter_mut().enumerate() {
                prune(&list.items, item, &path.index(index), place, dropped);
            }
        }
        (Kind::Any, value) if !node.preserve_unknown => flatten(value, path, place, dropped),
        // Nothing is known about a value whose type does not match its schema.
        (_, value) if node.custom && !node.preserve_unknown => flatten(value, path, place, dropped),
        _ => {}
    }
}

/// Drops the fields of all objects.
fn flatten(value: &mut Value, path: &FieldPath<'_>, place: Place, dropped: &mut Vec<(Place, String)>) {
    match value {
        Value::Object(map) => {
            let named = map.keys().take(ERRORS_MAX.saturating_sub(dropped.len()));
            dropped.extend(named.map(|key| (place, path.field(key).to_string())));
            map.clear();
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                flatten(item, &path.index(index), place, dropped);
            }
        }
        _ => {}
    }
}
