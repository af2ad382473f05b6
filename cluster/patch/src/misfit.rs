//! Whether an applied configuration fits its type: what structured-merge-diff v6 `typed/validate.go` checks before anything is
//! merged. It never looks at bounds or at what is missing.

use std::collections::BTreeSet;

use base_yaml::go::go_type;
use cluster_schema::{Kind, ListType, Scalar, Schema};
use serde_json::Value;

use crate::element::Element;
use crate::error::go_text;
use crate::typed::{field, identity};

/// All that does not fit, as one text; none where all does.
pub(crate) fn misfits(schema: &Schema, value: &Value) -> Option<String> {
    let mut found = Vec::new();
    walk(Some(schema), value, &mut String::new(), &mut found);
    match found.len() {
        0 => None,
        1 => found.pop(),
        _ => Some(format!("errors:\n  {}", found.join("\n  "))),
    }
}

fn add_misfit(path: &str, why: String, found: &mut Vec<String>) {
    found.push(match path {
        "" => why,
        path => format!("{path}: {why}"),
    });
}

fn walk(schema: Option<&Schema>, value: &Value, path: &mut String, found: &mut Vec<String>) {
    let Some(schema) = schema.filter(|_| !value.is_null()) else {
        return;
    };
    let length = path.len();
    match (schema.kind(), value) {
        (Kind::Any, _) => {}
        (Kind::Object(object), Value::Object(fields)) => {
            let open = schema.is_opaque() || object.additional.is_some() || schema.node().preserve_unknown;
            for (name, child) in fields {
                path.push('.');
                path.push_str(name);
                let known = field(Some(schema), name);
                let undeclared = known.is_none() && !open;
                match undeclared {
                    true => add_misfit(path, "field not declared in schema".to_owned(), found),
                    false => walk(known, child, path, found),
                }
                path.truncate(length);
                // At most one undeclared field is reported per object.
                if undeclared {
                    break;
                }
            }
        }
        (Kind::Object(_), other) => add_misfit(path, format!("expected map, got &{{{}}}", go_text(other)), found),
        (Kind::List(_), Value::Array(items)) => walk_items(schema, items, path, found),
        (Kind::List(_), other) => add_misfit(path, format!("expected list, got &{{{}}}", go_text(other)), found),
        (Kind::Scalar(scalar), value) => {
            if let Some(why) = misfit(schema, *scalar, value) {
                add_misfit(path, why, found);
            }
        }
    }
}

fn walk_items(schema: &Schema, items: &[Value], path: &mut String, found: &mut Vec<String>) {
    let length = path.len();
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let shown = match schema.list_type() {
            None | Some(ListType::Atomic) => format!("[{index}]"),
            Some(list_type) => match element(schema, list_type, item) {
                Err(why) => return add_misfit(path, format!("element {index}: {why}"), found),
                Ok(element) => {
                    let shown = element.to_string();
                    if !seen.insert(element) {
                        add_misfit(path, format!("duplicate entries for key {shown}"), found);
                    }
                    shown
                }
            },
        };
        path.push_str(&shown);
        walk(schema.items(), item, path, found);
        path.truncate(length);
    }
}

/// What distinguishes an item from the others.
fn element(schema: &Schema, list_type: &ListType, item: &Value) -> Result<Element, String> {
    let why = match (list_type, item) {
        (ListType::Map { .. }, Value::Null) => "associative list with keys may not have a null element",
        (ListType::Map { keys }, Value::Object(_)) => {
            let all: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
            return identity(schema, item).ok_or_else(|| {
                format!(
                    "associative list with keys has an element that omits all key fields [{}] (and doesn't have default \
                     values for any key fields)",
                    all.join(" ")
                )
            });
        }
        (ListType::Map { .. }, _) => "associative list with keys may not have non-map elements",
        (_, Value::Null) => "associative list without keys has an element that's an explicit null",
        (_, Value::Object(_)) => "associative list without keys has an element that's a map type",
        (_, Value::Array(_)) => "not supported: associative list with lists as elements",
        _ => return identity(schema, item).ok_or_else(String::new),
    };
    Err(why.to_owned())
}

/// A text of some other format than bytes may be any scalar (kube-openapi v0.0.0-20250910181357 `pkg/schemaconv/smd.go`).
fn is_any_scalar(schema: &Schema, scalar: Scalar) -> bool {
    let format = || schema.node().bounds.as_ref()?.format.as_deref();
    match scalar {
        Scalar::Quantity | Scalar::Time | Scalar::MicroTime => true,
        Scalar::String => format().is_some_and(|format| !matches!(format, "" | "byte")),
        _ => false,
    }
}

fn misfit(schema: &Schema, scalar: Scalar, value: &Value) -> Option<String> {
    if is_any_scalar(schema, scalar) {
        let is_scalar = matches!(value, Value::String(_) | Value::Number(_) | Value::Bool(_));
        return (!is_scalar).then(|| format!("expected any scalar, got &{{{}}}", go_text(value)));
    }
    match (scalar, value) {
        (Scalar::String | Scalar::Bytes, Value::String(_))
        | (Scalar::Integer | Scalar::Number, Value::Number(_))
        | (Scalar::Boolean, Value::Bool(_)) => None,
        // Upstream has no type for what may be a text or a number; the others were checked above.
        (Scalar::IntOrString | Scalar::Quantity | Scalar::Time | Scalar::MicroTime, _) => None,
        (Scalar::String | Scalar::Bytes, other) => Some(format!(
            "expected string, got &value.valueUnstructured{{Value:{}}}",
            go_syntax(other)
        )),
        (Scalar::Integer | Scalar::Number, other) => {
            Some(format!("expected numeric (int or float), got {}", go_type(other)))
        }
        (Scalar::Boolean, other) => Some(format!("expected boolean, got &{{{}}}", go_text(other))),
    }
}

/// A value as Go's source has it (`%#v`).
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(fields) => {
            let fields: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{key:?}:{}", go_syntax(value)))
                .collect();
            format!("map[string]interface {{}}{{{}}}", fields.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report(value: &Value) -> String {
        let port = Schema::object([
            ("key", Schema::scalar(Scalar::String)),
            ("size", Schema::scalar(Scalar::Integer)),
        ]);
        let keys = vec!["key".into()];
        let schema = Schema::object([
            ("map", Schema::map(Schema::scalar(Scalar::String))),
            ("flag", Schema::scalar(Scalar::Boolean)),
            ("either", Schema::scalar(Scalar::IntOrString)),
            ("set", Schema::list(Schema::scalar(Scalar::String), ListType::Set)),
            ("list", Schema::list(port, ListType::Map { keys })),
        ]);
        misfits(&schema, value).unwrap_or_default()
    }

    #[test]
    fn fitting_values_and_null_are_not_reported() {
        assert_eq!(
            report(&json!({"map": {"a": "x"}, "set": ["a"], "list": [{"key": "a"}], "either": 5})),
            ""
        );
        assert_eq!(
            report(&json!({"map": null, "set": null, "flag": null, "either": "x"})),
            ""
        );
    }

    #[test]
    fn every_misfit_is_reported_at_its_path() {
        let string = r#".map.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":[]interface {}{1, "x"}}}"#;
        assert_eq!(report(&json!({"map": {"a": {"b": [1, "x"]}}})), string);
        assert_eq!(report(&json!({"map": [1]})), ".map: expected map, got &{[1]}");
        assert_eq!(report(&json!({"flag": "x"})), ".flag: expected boolean, got &{x}");
        assert_eq!(report(&json!({"either": []})), "");
        assert_eq!(
            report(&json!({"list": [{"key": "a", "size": "x"}], "other": 1})),
            "errors:\n  .list[key=\"a\"].size: expected numeric (int or float), got string\n  .other: field not declared in schema"
        );
    }

    #[test]
    fn duplicate_and_keyless_items_are_reported() {
        assert_eq!(
            report(&json!({"set": ["a", "a"]})),
            ".set: duplicate entries for key [=\"a\"]"
        );
        let missing = ".list: element 0: associative list with keys has an element that omits all key fields [\"key\"] (and doesn't have default values for any key fields)";
        assert_eq!(report(&json!({"list": [{}]})), missing);
        let no_map = ".list: element 0: associative list with keys may not have non-map elements";
        assert_eq!(report(&json!({"list": [1]})), no_map);
    }
}
