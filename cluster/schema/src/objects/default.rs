//! Filling in default values (apiextensions-apiserver v0.35 `pkg/apiserver/schema/defaulting`), up to a bound: defaults of
//! items within defaults of items multiply. It never replaces a value that is there, save a `null` that the schema does
//! not allow.

use serde_json::Value;

use crate::tree::schema::{Kind, Schema};

/// What default values may add to one object, in bytes of JSON: as much as a request may have. (Kubernetes has no bound of
/// its own here and fails when etcd takes no more than half of that.)
pub const DEFAULTS_BYTES_MAX: usize = 3 * 1024 * 1024;

/// An object whose default values have more than [`DEFAULTS_BYTES_MAX`]; it was left with a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("default values would add more than {DEFAULTS_BYTES_MAX} bytes")]
pub struct TooManyDefaults;

impl Schema {
    /// Give missing fields their default values, then drop remaining nulls that the schema does not allow.
    ///
    /// # Errors
    /// There are too many.
    pub fn default(&self, value: &mut Value) -> Result<(), TooManyDefaults> {
        let outcome = self.fill(value);
        self.normalize(value);
        outcome
    }

    /// As [`Schema::default`], but other nulls stay: the result of an apply is not read again.
    ///
    /// # Errors
    /// There are too many.
    pub fn fill(&self, value: &mut Value) -> Result<(), TooManyDefaults> {
        self.fill_within(&mut { DEFAULTS_BYTES_MAX }, value)
    }

    /// As [`Schema::fill`] with another bound, from which it takes what it adds.
    pub(crate) fn fill_within(&self, left: &mut usize, value: &mut Value) -> Result<(), TooManyDefaults> {
        Filling(left).below(self, value)
    }
}

/// How many bytes may still be added.
struct Filling<'a>(&'a mut usize);

impl Filling<'_> {
    fn below(&mut self, schema: &Schema, value: &mut Value) -> Result<(), TooManyDefaults> {
        match (schema.kind(), value) {
            (Kind::Object(object), Value::Object(map)) => {
                for (name, field) in &object.fields {
                    let Some(default) = field.default_value() else { continue };
                    let missing = match map.get(&**name) {
                        None => true,
                        Some(value) => value.is_null() && !field.node().nullable,
                    };
                    if missing {
                        let default = self.copy(default)?;
                        map.insert(name.to_string(), default);
                    }
                }
                for (key, value) in map.iter_mut() {
                    if let Some(field) = schema.field(key) {
                        self.element(field, value)?;
                    }
                }
                Ok(())
            }
            (Kind::List(list), Value::Array(items)) => {
                items.iter_mut().try_for_each(|item| self.element(&list.items, item))
            }
            _ => Ok(()),
        }
    }

    fn element(&mut self, schema: &Schema, value: &mut Value) -> Result<(), TooManyDefaults> {
        if value.is_null()
            && !schema.node().nullable
            && let Some(default) = schema.default_value()
        {
            *value = self.copy(default)?;
        }
        self.below(schema, value)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, TooManyDefaults> {
        *self.0 = self.0.checked_sub(bytes(default)).ok_or(TooManyDefaults)?;
        Ok(default.clone())
    }
}

/// About as many bytes as the value has as JSON.
fn bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 4,
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(|item| 1 + bytes(item)).sum::<usize>(),
        Value::Object(fields) => {
            2 + fields
                .iter()
                .map(|(key, value)| 4 + key.len() + bytes(value))
                .sum::<usize>()
        }
    }
}
