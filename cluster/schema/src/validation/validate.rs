//! Validates a value against a field tree: types, required fields, bounds, duplicates in sets and map lists.
//! Unknown fields are no errors here (`prune` reports them), and the value is never changed.

use std::collections::HashSet;

use cluster_fields::{ERRORS_MAX, FieldError, FieldErrorKind, FieldPath, ROOT_SHOWN, ValidationResult, formats};
use serde_json::Value;

use crate::go::texts;
use crate::tree::old_items::OldItems;
use crate::tree::schema::{Bounds, Kind, List, ListType, Node, Scalar, Schema};
use crate::validation::embedded_objects::validate_embedded;
use crate::validation::list_items::validate_lists;
use crate::validation::rules;

/// The format of numbers with 32 bits.
const INT32: &str = "int32";

/// The error beside those because of which rules are not evaluated.
const RULES_SKIPPED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

impl Schema {
    /// All errors of `value`. With `old` (an update), fields whose value did not change are not validated again, and
    /// transition rules see their old value (Kubernetes' ratcheting). At most [`ERRORS_MAX`] errors.
    pub fn validate(&self, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
        self.validate_with_warnings(value, old).errors
    }

    /// As [`Schema::validate`], with warnings.
    pub fn validate_with_warnings(&self, value: &Value, old: Option<&Value>) -> ValidationResult {
        let mut walk = Walk::new(self);
        walk.whole(self, value, old, &FieldPath::Root);
        let mut errors = walk.errors;
        if self.node().has_parts {
            validate_embedded(self, value, &FieldPath::Root, &mut errors);
            validate_lists(self, value, old, &mut errors);
        }
        self.with_rules(value, old, errors)
    }

    /// As [`Schema::validate_with_warnings`] for a write of `part` alone: the rest of the object is not validated.
    pub fn validate_part(&self, part: &str, value: &Value, old: Option<&Value>) -> ValidationResult {
        let mut errors = Vec::new();
        if let (Some(schema), Some(inner)) = (self.field(part), value.get(part)) {
            let mut walk = Walk::new(schema);
            walk.whole(schema, inner, old.and_then(|old| old.get(part)), &FieldPath::Root);
            errors = walk.errors;
            for error in &mut errors {
                error.path = match &*error.path {
                    ROOT_SHOWN => part.to_owned(),
                    below => format!("{part}.{below}"),
                };
            }
        }
        if self.node().has_parts {
            validate_lists(self, value, old, &mut errors);
        }
        self.with_rules(value, old, errors)
    }

    fn with_rules(&self, value: &Value, old: Option<&Value>, errors: Vec<FieldError>) -> ValidationResult {
        let mut result = ValidationResult {
            errors,
            warnings: Vec::new(),
        };
        if self.node().has_rules {
            if result.errors.iter().any(FieldError::hides_others) {
                result
                    .errors
                    .push(FieldError::invalid(FieldPath::Root, Value::Null, RULES_SKIPPED));
            } else {
                rules::evaluate(self, value, old, &mut result);
            }
        }
        result.errors.truncate(ERRORS_MAX);
        result
    }
}

/// One walk over a value.
struct Walk {
    errors: Vec<FieldError>,
    /// Validates as custom resources are validated; else as far as typed kinds need it.
    custom: bool,
    /// How much was looked at: of several alternatives that fail, the errors of the one that got furthest are reported.
    looked_at: usize,
}

impl Walk {
    fn new(schema: &Schema) -> Self {
        Self {
            errors: Vec::new(),
            custom: schema.node().custom,
            looked_at: 0,
        }
    }

    fn push(&mut self, error: FieldError) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(error);
        }
    }

    /// Validates a value, unless it did not change.
    fn whole(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
        if self.errors.len() < ERRORS_MAX && old != Some(value) {
            self.value(schema, value, old, path);
        }
    }

    fn value(&mut self, schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
        let node = schema.node();
        self.looked_at += 3;
        if value.is_null() {
            return self.null(node, path);
        }
        let fits = self.check_type(node, value, path);
        if !fits && !self.custom {
            return;
        }
        if let (Kind::Scalar(scalar), Value::String(text)) = (&node.kind, value)
            && let Some(why) = texts::decode_error(*scalar, text)
        {
            // The value may be a secret.
            return self.push(FieldError::new(path, FieldErrorKind::TypeInvalid, None, why));
        }
        if let Some(bounds) = &node.bounds {
            self.junctors(bounds, value, old, path);
        }
        match (&node.kind, value) {
            (Kind::Object(object), Value::Object(map)) => {
                for name in &object.required {
                    if !map.contains_key(&**name) {
                        self.push(FieldError::required(path.field(name), ""));
                    }
                }
                for (key, value) in map {
                    if let Some(field) = schema.field(key) {
                        let old = old.and_then(|old| old.get(key));
                        self.whole(field, value, old, &path.field(key));
                    }
                }
            }
            (Kind::List(list), Value::Array(items)) => self.list(list, node.repeats, items, old, path),
            _ => {}
        }
        if let Some(bounds) = &node.bounds {
            self.bounds(node, bounds, value, path);
        }
    }

    fn null(&mut self, node: &Node, path: &FieldPath<'_>) {
        // To Go the field is not set.
        if !node.nullable && !node.of_go {
            match &node.kind {
                Kind::Any => {}
                _ if node.untyped => {}
                kind => self.push(type_error(wanted(kind), &Value::Null, path)),
            }
        }
        if let Some(bounds) = node.bounds.as_ref().filter(|_| self.custom) {
            self.choice(bounds, &Value::Null, path);
        }
    }

    fn list(&mut self, list: &List, repeats: bool, items: &[Value], old: Option<&Value>, path: &FieldPath<'_>) {
        let old_items = OldItems::new(&list.list_type, old);
        for (index, item) in items.iter().enumerate() {
            self.whole(&list.items, item, old_items.of(item), &path.index(index));
        }
        if self.custom || repeats {
            return;
        }
        if let Some(duplicate) = first_duplicate(list, items) {
            let value = match &list.list_type {
                ListType::Map { keys } => Value::Object(
                    keys.iter()
                        .filter_map(|key| Some((key.to_string(), items[duplicate].get(&**key)?.clone())))
                        .collect(),
                ),
                _ => items[duplicate].clone(),
            };
            self.push(FieldError::duplicate(path.index(duplicate), value));
        }
    }

    /// Whether the value has the JSON type of the node.
    fn check_type(&mut self, node: &Node, value: &Value, path: &FieldPath<'_>) -> bool {
        let fits = match &node.kind {
            Kind::Any => true,
            Kind::Scalar(scalar) => fits(*scalar, value),
            Kind::Object(_) => value.is_object() || node.untyped,
            Kind::List(_) => value.is_array() || node.untyped,
        };
        let format = node.bounds.as_ref().and_then(|bounds| bounds.format.as_deref());
        match format.filter(|_| self.custom && !fits) {
            None if fits => {}
            None => self.push(type_error(wanted(&node.kind), value, path)),
            Some(format) => return self.format_of_another_type(node, format, value, path),
        }
        fits
    }

    /// A field with a format takes texts and lists for what they are, and names numbers by their size in Go
    /// (kube-openapi `pkg/validation/validate/type.go`).
    fn format_of_another_type(&mut self, node: &Node, format: &str, value: &Value, path: &FieldPath<'_>) -> bool {
        let of_number = matches!(node.kind, Kind::Scalar(Scalar::Integer | Scalar::Number));
        let found = match value {
            Value::String(_) | Value::Array(_) if of_number => {
                self.push(type_error(wanted(&node.kind), value, path));
                return false;
            }
            Value::String(_) | Value::Array(_) => return true,
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int64",
            _ => "",
        };
        let detail = format!("{} in body must be of type {format}: {found:?}", path.in_words());
        self.push(FieldError::type_invalid(path, found, detail).wanting(format));
        false
    }

    fn choice(&mut self, bounds: &Bounds, value: &Value, path: &FieldPath<'_>) {
        if !bounds.one_of_values.is_empty() && !bounds.one_of_values.contains(value) {
            let allowed: Vec<String> = bounds
                .one_of_values
                .iter()
                .take(ERRORS_MAX)
                .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
                .collect();
            self.push(FieldError::not_supported(path, value.clone(), &allowed));
        }
    }

    fn bounds(&mut self, node: &Node, bounds: &Bounds, value: &Value, path: &FieldPath<'_>) {
        self.choice(bounds, value, path);
        match value {
            Value::String(text) => self.text(node, bounds, text, path),
            Value::Number(_) => self.number(bounds, value, path),
            Value::Array(items) => self.count(bounds, items, path),
            Value::Object(map) => {
                let count = map.len() as u64;
                if let Some(least) = bounds.properties_min.filter(|least| count < *least) {
                    let detail = format!("{} in body should have at least {least} properties", path.in_words());
                    self.push(FieldError::invalid(path, count, detail));
                }
                if let Some(most) = bounds.properties_max.filter(|most| count > *most) {
                    self.push(FieldError::too_many(path, map.len(), most));
                }
            }
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Reports the first violation of length and pattern, and a violation of the format beside it.
    fn text(&mut self, node: &Node, bounds: &Bounds, text: &str, path: &FieldPath<'_>) {
        let length = text.chars().count() as u64;
        if let Some(most) = bounds.length_max.filter(|most| length > *most) {
            self.push(FieldError::too_long(path, usize::try_from(most).unwrap_or(usize::MAX)));
        } else if let Some(least) = bounds.length_min.filter(|least| length < *least) {
            let detail = format!("{} in body should be at least {least} chars long", path.in_words());
            self.push(FieldError::invalid(path, text, detail));
        } else if let Some(pattern) = bounds.pattern.as_ref().filter(|pattern| !pattern.matches(text)) {
            let detail = format!("{} in body should match '{}'", path.in_words(), pattern.as_str());
            self.push(FieldError::invalid(path, text, detail));
        }
        let number_format = matches!(node.kind, Kind::Scalar(Scalar::IntOrString | Scalar::Quantity));
        if let Some(format) = bounds
            .format
            .as_ref()
            .filter(|format| !number_format && !formats::matches(format, text))
        {
            let detail = format!("{} in body must be of type {format}: {text:?}", path.in_words());
            let error = match self.custom {
                true => FieldError::type_invalid(path, text, detail),
                false => FieldError::invalid(path, text, detail),
            };
            self.push(error.wanting(format));
        }
    }

    fn number(&mut self, bounds: &Bounds, value: &Value, path: &FieldPath<'_>) {
        let Some(number) = value.as_f64() else { return };
        let mut refuse = |words: String| {
            let detail = format!("{} in body {words}", path.in_words());
            self.push(FieldError::invalid(path, value.clone(), detail));
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
        if bounds.format.as_deref() == Some(INT32) && i32::try_from(value.as_i64().unwrap_or(i64::MAX)).is_err() {
            let detail = format!("{} in body must be of type int32", path.in_words());
            self.push(FieldError::invalid(path, value.clone(), detail).wanting(INT32));
        }
    }

    fn count(&mut self, bounds: &Bounds, items: &[Value], path: &FieldPath<'_>) {
        let count = items.len() as u64;
        if let Some(least) = bounds.items_min.filter(|least| count < *least) {
            let detail = format!("{} in body should have at least {least} items", path.in_words());
            self.push(FieldError::invalid(path, count, detail));
        }
        if let Some(most) = bounds.items_max.filter(|most| count > *most) {
            self.push(FieldError::too_many(path, items.len(), most));
        }
        if bounds.items_unique {
            let mut seen = HashSet::with_capacity(items.len());
            if items.iter().any(|item| !seen.insert(item.to_string())) {
                let detail = format!("{} in body shouldn't contain duplicates", path.in_words());
                self.push(FieldError::invalid(path, Value::Array(items.to_vec()), detail));
            }
        }
    }

    /// The errors of one alternative, and how far it got.
    fn alternative(&self, schema: &Schema, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) -> Self {
        let mut found = Self {
            errors: Vec::new(),
            custom: self.custom,
            looked_at: 0,
        };
        found.value(schema, value, old, path);
        found
    }

    fn junctors(&mut self, bounds: &Bounds, value: &Value, old: Option<&Value>, path: &FieldPath<'_>) {
        let refusal = |words: String| {
            let detail = format!("\"{}\" {words}", path.in_words());
            FieldError::invalid(FieldPath::Root, "", detail)
        };
        let validate = |branches: &[Schema]| -> Vec<Self> {
            let branches = branches.iter();
            branches
                .map(|branch| self.alternative(branch, value, old, path))
                .collect()
        };
        let mut reported = Vec::new();
        if !bounds.any_of.is_empty() {
            let found = validate(&bounds.any_of);
            if found.iter().all(|branch| !branch.errors.is_empty()) {
                reported.push(refusal("must validate at least one schema (anyOf)".to_owned()));
                reported.extend(furthest(found));
            }
        }
        if !bounds.one_of.is_empty() {
            let found = validate(&bounds.one_of);
            let words = "must validate one and only one schema (oneOf). Found";
            match found.iter().filter(|branch| branch.errors.is_empty()).count() {
                1 => {}
                0 => {
                    reported.push(refusal(format!("{words} none valid")));
                    reported.extend(furthest(found));
                }
                count => reported.push(refusal(format!("{words} {count} valid alternatives"))),
            }
        }
        let found = validate(&bounds.all_of);
        let valid = found.iter().filter(|branch| branch.errors.is_empty()).count();
        if valid < found.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            reported.extend(found.into_iter().flat_map(|branch| branch.errors));
            reported.push(refusal(format!("must validate all the schemas (allOf){none}")));
        }
        if let Some(not) = &bounds.not
            && self.alternative(not, value, old, path).errors.is_empty()
        {
            reported.push(refusal("must not validate the schema (not)".to_owned()));
        }
        reported.into_iter().for_each(|error| self.push(error));
    }
}

/// The errors of the first alternative that got furthest.
fn furthest(found: Vec<Walk>) -> Vec<FieldError> {
    let mut best: Option<Walk> = None;
    for branch in found {
        if best.as_ref().is_none_or(|best| branch.looked_at > best.looked_at) {
            best = Some(branch);
        }
    }
    best.map(|branch| branch.errors).unwrap_or_default()
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

fn wanted(kind: &Kind) -> &'static str {
    match kind {
        Kind::Any => "any",
        Kind::Object(_) => "object",
        Kind::List(_) => "array",
        Kind::Scalar(Scalar::String | Scalar::Quantity | Scalar::Time | Scalar::MicroTime | Scalar::Bytes) => "string",
        Kind::Scalar(Scalar::Integer) => "integer",
        Kind::Scalar(Scalar::Number) => "number",
        Kind::Scalar(Scalar::Boolean) => "boolean",
        Kind::Scalar(Scalar::IntOrString) => "integer,string",
    }
}

fn type_error(wanted: &str, value: &Value, path: &FieldPath<'_>) -> FieldError {
    let found = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) if is_whole(value) => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let detail = format!("{} in body must be of type {wanted}: \"{found}\"", path.in_words());
    FieldError::type_invalid(path, found, detail).wanting(wanted)
}
