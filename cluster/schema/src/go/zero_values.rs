//! Zero values of Go: what it writes for fields that are not set, and what it takes for empty.

use serde_json::{Map, Value};

use crate::tree::go_struct::GoStruct;
use crate::tree::schema::{Kind, Scalar, Schema};

impl Schema {
    /// Whether it is the schema of a struct of Go.
    pub fn is_of_go(&self) -> bool {
        self.node().go.is_some()
    }

    /// Adds the fields that Go writes although they are empty; none for kinds that are no structs of Go.
    pub fn fill_zeros(&self, value: &mut Value) {
        fill_zeros(self, value, false);
    }
}

/// What Go has in an item or entry that is null.
pub(crate) fn zero_item(schema: &Schema) -> Option<Value> {
    match schema.kind() {
        Kind::Scalar(Scalar::Bytes) | Kind::Any => None,
        Kind::List(_) => None,
        Kind::Object(object) if object.additional.is_some() => None,
        _ => Some(zero(schema, "")),
    }
}

/// What Go writes for a field that is not set.
fn zero(schema: &Schema, type_name: &str) -> Value {
    if type_name.starts_with(['*', '[']) || type_name.starts_with("map[") {
        return Value::Null;
    }
    match schema.kind() {
        Kind::Object(object) if object.additional.is_none() => {
            let mut value = Value::Object(Map::new());
            schema.fill_zeros(&mut value);
            value
        }
        Kind::Scalar(Scalar::String) => "".into(),
        Kind::Scalar(Scalar::Integer | Scalar::Number | Scalar::IntOrString) => 0.into(),
        Kind::Scalar(Scalar::Boolean) => false.into(),
        Kind::Scalar(Scalar::Quantity) => "0".into(),
        _ => Value::Null,
    }
}

/// Writes zero values; `stored`: empty lists and maps become null, as they come back from the store.
pub(crate) fn fill_zeros(schema: &Schema, value: &mut Value, stored: bool) {
    match (schema.kind(), value) {
        (Kind::Object(_), Value::Object(map)) => {
            let go = schema.node().go.as_deref();
            for field in go.into_iter().flat_map(GoStruct::always) {
                let Some(inner) = schema.field(&field.name) else {
                    continue;
                };
                match map.get_mut(&*field.name) {
                    None => {
                        map.insert(field.name.to_string(), zero(inner, &field.type_name));
                    }
                    Some(value) if stored && field.is_collection() && is_empty(value) => *value = Value::Null,
                    Some(_) => {}
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = schema.field(key) {
                    fill_zeros(field, value, stored);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => {
            items.iter_mut().for_each(|item| fill_zeros(&list.items, item, stored));
        }
        // Missing bytes come back as empty bytes.
        (Kind::Scalar(Scalar::Bytes), value @ Value::Null) if stored => *value = "".into(),
        _ => {}
    }
}

/// Whether Go leaves the value out where it leaves out what is empty.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}
