//! What templates are executed on, read from JSON as `oracle/main.go` reads it.

use base_gotemplate::{IntKind, List, Map, Type, UintKind, Value};
use serde_json::Value as Json;

use crate::Outcome;

/// Reads JSON in which a number without a point is an `int`, and an object with one key that begins with `$` names a type.
pub(crate) fn read(text: &str) -> Outcome<Value> {
    let json = serde_json::from_str(text).map_err(|error| format!("data {text}: {error}"))?;
    typed(&json)
}

fn typed(json: &Json) -> Outcome<Value> {
    Ok(match json {
        Json::Null => Value::Nil,
        Json::Bool(value) => Value::Bool(*value),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::int(number),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::from(text.as_str()),
        Json::Array(items) => Value::list(items.iter().map(typed).collect::<Outcome<_>>()?),
        Json::Object(entries) => {
            if let Some((tag, of)) = entries.iter().next().filter(|_| entries.len() == 1)
                && tag.starts_with('$')
            {
                return tagged(tag, of);
            }
            let entries = entries.iter().map(|(key, value)| Ok((key.clone(), typed(value)?)));
            Value::map(entries.collect::<Outcome<Vec<_>>>()?)
        }
    })
}

fn text_of(json: &Json) -> String {
    json.as_str().map_or_else(|| json.to_string(), str::to_owned)
}

fn tagged(tag: &str, of: &Json) -> Outcome<Value> {
    let text = text_of(of);
    let signed = |kind| {
        text.parse()
            .map(|number| Value::Int(kind, number))
            .map_err(|_| wrong(tag, of))
    };
    let unsigned = |kind| {
        text.parse()
            .map(|number| Value::Uint(kind, number))
            .map_err(|_| wrong(tag, of))
    };
    let items = || of.as_array().cloned().ok_or_else(|| wrong(tag, of));
    match tag {
        "$int8" => signed(IntKind::Int8),
        "$int32" => signed(IntKind::Int32),
        "$int64" => signed(IntKind::Int64),
        "$uint" => unsigned(UintKind::Uint),
        "$uint8" => unsigned(UintKind::Uint8),
        "$uint64" => unsigned(UintKind::Uint64),
        "$float" => text.parse().map(Value::Float).map_err(|_| wrong(tag, of)),
        "$bytes" => Ok(Value::Bytes(text.into())),
        "$strings" => {
            let items = items()?.iter().map(|item| Value::from(text_of(item))).collect();
            Ok(Value::List(List::new(Type::Str, items)))
        }
        "$ints" => {
            let items = items()?.iter().filter_map(Json::as_i64).map(Value::int).collect();
            Ok(Value::List(List::new(Type::INT, items)))
        }
        "$texts" => {
            let entries = of.as_object().ok_or_else(|| wrong(tag, of))?;
            let entries = entries
                .iter()
                .map(|(key, value)| (key.clone(), Value::from(text_of(value))));
            Ok(Value::Map(Map::new(Type::Str, entries)))
        }
        _ => Err(format!("there is no tag {tag}")),
    }
}

fn wrong(tag: &str, of: &Json) -> String {
    format!("{of} is no {tag}")
}
