//! JSON values as CEL sees them under a schema: times, durations and bytes typed, field names as identifiers.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use chrono::{DateTime, FixedOffset, TimeDelta};
use cluster_fields::formats;
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ResolveResult, Value as CelValue};
use serde_json::Value;

use crate::run::value_schema::ValueSchema;
use crate::syntax::reserved::is_reserved;
use crate::typing::escapes::escape;

/// The types that a rule may name as values, by their names.
const TYPES: [&str; 10] = [
    "bool",
    "bytes",
    "double",
    "int",
    "list",
    "map",
    "null_type",
    "string",
    "type",
    "uint",
];

/// Adds `type(x)` and the types that it returns.
pub(crate) fn register_types(context: &mut Context<'_>) {
    for name in TYPES {
        context.add_variable_from_value(name, CelValue::String(Arc::new(name.to_owned())));
    }
    context.add_function("type", |value: CelValue| -> ResolveResult {
        let name = match &value {
            CelValue::Bool(_) => "bool",
            CelValue::Bytes(_) => "bytes",
            CelValue::Float(_) => "double",
            CelValue::Int(_) => "int",
            CelValue::List(_) => "list",
            CelValue::Map(_) => "map",
            CelValue::Null => "null_type",
            CelValue::String(_) => "string",
            CelValue::UInt(_) => "uint",
            CelValue::Duration(_) => "google.protobuf.Duration",
            CelValue::Timestamp(_) => "google.protobuf.Timestamp",
            CelValue::Opaque(opaque) => opaque.runtime_type_name(),
            CelValue::Function(..) => "type",
        };
        Ok(CelValue::String(Arc::new(name.to_owned())))
    });
}

/// A value with the types of its schema; none: nothing is known about it.
pub(crate) fn to_cel(schema: Option<&dyn ValueSchema>, value: &Value) -> CelValue {
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(truth) => CelValue::Bool(*truth),
        Value::Number(number) => {
            let as_double = schema.is_some_and(|schema| schema.type_name() == "number");
            match number.as_i64().filter(|_| !as_double) {
                Some(whole) => CelValue::Int(whole),
                None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => text_to_cel(schema.and_then(ValueSchema::text_format), text),
        Value::Array(items) => {
            let of_item = schema.and_then(ValueSchema::items);
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(of_item, item)).collect()))
        }
        Value::Object(map) => {
            let is_map = schema.is_some_and(ValueSchema::is_map);
            let mut entries: HashMap<Key, CelValue> = HashMap::with_capacity(map.len());
            for (name, value) in map {
                let value = to_cel(schema.and_then(|schema| schema.field(name)), value);
                let escaped = if is_map { name.clone() } else { escape(name) };
                // After a dot a reserved word is a name.
                if !is_map && is_reserved(name) {
                    entries.insert(Key::String(Arc::new(name.clone())), value.clone());
                }
                entries.insert(Key::String(Arc::new(escaped)), value);
            }
            CelValue::Map(Map { map: Arc::new(entries) })
        }
    }
}

/// A value without a schema, its fields under their own names.
pub(crate) fn plain(value: &Value) -> CelValue {
    match value {
        Value::Array(items) => CelValue::List(Arc::new(items.iter().map(plain).collect())),
        Value::Object(fields) => {
            let entries: HashMap<Key, CelValue> = fields
                .iter()
                .map(|(name, value)| (Key::String(Arc::new(name.clone())), plain(value)))
                .collect();
            CelValue::Map(Map { map: Arc::new(entries) })
        }
        Value::Null => CelValue::Null,
        Value::Bool(truth) => CelValue::Bool(*truth),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => CelValue::Int(whole),
            None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => CelValue::String(Arc::new(text.clone())),
    }
}

fn text_to_cel(format: Option<&str>, text: &str) -> CelValue {
    let typed = match format {
        Some("date-time") => DateTime::parse_from_rfc3339(text).ok().map(CelValue::Timestamp),
        Some("date") => DateTime::<FixedOffset>::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .ok()
            .map(CelValue::Timestamp),
        Some("duration") => formats::go_duration_ns(text).map(|ns| CelValue::Duration(TimeDelta::nanoseconds(ns))),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(|bytes| CelValue::Bytes(Arc::new(bytes))),
        _ => None,
    };
    typed.unwrap_or_else(|| CelValue::String(Arc::new(text.to_owned())))
}
