//! Validates the default values in a CustomResourceDefinition's schema against the schema itself
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/defaulting/validation.go`). It changes no object.

use cluster_fields::{ERRORS_MAX, FieldError, FieldPath, ROOT_SHOWN};
use serde_json::Value;

use crate::objects::default::DEFAULTS_BYTES_MAX;
use crate::tree::schema::{Kind, Schema};

/// What the default values of one schema may become, filled in one by one, in bytes: several times what an object may be
/// given, for those of deeper levels count once for each level above.
const FILLED_BYTES_MAX: usize = 4 * DEFAULTS_BYTES_MAX;

/// Default values must fit their own schema.
pub(crate) fn check_defaults(schema: &Schema, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    check(schema, path, &mut { FILLED_BYTES_MAX }, errors);
}

fn check(schema: &Schema, path: &FieldPath<'_>, left: &mut usize, errors: &mut Vec<FieldError>) {
    if errors.len() >= ERRORS_MAX {
        return;
    }
    if let Some(default) = schema.default_value() {
        let mut filled = default.clone();
        let at = path.field("default");
        if !schema.prune(&mut filled).is_empty() {
            errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
        }
        if let Err(error) = schema.fill_within(left, &mut filled) {
            errors.push(FieldError::invalid(at, Value::Null, error.to_string()));
            return;
        }
        schema.normalize(&mut filled);
        for mut error in schema.validate(&filled, None) {
            error.path = if error.path == ROOT_SHOWN {
                at.to_string()
            } else {
                format!("{at}.{}", error.path)
            };
            errors.push(error);
        }
    }
    match schema.kind() {
        Kind::Object(object) => {
            let at = path.field("properties");
            object
                .fields
                .iter()
                .for_each(|(name, field)| check(field, &at.key(name), left, errors));
            let at = path.field("additionalProperties");
            object
                .additional
                .iter()
                .for_each(|field| check(field, &at, left, errors));
        }
        Kind::List(list) => check(&list.items, &path.field("items"), left, errors),
        _ => {}
    }
}
