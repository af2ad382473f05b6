//! YAML as Helm reads and writes it, byte for byte and word for word: sigs.k8s.io/yaml 1.6 on go.yaml.in/yaml/v2 2.4, and
//! go.yaml.in/yaml/v3 3.0 for `toYamlPretty`. Numbers that are read are floats, as Go's JSON makes them.
//!
//! Intended differences: collections are nested at most 500 deep (Go: 10,000), texts that aliases repeat and prefixes that tags
//! repeat have at most 64 MiB together each, and a document has at most 100 `%TAG` directives. Of keys that become the same
//! text (1 and "1") the later wins; in Go the winner is random.
//! An error that shows a map has its keys in the order of their texts, and shows at most 4 KiB.

mod decode;
mod json;
mod number;
mod read;
mod resolve;
mod shape;
mod syntax;
mod timestamp;
mod write;

use serde_json::{Map, Number, Value};

pub use base_go::{is_print, quoted};
use decode::{Decoder, Fault};
pub use json::to_json;
pub use number::{format_float, shortest_digits};
pub use shape::{Shape, is_field};
pub use write::{Moment, Text, WriteError, write, write_pretty};

/// Why a text cannot be read, in Go's words. It may quote the text: not fit for logs where secrets are read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GoYamlError {
    /// It is no YAML, or not of the kind that becomes JSON.
    #[error("error converting YAML to JSON: {0}")]
    Yaml(String),
    /// It is YAML of another form than requested.
    #[error(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type {wanted}"
    )]
    Form {
        /// JSON's name of the type that was found.
        found: &'static str,
        /// Go's name of the type.
        wanted: &'static str,
    },
}

/// Whether a key may be given twice in a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DuplicateKeys {
    /// The later wins: `yaml.Unmarshal`.
    Allowed,
    /// An error: `yaml.UnmarshalStrict`.
    Refused,
}

/// The first document of `text`: `yaml.Unmarshal` into an `interface{}`.
///
/// # Errors
/// Text that Go refuses.
pub fn read(text: &[u8], twice: DuplicateKeys) -> Result<Value, GoYamlError> {
    let mut value = read_exact(text, twice)?;
    as_floats(&mut value);
    Ok(value)
}

/// The same before it becomes JSON: whole numbers are apart from floats.
///
/// # Errors
/// As [`read()`].
pub fn read_exact(text: &[u8], twice: DuplicateKeys) -> Result<Value, GoYamlError> {
    let Some(tree) = read::one_document(text).map_err(of_problem)? else {
        return Ok(Value::Null);
    };
    Decoder::new(&tree, twice == DuplicateKeys::Refused)
        .document()
        .map_err(of_fault)
}

fn of_problem(problem: read::Problem) -> GoYamlError {
    GoYamlError::Yaml(format!("yaml: {}", problem.0))
}

fn of_fault(fault: Fault) -> GoYamlError {
    GoYamlError::Yaml(match fault {
        Fault::Yaml(problem) => format!("yaml: {problem}"),
        Fault::Later(problem) => problem,
    })
}

/// The requested part of the first document, with whole numbers and floats apart: `yaml.Unmarshal` into a struct, before its
/// fields are filled. A value of another form than its shape is returned as a whole.
///
/// # Errors
/// As [`read()`].
pub fn read_as(text: &[u8], shape: Shape) -> Result<Value, GoYamlError> {
    let Some(tree) = read::one_document(text).map_err(of_problem)? else {
        return Ok(Value::Null);
    };
    let document = |makes_all| Decoder::of_shape(&tree, shape, makes_all).document();
    // A fault may show a value that is not in the shape.
    document(false).or_else(|_| document(true).map_err(of_fault))
}

/// The first document as a map: `yaml.Unmarshal` into a `map[string]interface{}`, which null and no document leave empty.
///
/// # Errors
/// As [`read()`], and a document that is no map.
pub fn read_map(text: &[u8]) -> Result<Map<String, Value>, GoYamlError> {
    match read(text, DuplicateKeys::Allowed)? {
        Value::Null => Ok(Map::new()),
        Value::Object(map) => Ok(map),
        other => Err(form(&other, "map[string]interface {}")),
    }
}

/// The first document as a list: `yaml.Unmarshal` into a `[]interface{}`, which null and no document leave empty.
///
/// # Errors
/// As [`read()`], and a document that is no list.
pub fn read_array(text: &[u8]) -> Result<Vec<Value>, GoYamlError> {
    match read(text, DuplicateKeys::Allowed)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(array) => Ok(array),
        other => Err(form(&other, "[]interface {}")),
    }
}

fn form(value: &Value, wanted: &'static str) -> GoYamlError {
    GoYamlError::Form {
        found: json_kind(value),
        wanted,
    }
}

/// encoding/json's name of a value's type.
pub fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The type that Go reads a JSON value into.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// What a number or boolean of [`read_exact`] becomes where a field is a text: `convertToJSONableObject` of sigs.k8s.io/yaml.
pub fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(truth) => Some(truth.to_string()),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => Some(number::format_float_32(float)),
            None => Some(number.to_string()),
        },
        _ => None,
    }
}

/// Makes every number a float, as encoding/json does where no type is given.
pub fn as_floats(value: &mut Value) {
    match value {
        Value::Number(number) if !number.is_f64() => {
            let float = number.as_f64().and_then(Number::from_f64);
            if let Some(float) = float {
                *number = float;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(as_floats),
        Value::Object(items) => items.values_mut().for_each(as_floats),
        _ => {}
    }
}

/// How many bytes a character has that begins with `first`.
#[inline]
fn char_width(first: u8) -> usize {
    match first {
        0x00..0xC0 => 1,
        0xC0..0xE0 => 2,
        0xE0..0xF0 => 3,
        0xF0.. => 4,
    }
}

#[cfg(test)]
mod tests;
