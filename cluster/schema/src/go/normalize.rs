//! Objects as Go writes them once it has decoded them.

use base64::Engine as _;
use serde_json::{Map, Value};

use crate::go::texts;
use crate::go::zero_values::{fill_zeros, is_empty, zero_item};
use crate::tree::go_struct::{GoStruct, Written};
use crate::tree::schema::{Kind, Scalar, Schema};

impl Schema {
    /// Normalizes an object as decoding into Go's types does: drops `null` where the schema does not allow it and what Go leaves
    /// out when it is empty, and writes quantities (`cpu: 4`, `1024Mi`), times and bytes in their normal form.
    pub fn normalize(&self, value: &mut Value) {
        match (self.kind(), value) {
            (Kind::Object(object), Value::Object(map)) => {
                match (&self.node().go, &object.additional) {
                    (Some(go), _) => drop_unwritten(go, map),
                    (None, Some(entry)) if entry.node().of_go => map.values_mut().for_each(|value| zero(entry, value)),
                    (None, _) => map.retain(|key, value| {
                        !(value.is_null() && self.field(key).is_some_and(|field| !field.node().nullable))
                    }),
                }
                for (key, value) in map.iter_mut() {
                    if let Some(field) = self.field(key) {
                        field.normalize(value);
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => items.iter_mut().for_each(|item| {
                if list.items.node().of_go {
                    zero(&list.items, item);
                }
                list.items.normalize(item);
            }),
            (Kind::Scalar(Scalar::Quantity), value @ Value::Number(_)) => {
                let text = value.to_string();
                *value = Value::String(texts::rewritten(Scalar::Quantity, &text).unwrap_or(text));
            }
            (Kind::Scalar(Scalar::Bytes), value @ Value::Array(_)) => {
                if let Some(text) = value.as_array().and_then(|items| bytes_of(items)) {
                    *value = Value::String(text);
                }
            }
            (Kind::Scalar(scalar), Value::String(text)) => {
                if let Some(written) = texts::rewritten(*scalar, text) {
                    *text = written;
                }
            }
            _ => {}
        }
    }

    /// Makes an object what comes back when it is stored: the store does not distinguish an empty list or map from a missing
    /// one.
    pub fn normalize_as_stored(&self, value: &mut Value) {
        self.normalize(value);
        fill_zeros(self, value, true);
    }
}

/// An entry that is null becomes an empty one.
fn zero(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && let Some(zero) = zero_item(schema)
    {
        *value = zero;
    }
}

/// Drops the fields that Go does not write, and makes structs that are always there.
fn drop_unwritten(go: &GoStruct, fields: &mut Map<String, Value>) {
    for field in go.structs() {
        let value = fields.entry(&*field.name).or_insert(Value::Null);
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
    }
    fields.retain(|name, value| match go.field(name).map(|field| field.written) {
        None => true,
        Some(Written::Always | Written::UnlessNull) => !value.is_null(),
        Some(Written::UnlessEmpty) => !is_empty(value),
    });
}

/// Bytes may be sent as a list of numbers.
fn bytes_of(items: &[Value]) -> Option<String> {
    let bytes: Option<Vec<u8>> = items
        .iter()
        .map(|item| item.as_u64().and_then(|byte| byte.try_into().ok()))
        .collect();
    Some(base64::engine::general_purpose::STANDARD.encode(bytes?))
}
