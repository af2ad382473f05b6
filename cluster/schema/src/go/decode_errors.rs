//! Errors of Go's decoders for a value that does not fit the types of a built-in kind: of the decoder of JSON
//! (sigs.k8s.io/json `internal/golang/encoding/json/decode.go`), and of the converter of objects that were merged by a strategic
//! patch (apimachinery v0.35 `pkg/runtime/converter.go`). It never changes the value.

use base_yaml::go::json_kind;
use serde_json::{Map, Value};

use crate::go::texts;
use crate::tree::go_struct::{GoField, GoStruct};
use crate::tree::schema::{Kind, Scalar, Schema};

/// How errors name types with a decoder of their own that get a value of another type.
const READ_AS_TEXT: &str = "string";
const READ_AS_NUMBER: &str = "int32";

/// The way to a field, linked from leaf to root so that only an error allocates.
#[derive(Clone, Copy)]
enum At<'a> {
    Root,
    Field {
        above: &'a At<'a>,
        name: &'a str,
        /// The struct that declares it.
        of: &'a str,
    },
}

impl At<'_> {
    /// `spec.containers.image`: Go names no items.
    fn path(&self) -> String {
        match self {
            At::Root => String::new(),
            At::Field {
                above: At::Root, name, ..
            } => (*name).to_owned(),
            At::Field { above, name, .. } => format!("{}.{name}", above.path()),
        }
    }

    fn cannot(&self, found: &str, wanted: &str) -> String {
        match self {
            At::Root => format!("json: cannot unmarshal {found} into Go value of type {wanted}"),
            At::Field { of, .. } => {
                let path = self.path();
                format!("json: cannot unmarshal {found} into Go struct field {of}.{path} of type {wanted}")
            }
        }
    }
}

impl Schema {
    /// Why Go's JSON decoder refuses the object; it goes on after most errors, but returns the first.
    pub fn unreadable(&self, object: &Value) -> Option<String> {
        let mut reader = Reader { first: None };
        let name = self.node().go.as_ref().map_or("", |go| &go.name);
        match reader.value(self, &format!("v1.{name}"), object, &At::Root) {
            Err(why) => Some(why),
            Ok(()) => reader.first,
        }
    }

    /// Why an object that a strategic patch has made cannot be turned into Go's types.
    pub fn unconvertible(&self, object: &Value) -> Option<String> {
        convert(self, "", object).err()
    }
}

struct Reader {
    first: Option<String>,
}

impl Reader {
    fn note(&mut self, why: impl FnOnce() -> String) {
        if self.first.is_none() {
            self.first = Some(why());
        }
    }

    /// Errors: what ends decoding.
    fn value(&mut self, schema: &Schema, type_name: &str, value: &Value, at: &At<'_>) -> Result<(), String> {
        if value.is_null() {
            return Ok(());
        }
        let wanted = type_name.trim_start_matches('*');
        match (schema.kind(), value) {
            (Kind::Any, _) => {}
            (Kind::Object(object), Value::Object(map)) => match (&schema.node().go, &object.additional) {
                (Some(go), _) => self.fields(schema, go, map, at)?,
                (None, Some(entry)) => {
                    for value in map.values() {
                        self.value(entry, entry_type(wanted), value, at)?;
                    }
                }
                (None, None) => {}
            },
            (Kind::List(list), Value::Array(items)) => {
                for item in items {
                    self.value(&list.items, item_type(wanted), item, at)?;
                }
            }
            (Kind::Object(_) | Kind::List(_), other) => self.note(|| at.cannot(json_kind(other), wanted)),
            (Kind::Scalar(scalar), value) => self.scalar(*scalar, wanted, value, at)?,
        }
        Ok(())
    }

    fn fields(&mut self, schema: &Schema, go: &GoStruct, map: &Map<String, Value>, at: &At<'_>) -> Result<(), String> {
        for (name, value) in map {
            if let (Some(field), Some(inner)) = (go.field(name), schema.field(name)) {
                let at = At::Field {
                    above: at,
                    name,
                    of: &go.name,
                };
                self.value(inner, &field.type_name, value, &at)?;
            }
        }
        Ok(())
    }

    fn scalar(&mut self, scalar: Scalar, wanted: &str, value: &Value, at: &At<'_>) -> Result<(), String> {
        match (scalar, value) {
            (Scalar::String, Value::String(_))
            | (Scalar::Boolean, Value::Bool(_))
            | (Scalar::Number, Value::Number(_)) => {}
            (Scalar::Integer, Value::Number(_)) => {
                if !is_whole(wanted, value) {
                    self.note(|| at.cannot(&format!("number {value}"), wanted));
                }
            }
            (Scalar::Bytes, Value::String(text)) => {
                if let Some(why) = texts::decode_error(scalar, text) {
                    self.note(|| why);
                }
            }
            (Scalar::Bytes, Value::Array(items)) => {
                let odd = items.iter().find(|item| !is_whole("uint8", item) && !item.is_null());
                if let Some(odd) = odd {
                    let found = match odd {
                        Value::Number(number) => format!("number {number}"),
                        other => json_kind(other).to_owned(),
                    };
                    self.note(|| at.cannot(&found, "uint8"));
                }
            }
            (Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString, value) => {
                if let Some(fault) = own_fault(scalar, value) {
                    return Err(match fault {
                        Fault::Type(found, wanted) => at.cannot(&found, wanted),
                        Fault::Words(why) => why,
                    });
                }
            }
            (_, other) => self.note(|| at.cannot(json_kind(other), wanted)),
        }
        Ok(())
    }
}

/// The error of a type with a decoder of its own.
enum Fault {
    /// What was found, and what it wants.
    Type(String, &'static str),
    Words(String),
}

fn own_fault(scalar: Scalar, value: &Value) -> Option<Fault> {
    match (scalar, value) {
        (Scalar::Time | Scalar::MicroTime, Value::String(text)) => texts::decode_error(scalar, text).map(Fault::Words),
        (Scalar::Time | Scalar::MicroTime, other) => Some(Fault::Type(json_kind(other).to_owned(), READ_AS_TEXT)),
        (Scalar::Quantity, Value::String(text)) => texts::decode_error(scalar, text).map(Fault::Words),
        (Scalar::Quantity, other) => texts::decode_error(scalar, &other.to_string()).map(Fault::Words),
        (Scalar::IntOrString, Value::Number(number)) => {
            let fits = is_whole(READ_AS_NUMBER, value);
            (!fits).then(|| Fault::Type(format!("number {number}"), READ_AS_NUMBER))
        }
        (Scalar::IntOrString, Value::String(_)) => None,
        (Scalar::IntOrString, other) => Some(Fault::Type(json_kind(other).to_owned(), READ_AS_NUMBER)),
        _ => None,
    }
}

/// Whether a number fits the type.
fn is_whole(type_name: &str, value: &Value) -> bool {
    let Some(number) = value.as_i64() else { return false };
    match type_name {
        "int32" => i32::try_from(number).is_ok(),
        "uint8" => u8::try_from(number).is_ok(),
        _ => true,
    }
}

fn item_type(list: &str) -> &str {
    list.strip_prefix("[]").unwrap_or("")
}

fn entry_type(map: &str) -> &str {
    map.strip_prefix("map[")
        .and_then(|rest| rest.split_once(']'))
        .map_or("", |(_, entry)| entry)
}

/// As Go's reflection calls what JSON was read into.
fn reflected(value: &Value) -> &'static str {
    match value {
        Value::Null => "invalid",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "slice",
        Value::Object(_) => "map",
    }
}

fn convert(schema: &Schema, type_name: &str, value: &Value) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let wanted = type_name.trim_start_matches('*');
    match (schema.kind(), value) {
        (Kind::Any, _) => Ok(()),
        (Kind::Object(object), Value::Object(map)) => match (&schema.node().go, &object.additional) {
            (Some(go), _) => convert_fields(schema, go, map),
            (None, Some(entry)) => map
                .values()
                .try_for_each(|value| convert(entry, entry_type(wanted), value)),
            (None, None) => Ok(()),
        },
        (Kind::Object(_), other) if schema.node().go.is_some() => {
            Err(format!("cannot restore struct from: {}", reflected(other)))
        }
        (Kind::Object(_), other) => Err(format!("cannot restore map from {}", reflected(other))),
        (Kind::List(list), Value::Array(items)) => items
            .iter()
            .try_for_each(|item| convert(&list.items, item_type(wanted), item)),
        (Kind::List(_), other) => Err(format!("cannot restore slice from {}", reflected(other))),
        (Kind::Scalar(scalar), value) => convert_scalar(*scalar, wanted, value),
    }
}

/// In the order in which Go declares them.
fn convert_fields(schema: &Schema, go: &GoStruct, map: &Map<String, Value>) -> Result<(), String> {
    let faults = map.iter().filter_map(|(name, value)| {
        let (field, schema): (&GoField, &Schema) = (go.field(name)?, schema.field(name)?);
        let why = convert(schema, &field.type_name, value).err()?;
        Some((field.position, why))
    });
    faults.min().map_or(Ok(()), |(_, why)| Err(why))
}

fn convert_scalar(scalar: Scalar, wanted: &str, value: &Value) -> Result<(), String> {
    match (scalar, value) {
        (Scalar::String, Value::String(_)) | (Scalar::Boolean, Value::Bool(_)) | (Scalar::Number, Value::Number(_)) => {
            Ok(())
        }
        (Scalar::Integer, Value::Number(number)) if !number.is_f64() => Ok(()),
        (Scalar::Integer, Value::Number(_)) => Err(format!("cannot convert float64 to {wanted}")),
        (Scalar::String, Value::Number(number)) if !number.is_f64() => Err(format!("cannot convert int64 to {wanted}")),
        (Scalar::Bytes, Value::String(text)) => match texts::decode_error(scalar, text) {
            Some(why) => Err(format!("error decoding from json: {why}")),
            None => Ok(()),
        },
        (Scalar::Bytes, Value::Array(items)) => match items.iter().find(|item| !is_whole("uint8", item)) {
            Some(odd) => Err(format!("unrecognized type: {}", reflected(odd))),
            None => Ok(()),
        },
        (Scalar::Bytes, other) => Err(format!("cannot restore slice from {}", reflected(other))),
        (Scalar::Time | Scalar::MicroTime | Scalar::Quantity | Scalar::IntOrString, value) => {
            match own_fault(scalar, value) {
                None => Ok(()),
                Some(Fault::Type(found, wanted)) => Err(At::Root.cannot(&found, wanted)),
                Some(Fault::Words(why)) => Err(why),
            }
        }
        (Scalar::String, _) => Err("unrecognized type: string".to_owned()),
        (Scalar::Boolean, _) => Err("unrecognized type: bool".to_owned()),
        (Scalar::Number, _) => Err("unrecognized type: float64".to_owned()),
        (Scalar::Integer, _) => Err(format!("unrecognized type: {wanted}")),
    }
}
