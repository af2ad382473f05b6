//! Checks that the rules of several kinds share.

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{elements, text};

/// Validates a label selector (apimachinery v0.35 `pkg/apis/meta/v1/validation`).
pub(crate) fn label_selector(selector: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(labels) = selector["matchLabels"].as_object() {
        names::validate_labels(labels, &path.field("matchLabels"), errors);
    }
    let list = path.field("matchExpressions");
    for (index, requirement) in elements(selector, "matchExpressions").enumerate() {
        let at = list.index(index);
        let has_values = elements(requirement, "values").next().is_some();
        match text(requirement, "operator") {
            "In" | "NotIn" if !has_values => errors.push(FieldError::required(
                at.field("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if has_values => errors.push(FieldError::forbidden(
                at.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                at.field("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        names::validate_qualified_name(text(requirement, "key"), &at.field("key"), errors);
        let values = at.field("values");
        for (index, value) in elements(requirement, "values").enumerate() {
            let value = value.as_str().unwrap_or_default();
            if let Some(why) = names::label_value(value) {
                errors.push(FieldError::invalid(values.index(index), value, why));
            }
        }
    }
}

/// Finalizers below `finalizers` of `owner`.
pub(crate) fn kube_finalizers(owner: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let path = path.field("finalizers");
    for (index, finalizer) in elements(owner, "finalizers").enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !names::STANDARD_FINALIZERS.contains(&name) {
            let words = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path.index(index), name, words));
        }
    }
}

/// A text field that must not be empty.
pub(crate) fn require(object: &Value, name: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if text(object, name).is_empty() {
        errors.push(FieldError::required(path.field(name), ""));
    }
}

/// A text field that must be one of a few.
pub(crate) fn one_of(object: &Value, name: &str, allowed: &[&str], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match text(object, name) {
        "" => errors.push(FieldError::required(
            path.field(name),
            format!("must be one of {}", allowed.join(", ")),
        )),
        value if !allowed.contains(&value) => {
            errors.push(FieldError::not_supported(path.field(name), value, allowed));
        }
        _ => {}
    }
}

/// Fields that an update must not change.
pub(crate) fn immutable(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    for field in fields.iter().filter(|field| object.get(**field) != old.get(**field)) {
        errors.push(FieldError::invalid(
            *field,
            object[*field].clone(),
            "field is immutable",
        ));
    }
}

/// A port number, 1 to 65535; a missing one is an error too.
pub(crate) fn port_number(port: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let number = port.and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&number) {
        errors.push(FieldError::invalid(
            path,
            number,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

/// A number that must not be negative, when it is there.
pub(crate) fn not_negative(object: &Value, name: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(number) = object.get(name).and_then(Value::as_i64).filter(|number| *number < 0) {
        errors.push(FieldError::invalid(
            path.field(name),
            number,
            "must be greater than or equal to 0",
        ));
    }
}
