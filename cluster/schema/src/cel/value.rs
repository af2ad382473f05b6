//! JSON values as CEL sees them under a schema: times, durations and bytes typed, field names as identifiers.

use std::collections::HashMap;
use std::sync::Arc;

use base64::Engine as _;
use chrono::{DateTime, FixedOffset, TimeDelta};
use kube_cel::cel::objects::{Key, Map};
use kube_cel::cel::{Context, ResolveResult, Value as CelValue};
use serde_json::Value;

use crate::format;
use crate::tree::{Kind, Scalar, Schema};

/// The types that a rule may name, as values: their names.
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

/// Adds `type(x)` and the types that it answers with.
pub(super) fn register_types(context: &mut Context<'_>) {
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

pub(super) fn to_cel(schema: &Schema, value: &Value) -> CelValue {
    let node = schema.node();
    match value {
        Value::Null => CelValue::Null,
        Value::Bool(truth) => CelValue::Bool(*truth),
        Value::Number(number) => {
            let as_double = matches!(node.kind, Kind::Scalar(Scalar::Number));
            match number.as_i64().filter(|_| !as_double) {
                Some(whole) => CelValue::Int(whole),
                None => CelValue::Float(number.as_f64().unwrap_or(f64::NAN)),
            }
        }
        Value::String(text) => {
            let format = node.bounds.as_ref().and_then(|bounds| bounds.format.as_deref());
            text_to_cel(
                format.filter(|_| matches!(node.kind, Kind::Scalar(Scalar::String))),
                text,
            )
        }
        Value::Array(items) => {
            let any = Schema::any();
            let item_schema = schema.items().unwrap_or(&any);
            CelValue::List(Arc::new(items.iter().map(|item| to_cel(item_schema, item)).collect()))
        }
        Value::Object(map) => {
            let any = Schema::any();
            let is_map = matches!(&node.kind, Kind::Object(object) if object.additional.is_some());
            let mut entries: HashMap<Key, CelValue> = HashMap::with_capacity(map.len());
            for (name, value) in map {
                let value = to_cel(schema.field(name).unwrap_or(&any), value);
                let escaped = if is_map { name.clone() } else { escape(name) };
                // Behind a dot a word of CEL is a name.
                if !is_map && is_reserved(name) {
                    entries.insert(Key::String(Arc::new(name.clone())), value.clone());
                }
                entries.insert(Key::String(Arc::new(escaped)), value);
            }
            CelValue::Map(Map { map: Arc::new(entries) })
        }
    }
}

/// A value of which no schema is known, its fields under their own names.
pub(super) fn plain(value: &Value) -> CelValue {
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
        Some("duration") => format::go_duration_ns(text).map(|ns| CelValue::Duration(TimeDelta::nanoseconds(ns))),
        Some("byte") => base64::engine::general_purpose::STANDARD
            .decode(text)
            .ok()
            .map(|bytes| CelValue::Bytes(Arc::new(bytes))),
        _ => None,
    };
    typed.unwrap_or_else(|| CelValue::String(Arc::new(text.to_owned())))
}

/// Words of CEL that no field can be called by.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// How parts of names are spelled that no identifier can have (apiserver v0.35 `pkg/cel/escaping.go`).
const ESCAPES: [(&str, &str); 4] = [
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
];

/// A word of CEL.
pub(super) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// A field name as an identifier of CEL.
fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    let escaped = ESCAPES.into_iter();
    escaped.fold(name.to_owned(), |name, (part, word)| name.replace(part, word))
}

/// The field name that an identifier stands for; none where no name is spelled so.
pub(super) fn unescape(identifier: &str) -> Option<String> {
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if identifier.starts_with(|c: char| c.is_ascii_digit()) || !identifier.chars().all(word) {
        return None;
    }
    let reserved = identifier.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = reserved.filter(|word| is_reserved(word)) {
        return Some(word.to_owned());
    }
    let (mut name, mut rest) = (String::new(), identifier);
    while let Some(first) = rest.chars().next() {
        if let Some((part, word)) = ESCAPES.iter().find(|(_, word)| rest.starts_with(word)) {
            name.push_str(part);
            rest = &rest[word.len()..];
        } else {
            name.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    (escape(&name) == identifier).then_some(name)
}
