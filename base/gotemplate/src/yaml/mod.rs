//! Values as YAML, as `sigs.k8s.io/yaml` 1.6 writes them: through JSON, by go-yaml 2.4, in block style without folded
//! lines. Nothing here reads YAML.

mod resolve;
mod scalar;

use crate::error::{Fault, LimitError};
use crate::print::{PrintError, plain_float};
use crate::syntax::{parse_float, parse_int};
use crate::text::Str;
use crate::value::Value;
use scalar::Scalar;

/// How deep values may nest: a dictionary can hold itself.
const DEPTH_MAX: usize = 200;
/// Spaces for each level.
const INDENT: usize = 2;
/// Longer keys stand after a question mark.
const SIMPLE_KEY_BYTES_MAX: usize = 128;
/// Floats from here on, and those below its counterpart, have an exponent in JSON.
const INTEGERS_BELOW: f64 = 1e21;

/// A value as YAML, with a line feed at its end.
///
/// # Errors
/// The value is nested too deep, too long, or cannot be told in JSON.
pub(crate) fn write(value: &Value, bytes_max: usize) -> Result<Vec<u8>, Fault> {
    let mut writer = Writer {
        out: Vec::new(),
        bytes_max,
    };
    match value {
        Value::List(_) | Value::Map(_) | Value::Bytes(_) | Value::Object(_) => {}
        _ => {
            writer.scalar(value, 0)?;
            writer.end_line();
            return Ok(writer.out);
        }
    }
    writer.block(value, 0, Place::Compact, 0)?;
    writer.end_line();
    Ok(writer.out)
}

/// Where a value stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// After a key and its colon
    AfterKey,
    /// After a dash, after the colon of a long key, or at the very beginning
    Compact,
}

struct Writer {
    out: Vec<u8>,
    bytes_max: usize,
}

impl Writer {
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn end_line(&mut self) {
        if self.out.last() != Some(&b'\n') {
            self.out.push(b'\n');
        }
    }

    /// A new line at that column, unless the first of something stands where we are.
    fn begin(&mut self, column: usize, is_first: bool, place: Place) {
        if is_first && place == Place::Compact {
            return;
        }
        self.end_line();
        self.out.resize(self.out.len() + column, b' ');
    }

    /// A value whose items, if it has any, stand at that column.
    fn block(&mut self, value: &Value, column: usize, place: Place, depth: usize) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::Limit(LimitError::Value(PrintError::TooDeep)));
        }
        if self.out.len() > self.bytes_max {
            let bytes_max = self.bytes_max;
            return Err(PrintError::TooLong { bytes_max }.into());
        }
        let space = if place == Place::AfterKey { " " } else { "" };
        match value {
            Value::List(list) if !list.is_empty() => {
                for (at, item) in list.items().iter().enumerate() {
                    self.begin(column, at == 0, place);
                    self.text("- ");
                    self.block(item, column + INDENT, Place::Compact, depth + 1)?;
                }
            }
            Value::Map(map) if !map.is_empty() => {
                for (at, (key, value)) in resolve::sort_by_key(map.entries()).into_iter().enumerate() {
                    self.begin(column, at == 0, place);
                    self.entry(&key, &value, column, depth)?;
                }
            }
            Value::List(list) if !list.is_nil() => self.text(&format!("{space}[]")),
            Value::Map(map) if !map.is_nil() => self.text(&format!("{space}{{}}")),
            Value::Object(object) => {
                let fields = object.fields().into_iter();
                let plain = object.underlying().unwrap_or_else(|| Value::map(fields));
                self.block(&plain, column, place, depth + 1)?;
            }
            value => {
                self.text(space);
                // Lines of a text stand one level below what the text belongs to.
                let parent = if place == Place::Compact && depth > 0 {
                    column.saturating_sub(INDENT)
                } else {
                    column
                };
                self.scalar(value, parent)?;
            }
        }
        Ok(())
    }

    fn entry(&mut self, key: &Str, value: &Value, column: usize, depth: usize) -> Result<(), Fault> {
        let key = scalar::through_json(key)?;
        let scalar = Scalar::new(&key);
        if !scalar.has_breaks && scalar.length() <= SIMPLE_KEY_BYTES_MAX {
            scalar.write_key(&mut self.out);
            self.text(":");
            let inner = match value {
                Value::Map(_) | Value::Object(_) => column + INDENT,
                _ => column,
            };
            return self.block(value, inner, Place::AfterKey, depth + 1);
        }
        self.text("? ");
        scalar.write(&mut self.out, column + INDENT);
        self.begin(column, false, Place::AfterKey);
        self.text(": ");
        self.block(value, column + INDENT, Place::Compact, depth + 1)
    }

    /// A value in one piece, of something that stands at that column.
    fn scalar(&mut self, value: &Value, column: usize) -> Result<(), Fault> {
        match value {
            Value::Bool(value) => self.text(if *value { "true" } else { "false" }),
            Value::Int(_, number) => self.text(&number.to_string()),
            Value::Uint(_, number) => self.text(&number.to_string()),
            Value::Float(number) => {
                let text = float(*number)?;
                self.text(&text);
            }
            Value::Complex(..) => return Err(Fault::from("json: unsupported type: complex128")),
            Value::Str(text) => {
                let text = scalar::through_json(text)?;
                Scalar::new(&text).write(&mut self.out, column + INDENT);
            }
            Value::Bytes(bytes) => {
                let text: Str = crate::sprig::base64(bytes).into();
                Scalar::new(&text).write(&mut self.out, column + INDENT);
            }
            _ => self.text("null"),
        }
        Ok(())
    }
}

/// A float as JSON has it, read as YAML: an integer if it looks like one.
fn float(number: f64) -> Result<String, Fault> {
    if !number.is_finite() {
        return Err(Fault::from("json: unsupported value"));
    }
    let sign = if number.is_sign_negative() { "-" } else { "" };
    if number.trunc() == number && number.abs() < INTEGERS_BELOW {
        let text = format!("{sign}{}", plain_float(number, 'f'));
        if let Some(int) = parse_int(&text) {
            return Ok(int.to_string());
        }
        if text.parse::<u64>().is_ok() {
            return Ok(text);
        }
    }
    Ok(format!("{sign}{}", plain_float(number, 'g')))
}

/// Whether a text without quotes would be read as a number.
fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    parse_int(&plain).is_some()
        || (!plain.starts_with(['+', '-']) && parse_int(&format!("+{plain}")).is_some())
        || resolve::is_unsigned(&plain)
        || resolve::looks_like_float(&plain) && parse_float(&plain).is_some()
}
