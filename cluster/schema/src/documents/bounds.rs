//! Reads what a schema document declares beside types: bounds on values, and how lists are merged. Shared by the
//! readers of CRDs and of Rust types; errors are the caller's to report or to drop.

use cluster_fields::{FieldError, FieldPath, Patterns};
use serde_json::{Map, Value};

use crate::tree::schema::{Bounds, ListType, MapType, Schema};

/// How maps and structs are merged: granular, unless the document says `atomic`.
pub(crate) fn map_type(json: &Map<String, Value>) -> MapType {
    match json.get("x-kubernetes-map-type").and_then(Value::as_str) {
        Some("atomic") => MapType::Atomic,
        _ => MapType::Granular,
    }
}

/// The list type, with its keys checked against the items.
pub(crate) fn list_type(
    json: &Map<String, Value>,
    items: &Schema,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) -> ListType {
    let at = path.field("x-kubernetes-list-type");
    match json.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None | Some("atomic") => ListType::Atomic,
        Some("set") => ListType::Set,
        Some("map") => {
            let names = json.get("x-kubernetes-list-map-keys").and_then(Value::as_array);
            let keys: Vec<Box<str>> = names
                .into_iter()
                .flatten()
                .filter_map(Value::as_str)
                .map(Into::into)
                .collect();
            let at = path.field("x-kubernetes-list-map-keys");
            if keys.is_empty() {
                errors.push(FieldError::required(
                    at,
                    "must not be empty if x-kubernetes-list-type is map",
                ));
            }
            for (index, key) in keys.iter().enumerate() {
                if items.field(key).is_none() {
                    errors.push(FieldError::invalid(
                        at.index(index),
                        &**key,
                        "entries must all be names of item properties",
                    ));
                }
            }
            ListType::Map { keys }
        }
        Some(other) => {
            errors.push(FieldError::not_supported(at, other, &["atomic", "map", "set"]));
            ListType::Atomic
        }
    }
}

/// Bounds that stand in the node itself.
pub(crate) fn read_bounds(
    json: &Map<String, Value>,
    path: &FieldPath<'_>,
    patterns: &mut Patterns,
    errors: &mut Vec<FieldError>,
) -> Bounds {
    let whole = |name: &str| json.get(name).and_then(Value::as_u64);
    let number = |name: &str| json.get(name).and_then(Value::as_f64);
    let flag = |name: &str| json.get(name).and_then(Value::as_bool) == Some(true);
    let mut bounds = Bounds {
        format: json.get("format").and_then(Value::as_str).map(Into::into),
        one_of_values: json.get("enum").and_then(Value::as_array).cloned().unwrap_or_default(),
        minimum: number("minimum"),
        exclusive_minimum: flag("exclusiveMinimum"),
        maximum: number("maximum"),
        exclusive_maximum: flag("exclusiveMaximum"),
        multiple_of: number("multipleOf"),
        length_min: whole("minLength"),
        length_max: whole("maxLength"),
        items_min: whole("minItems"),
        items_max: whole("maxItems"),
        items_unique: flag("uniqueItems"),
        properties_min: whole("minProperties"),
        properties_max: whole("maxProperties"),
        ..Bounds::default()
    };
    if let Some(source) = json.get("pattern").and_then(Value::as_str) {
        match patterns.compile(source) {
            Ok(pattern) => bounds.pattern = Some(pattern),
            Err(why) => {
                let words = format!("must be a valid regular expression, but isn't: {why}");
                errors.push(FieldError::invalid(path.field("pattern"), source, words));
            }
        }
    }
    bounds
}

/// How many values there can be below one, if there is a bound (apiextensions-apiserver v0.35
/// `pkg/apis/apiextensions/validation/cel_validation.go`).
pub(crate) fn elements_max(json: &Map<String, Value>, type_name: &str) -> Option<u64> {
    let bound = |name: &str| {
        let number = json.get(name).and_then(Value::as_i64)?;
        Some(u64::try_from(number).unwrap_or(0))
    };
    match type_name {
        "object" if json.get("additionalProperties").is_some_and(|it| !it.is_null()) => bound("maxProperties"),
        "array" => bound("maxItems"),
        _ => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_keyword_makes_bounds_that_are_not_empty() {
        let read = |json: Value| {
            let json = json.as_object().cloned().unwrap_or_default();
            read_bounds(&json, &FieldPath::Root, &mut Patterns::default(), &mut Vec::new())
        };
        for (keyword, value) in [
            ("format", json!("date")),
            ("enum", json!(["a"])),
            ("pattern", json!("^a")),
            ("minimum", json!(0)),
            ("exclusiveMinimum", json!(true)),
            ("maximum", json!(0)),
            ("exclusiveMaximum", json!(true)),
            ("multipleOf", json!(2)),
            ("minLength", json!(0)),
            ("maxLength", json!(0)),
            ("minItems", json!(0)),
            ("maxItems", json!(0)),
            ("uniqueItems", json!(true)),
            ("minProperties", json!(0)),
            ("maxProperties", json!(0)),
        ] {
            assert!(!read(json!({ keyword: value })).is_empty(), "{keyword}");
        }
        assert!(read(json!({"enum": [], "uniqueItems": false})).is_empty());
        let some = || vec![Schema::any()];
        for bounds in [
            Bounds {
                all_of: some(),
                ..Bounds::default()
            },
            Bounds {
                any_of: some(),
                ..Bounds::default()
            },
            Bounds {
                one_of: some(),
                ..Bounds::default()
            },
            Bounds {
                not: Some(Schema::any()),
                ..Bounds::default()
            },
        ] {
            assert!(!bounds.is_empty(), "{bounds:?}");
        }
    }
}
