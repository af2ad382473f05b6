//! The default values of a CustomResourceDefinition's schema, which are values of it themselves
//! (apiextensions-apiserver v0.35 `pkg/apiserver/schema/defaulting/validation.go`). It fills in none.

use crate::error::ROOT_SHOWN;
use crate::tree::{Kind, Schema};
use crate::{ERRORS_MAX, FieldError, FieldPath};

/// Default values must fit their own schema.
pub(crate) fn check_defaults(schema: &Schema, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if errors.len() >= ERRORS_MAX {
        return;
    }
    if let Some(default) = schema.default_value() {
        let mut filled = default.clone();
        let at = path.field("default");
        if !schema.prune(&mut filled).is_empty() {
            errors.push(FieldError::invalid(at, default.clone(), "must not have unknown fields"));
        }
        schema.default(&mut filled);
        for error in schema.validate(&filled, None) {
            let below = if error.path == ROOT_SHOWN {
                at.to_string()
            } else {
                format!("{at}.{}", error.path)
            };
            errors.push(FieldError { path: below, ..error });
        }
    }
    match schema.kind() {
        Kind::Object(object) => {
            let at = path.field("properties");
            object
                .fields
                .iter()
                .for_each(|(name, field)| check_defaults(field, &at.key(name), errors));
            let at = path.field("additionalProperties");
            object
                .additional
                .iter()
                .for_each(|field| check_defaults(field, &at, errors));
        }
        Kind::List(list) => check_defaults(&list.items, &path.field("items"), errors),
        _ => {}
    }
}
