//! What one node of a CustomResourceDefinition's schema must fulfil beside being structural
//! (apiextensions-apiserver v0.35 `pkg/apis/apiextensions/validation/validation.go`). It looks at no node below.

use std::collections::HashSet;

use cluster_fields::{ERRORS_MAX, FieldError, FieldPath};
use serde_json::{Map, Value};

use crate::documents::field_path::find_field;

/// How many keys of a list an error shows; usual lists have two or three.
const KEYS_SHOWN_MAX: usize = 32;
/// Parts of JSON Schema that are not to be used, in whose presence no tree is made.
pub(crate) const UNSUPPORTED: [&str; 6] = [
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "id",
    "patternProperties",
];
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] = [
    "FieldValueDuplicate",
    "FieldValueForbidden",
    "FieldValueInvalid",
    "FieldValueRequired",
];

fn text<'j>(json: &'j Map<String, Value>, name: &str) -> Option<&'j str> {
    json.get(name).and_then(Value::as_str)
}

fn is(json: &Value, name: &str) -> bool {
    json.get(name).and_then(Value::as_bool) == Some(true)
}

/// Everything that is wrong with the node itself.
pub(crate) fn validate(json: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let kind = text(json, "type").unwrap_or_default();
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(path.field("type"), kind, &TYPES));
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(path.field("type"), why));
    }
    for name in UNSUPPORTED {
        if json.get(name).is_some_and(|value| !value.is_null()) {
            errors.push(FieldError::forbidden(
                path.field(name),
                format!("{name} is not supported"),
            ));
        }
    }
    if matches!(json.get("items"), Some(Value::Array(_))) {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(path.field("items"), why));
    }
    if json.get("uniqueItems") == Some(&Value::Bool(true)) {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(path.field("uniqueItems"), why));
    }
    let has_fields = json
        .get("properties")
        .and_then(Value::as_object)
        .is_some_and(|fields| !fields.is_empty());
    if has_fields
        && matches!(
            json.get("additionalProperties"),
            Some(Value::Object(_) | Value::Bool(false))
        )
    {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(path.field("additionalProperties"), why));
    }
    if json.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        let at = path.field("x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(at, false, "must be true or undefined"));
    }
    validate_map(json, kind, path, errors);
    validate_list(json, kind, path, errors);
    validate_rules(json, path, errors);
}

fn wrong_type(kind: &str, wanted: &str, extension: &str, path: &FieldPath<'_>) -> FieldError {
    let why = format!("must be {wanted} if {extension} is specified");
    match kind {
        "" => FieldError::required(path.field("type"), why),
        kind => FieldError::invalid(path.field("type"), kind, why),
    }
}

fn validate_map(json: &Map<String, Value>, kind: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    const EXTENSION: &str = "x-kubernetes-map-type";
    let Some(map_type) = text(json, EXTENSION) else { return };
    if kind != "object" {
        errors.push(wrong_type(kind, "object", EXTENSION, path));
    }
    if !matches!(map_type, "atomic" | "granular") {
        let allowed = ["atomic", "granular"];
        errors.push(FieldError::not_supported(path.field(EXTENSION), map_type, &allowed));
    }
}

fn validate_list(json: &Map<String, Value>, kind: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    const EXTENSION: &str = "x-kubernetes-list-type";
    const KEYS: &str = "x-kubernetes-list-map-keys";
    let (list_type, items) = (
        text(json, EXTENSION),
        json.get("items").filter(|items| items.is_object()),
    );
    let keys: Vec<&str> = json
        .get(KEYS)
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    if !keys.is_empty() && list_type != Some("map") {
        let why = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match list_type {
            None => FieldError::required(path.field(EXTENSION), why),
            Some(other) => FieldError::invalid(path.field(EXTENSION), other, why),
        });
    }
    let Some(list_type) = list_type else { return };
    if kind != "array" {
        errors.push(wrong_type(kind, "array", EXTENSION, path));
    }
    if !matches!(list_type, "atomic" | "map" | "set") {
        let allowed = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(path.field(EXTENSION), list_type, &allowed));
    }
    let (at, shape) = (
        path.field("items"),
        items.and_then(|items| items["type"].as_str()).unwrap_or_default(),
    );
    if matches!(list_type, "map" | "set") && items.is_some_and(|items| is(items, "nullable")) {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(at.field("nullable"), why));
    }
    match (list_type, items) {
        ("set", Some(items)) if kind == "array" => {
            let inner = if shape == "array" {
                EXTENSION
            } else {
                "x-kubernetes-map-type"
            };
            let atomic = match (shape, items[inner].as_str()) {
                ("array", found) => found.is_none_or(|found| found == "atomic"),
                ("object", found) => found == Some("atomic"),
                _ => true,
            };
            if !atomic {
                let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
                errors.push(FieldError::invalid(at.field(inner), items[EXTENSION].clone(), why));
            }
        }
        ("map", _) if keys.is_empty() => {
            let why = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(path.field(KEYS), why));
        }
        _ => {}
    }
    match items {
        Some(items) if list_type == "map" => validate_keys(&keys, items, shape, &path.field(KEYS), &at, errors),
        None if list_type == "map" => {
            let why = "must have a schema if x-kubernetes-list-type is map";
            errors.push(FieldError::required(at, why));
        }
        _ => {}
    }
}

/// `at`: where the keys stand; `below`: where the items' schema does.
fn validate_keys(
    keys: &[&str],
    items: &Value,
    shape: &str,
    at: &FieldPath<'_>,
    below: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    if shape != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(below.field("type"), shape, why));
        return;
    }
    let names = items["required"].as_array().into_iter().flatten();
    let names: HashSet<&str> = names.filter_map(Value::as_str).collect();
    let required = |key: &str| names.contains(key);
    let properties = below.field("properties");
    let shown: Vec<&str> = keys.iter().copied().take(KEYS_SHOWN_MAX).collect();
    let mut seen = HashSet::new();
    for key in keys {
        if errors.len() >= ERRORS_MAX {
            return;
        }
        let field = properties.key(key);
        match items["properties"].get(*key) {
            None => errors.push(FieldError::invalid(
                at,
                shown.clone(),
                "entries must all be names of item properties",
            )),
            Some(schema) => {
                if matches!(schema["type"].as_str(), Some("array" | "object")) {
                    let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                    errors.push(FieldError::invalid(field.field("type"), shape, why));
                }
                if !required(key) && schema.get("default").is_none_or(Value::is_null) {
                    let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
                    errors.push(FieldError::required(field.field("default"), why));
                }
                if is(schema, "nullable") {
                    let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
                    errors.push(FieldError::forbidden(field.field("nullable"), why));
                }
            }
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(
                at,
                shown.clone(),
                "must not contain duplicate entries",
            ));
        }
    }
}

fn validate_rules(json: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("x-kubernetes-validations");
    let rules = json.get("x-kubernetes-validations").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let at = at.index(index);
        let part = |name: &str| rule[name].as_str().filter(|text| !text.is_empty());
        let broken = |text: &str| text.trim().contains(['\n', '\r']);
        let source = part("rule").map(str::trim).unwrap_or_default();
        match part("message") {
            _ if source.is_empty() => errors.push(FieldError::required(at.field("rule"), "rule is not specified")),
            Some(message) if message.trim().is_empty() => {
                errors.push(FieldError::invalid(
                    at.field("message"),
                    message,
                    "must be non-empty if specified",
                ));
            }
            Some(message) if broken(message) => {
                errors.push(FieldError::invalid(
                    at.field("message"),
                    message,
                    "must not contain line breaks",
                ));
            }
            None if broken(source) => {
                let why = "message must be specified if rule contains line breaks";
                errors.push(FieldError::required(at.field("message"), why));
            }
            _ => {}
        }
        if part("messageExpression").is_some_and(|text| text.trim().is_empty()) {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(at.field("messageExpression"), why));
        }
        if let Some(reason) = part("reason").filter(|reason| !REASONS.contains(reason)) {
            errors.push(FieldError::not_supported(at.field("reason"), reason, &REASONS));
        }
        let Some(field) = part("fieldPath") else { continue };
        let at = at.field("fieldPath");
        if field.trim().is_empty() {
            errors.push(FieldError::invalid(at, field, "must be non-empty if specified"));
        }
        if field.contains(['\n', '\r']) {
            errors.push(FieldError::invalid(at, field, "must not contain line breaks"));
        }
        if find_field(json, field, true).is_err() {
            errors.push(FieldError::invalid(at, field, "must be a valid path"));
        }
    }
}
