//! Filling in default values (apiextensions-apiserver v0.35 `pkg/apiserver/schema/defaulting`).
//! It never replaces a value that is there, save a `null` that the schema does not allow.

use serde_json::Value;

use crate::tree::{Kind, Schema};

impl Schema {
    /// Give missing fields their default values, then drop remaining nulls that the schema does not allow.
    pub fn default(&self, value: &mut Value) {
        self.fill(value);
        self.drop_nulls(value);
    }

    /// As [`Schema::default`], but other nulls stay: the result of an apply is not read again.
    pub fn fill(&self, value: &mut Value) {
        fill(self, value);
    }
}

fn fill(schema: &Schema, value: &mut Value) {
    match (schema.kind(), value) {
        (Kind::Object(object), Value::Object(map)) => {
            for (name, field) in &object.fields {
                let Some(default) = field.default_value() else { continue };
                let missing = match map.get(&**name) {
                    None => true,
                    Some(value) => value.is_null() && !field.node().nullable,
                };
                if missing {
                    map.insert(name.to_string(), default.clone());
                }
            }
            for (key, value) in map.iter_mut() {
                if let Some(field) = schema.field(key) {
                    fill_element(field, value);
                }
            }
        }
        (Kind::List(list), Value::Array(items)) => items.iter_mut().for_each(|item| fill_element(&list.items, item)),
        _ => {}
    }
}

fn fill_element(schema: &Schema, value: &mut Value) {
    if value.is_null()
        && !schema.node().nullable
        && let Some(default) = schema.default_value()
    {
        *value = default.clone();
    }
    fill(schema, value);
}
