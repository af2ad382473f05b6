//! Judging a value against a field tree: types, required fields, bounds, duplicates in sets and map lists.
//! It never complains about unknown fields (`prune` reports those) and never changes the value.

use std::collections::HashSet;

use serde_json::Value;

use crate::tree::{Bounds, Kind, List, ListType, Node, Scalar, Schema};
use crate::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath, format, go_text};

impl Schema {
    /// All errors of `value`. With `old` (an update), fields whose value did not change are not judged again, and
    /// transition rules see their old value (Kubernetes' ratcheting). At most [`ERRORS_MAX`] errors.
    pub fn validate(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Errors(Vec::new());
        walk(self, value, old, &FieldPath::Root, &mut errors);
        if errors.0.is_empty() {
            crate::cel::evaluate(self, value, old, &mut errors.0);
        }
        errors.0.truncate(ERRORS_MAX);
        errors.0
    }
}

struct Errors(Vec<FieldError>);

impl Errors {
    fn push(&mut self, error: FieldError) {
        if self.0.len() < ERRORS_MAX {
            self.0.push(error);
        }
    }

    fn full(&self) -> bool {
        self.0.len() >= ERRORS_MAX
    }
}

fn walk(schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>, errors: &mut Errors) {
    if errors.full() || old == Some(value) {
        return;
    }
    let node = schema.node();
    if value.is_null() && node.nullable {
        return;
    }
    match &node.kind {
        Kind::Any => {}
        Kind::Scalar(scalar) => {
            if !fits(*scalar, value) {
                return mismatch(*scalar, value, path, errors);
            }
            if let Some(why) = value.as_str().and_then(|text| go_text::fault(*scalar, text)) {
                // The value may be a secret.
                return errors.push(FieldError::new(path, FieldErrorKind::TypeInvalid, None, why));
            }
        }
        Kind::Object(object) => match value {
            Value::Object(map) => {
                for name in &object.required {
                    if !map.contains_key(&**name) {
                        errors.push(FieldError::required(path.field(name), ""));
                    }
                }
                for (key, value) in map {
                    if let Some(field) = schema.field(key) {
                        walk(field, value, old.and_then(|old| old.get(key)), &path.field(key), errors);
                    }
                }
            }
            _ if node.untyped => {}
            _ => return type_error("object", value, path, errors),
        },
        Kind::List(list) => match value {
            Value::Array(items) => walk_list(list, node.repeats, items, old, path, errors),
            _ if node.untyped => {}
            _ => return type_error("array", value, path, errors),
        },
    }
    if node.embedded_resource {
        check_embedded(value, path, errors);
    }
    if let Some(bounds) = &node.bounds {
        check_bounds(node, bounds, value, path, errors);
    }
}

fn walk_list(
    list: &List,
    repeats: bool,
    items: &[Value],
    old: Option<&Value>,
    path: &FieldPath<'_>,
    errors: &mut Errors,
) {
    let old_items = old.and_then(Value::as_array);
    for (index, item) in items.iter().enumerate() {
        let old_item = old_items.and_then(|old| correlate(&list.list_type, item, old));
        walk(&list.items, item, old_item, &path.index(index), errors);
    }
    if let Some(duplicate) = first_duplicate(list, items).filter(|_| !repeats) {
        let value = match &list.list_type {
            ListType::Map { keys } => Value::Object(
                keys.iter()
                    .filter_map(|key| Some((key.to_string(), items[duplicate].get(&**key)?.clone())))
                    .collect(),
            ),
            _ => items[duplicate].clone(),
        };
        errors.push(FieldError::duplicate(path.index(duplicate), value));
    }
}

/// The element of the old list that a map list's keys say is the same one.
pub(crate) fn correlate<'o>(list_type: &ListType, item: &Value, old: &'o [Value]) -> Option<&'o Value> {
    match list_type {
        ListType::Map { keys } => old
            .iter()
            .find(|old| keys.iter().all(|key| old.get(&**key) == item.get(&**key))),
        _ => None,
    }
}

fn first_duplicate(list: &List, items: &[Value]) -> Option<usize> {
    let identity = |item: &Value| -> String {
        match &list.list_type {
            ListType::Map { keys } => keys
                .iter()
                .map(|key| {
                    let default = list.items.field(key).and_then(Schema::default_value);
                    item.get(&**key).or(default).map(Value::to_string).unwrap_or_default()
                })
                .collect::<Vec<_>>()
                .join("\u{0}"),
            _ => item.to_string(),
        }
    };
    if list.list_type == ListType::Atomic {
        return None;
    }
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().position(|item| !seen.insert(identity(item)))
}

fn fits(scalar: Scalar, value: &Value) -> bool {
    match scalar {
        Scalar::String | Scalar::Time | Scalar::MicroTime | Scalar::Bytes => value.is_string(),
        Scalar::Integer => is_whole(value),
        Scalar::Number => value.is_number(),
        Scalar::Boolean => value.is_boolean(),
        Scalar::IntOrString => value.is_string() || is_whole(value),
        Scalar::Quantity => value.is_string() || value.is_number(),
    }
}

fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|f| f.fract() == 0.0)
        }
        _ => false,
    }
}

fn mismatch(scalar: Scalar, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let wanted = match scalar {
        Scalar::String | Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::Bytes => "string",
        Scalar::Integer => "integer",
        Scalar::Number => "number",
        Scalar::Boolean => "boolean",
        Scalar::IntOrString => "integer,string",
    };
    type_error(wanted, value, path, errors);
}

fn type_error(wanted: &str, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_whole(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let detail = format!("{path} in body must be of type {wanted}: \"{found}\"");
    errors.push(FieldError::type_invalid(path, found, detail));
}

fn check_embedded(value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    for name in ["apiVersion", "kind"] {
        match value.get(name) {
            Some(Value::String(text)) if !text.is_empty() => {}
            Some(Value::String(_)) | None => errors.push(FieldError::required(path.field(name), "must not be empty")),
            Some(other) => type_error("string", other, &path.field(name), errors),
        }
    }
    match value.get("metadata") {
        None | Some(Value::Object(_)) => {}
        Some(other) => type_error("object", other, &path.field("metadata"), errors),
    }
}

fn check_bounds(node: &Node, bounds: &Bounds, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    if !bounds.one_of_values.is_empty() && !bounds.one_of_values.contains(value) {
        let allowed: Vec<String> = bounds
            .one_of_values
            .iter()
            .take(ERRORS_MAX)
            .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        errors.push(FieldError::not_supported(path, value.clone(), &allowed));
    }
    match value {
        Value::String(text) => check_text(node, bounds, text, path, errors),
        Value::Number(_) => check_number(bounds, value, path, errors),
        Value::Array(items) => check_count(bounds, items, path, errors),
        Value::Object(map) => {
            let count = map.len() as u64;
            if let Some(least) = bounds.properties_min.filter(|least| count < *least) {
                let detail = format!("{path} in body should have at least {least} properties");
                errors.push(FieldError::invalid(path, count, detail));
            }
            if let Some(most) = bounds.properties_max.filter(|most| count > *most) {
                errors.push(FieldError::too_many(path, map.len(), most));
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    check_junctors(bounds, value, path, errors);
}

fn check_text(node: &Node, bounds: &Bounds, text: &str, path: &FieldPath<'_>, errors: &mut Errors) {
    let length = text.chars().count() as u64;
    if let Some(most) = bounds.length_max.filter(|most| length > *most) {
        errors.push(FieldError::too_long(path, usize::try_from(most).unwrap_or(usize::MAX)));
    }
    if let Some(least) = bounds.length_min.filter(|least| length < *least) {
        let detail = format!("{path} in body should be at least {least} chars long");
        errors.push(FieldError::invalid(path, text, detail));
    }
    if let Some(pattern) = bounds.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
        let detail = format!("{path} in body should match '{}'", pattern.as_str());
        errors.push(FieldError::invalid(path, text, detail));
    }
    let number_format = matches!(node.kind, Kind::Scalar(Scalar::IntOrString | Scalar::Quantity));
    if let Some(format) = bounds
        .format
        .as_ref()
        .filter(|format| !number_format && !format::matches(format, text))
    {
        let detail = format!("{path} in body must be of type {format}: {text:?}");
        errors.push(FieldError::invalid(path, text, detail));
    }
}

fn check_number(bounds: &Bounds, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let Some(number) = value.as_f64() else { return };
    let mut refuse = |words: String| {
        errors.push(FieldError::invalid(
            path,
            value.clone(),
            format!("{path} in body {words}"),
        ));
    };
    if let Some(least) = bounds.minimum {
        if bounds.exclusive_minimum && number <= least {
            refuse(format!("should be greater than {least}"));
        } else if number < least {
            refuse(format!("should be greater than or equal to {least}"));
        }
    }
    if let Some(most) = bounds.maximum {
        if bounds.exclusive_maximum && number >= most {
            refuse(format!("should be less than {most}"));
        } else if number > most {
            refuse(format!("should be less than or equal to {most}"));
        }
    }
    if let Some(step) = bounds.multiple_of.filter(|step| *step > 0.0) {
        let ratio = number / step;
        if (ratio - ratio.round()).abs() > 1e-9 * ratio.abs().max(1.0) {
            refuse(format!("should be a multiple of {step}"));
        }
    }
    if bounds.format.as_deref() == Some("int32") && i32::try_from(value.as_i64().unwrap_or(i64::MAX)).is_err() {
        refuse("must be of type int32".to_owned());
    }
}

fn check_count(bounds: &Bounds, items: &[Value], path: &FieldPath<'_>, errors: &mut Errors) {
    let count = items.len() as u64;
    if let Some(least) = bounds.items_min.filter(|least| count < *least) {
        let detail = format!("{path} in body should have at least {least} items");
        errors.push(FieldError::invalid(path, count, detail));
    }
    if let Some(most) = bounds.items_max.filter(|most| count > *most) {
        errors.push(FieldError::too_many(path, items.len(), most));
    }
    if bounds.items_unique {
        let mut seen = HashSet::with_capacity(items.len());
        if items.iter().any(|item| !seen.insert(item.to_string())) {
            let detail = format!("{path} in body shouldn't contain duplicates");
            errors.push(FieldError::invalid(path, Value::Array(items.to_vec()), detail));
        }
    }
}

fn check_junctors(bounds: &Bounds, value: &Value, path: &FieldPath<'_>, errors: &mut Errors) {
    let errors_of = |schema: &Schema| {
        let mut found = Errors(Vec::new());
        walk(schema, value, None, path, &mut found);
        found.0
    };
    let mut refuse = |words: String| {
        errors.push(FieldError::new(
            path,
            FieldErrorKind::Invalid,
            Some(value.clone()),
            words,
        ));
    };
    if bounds.not.as_ref().is_some_and(|not| errors_of(not).is_empty()) {
        refuse(format!("\"{path}\" must not validate the schema (not)"));
    }
    if !bounds.any_of.is_empty() && !bounds.any_of.iter().any(|schema| errors_of(schema).is_empty()) {
        refuse(format!("\"{path}\" must validate at least one schema (anyOf)"));
    }
    if !bounds.one_of.is_empty() {
        match bounds
            .one_of
            .iter()
            .filter(|schema| errors_of(schema).is_empty())
            .count()
        {
            1 => {}
            0 => refuse(format!(
                "\"{path}\" must validate one and only one schema (oneOf). Found none valid"
            )),
            count => refuse(format!(
                "\"{path}\" must validate one and only one schema (oneOf). Found {count} valid alternatives"
            )),
        }
    }
    let mut all_failed = Vec::new();
    for schema in &bounds.all_of {
        all_failed.extend(errors_of(schema));
    }
    if !all_failed.is_empty() {
        for error in all_failed {
            errors.push(error);
        }
        let words = format!("\"{path}\" must validate all the schemas (allOf)");
        errors.push(FieldError::new(
            path,
            FieldErrorKind::Invalid,
            Some(value.clone()),
            words,
        ));
    }
}
