//! The same questions put to our crates.

use base_yaml::go::{self, Text, Twice, WriteError};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::ser::{SerializeMap as _, Serializer};
use serde_json::{Map, Value};

use crate::Outcome;
use crate::case::{Answer, Case};

/// What ours makes of a case.
///
/// # Errors
/// The case is none.
pub fn answer(case: &Case) -> Outcome<Answer> {
    let text = bytes_of(case)?;
    Ok(match case.action.as_str() {
        "read" => answer_of(go::read(&text, Twice::Allowed).map(|value| go::to_json(&value))),
        "readStrict" => answer_of(go::read(&text, Twice::Refused).map(|value| go::to_json(&value))),
        "readMap" => answer_of(go::read_map(&text).map(|map| go::to_json(&Value::Object(map)))),
        "readArray" => answer_of(go::read_array(&text).map(|array| go::to_json(&Value::Array(array)))),
        "write" => written(go::write(&Typed(&case.value))),
        "pretty" => written(go::write_pretty(&Typed(&case.value))),
        other => return Err(format!("there is no action {other:?}")),
    })
}

pub(crate) fn bytes_of(case: &Case) -> Outcome<Vec<u8>> {
    match (&case.text, &case.bytes) {
        (Some(text), _) => Ok(text.clone().into_bytes()),
        (None, Some(bytes)) => STANDARD.decode(bytes).map_err(|error| format!("{bytes}: {error}")),
        (None, None) => Ok(Vec::new()),
    }
}

fn answer_of<E: ToString>(made: Result<String, E>) -> Answer {
    match made {
        Ok(text) => Answer::Output(text),
        Err(error) => Answer::Error(error.to_string()),
    }
}

fn written(made: Result<String, WriteError>) -> Answer {
    answer_of(made.map(|text| text.strip_suffix('\n').unwrap_or(&text).to_owned()))
}

/// A value whose tags say what JSON has no way to write: see `oracle/yaml.go`.
struct Typed<'v>(&'v Value);

impl Serialize for Typed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Typed)),
            Value::Object(items) => object(items, serializer),
            value => value.serialize(serializer),
        }
    }
}

fn object<S: Serializer>(items: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    if let Some(Value::String(text)) = items.get("$float") {
        let number = text.parse().map_err(serde::ser::Error::custom)?;
        return serializer.serialize_f64(number);
    }
    if let Some(Value::String(text)) = items.get("$bytes") {
        let bytes = STANDARD.decode(text).map_err(serde::ser::Error::custom)?;
        return Text(&bytes).serialize(serializer);
    }
    let mut map = serializer.serialize_map(Some(items.len()))?;
    for (key, value) in items {
        map.serialize_entry(key, &Typed(value))?;
    }
    map.end()
}
