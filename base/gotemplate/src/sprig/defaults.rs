//! Defaults, and types of values.

use super::args::{Answer, at, kind, string_of, text};
use super::equal::deep_equal;
use crate::text::Str as Text;
use crate::value::function::Function;
use crate::value::{Type, Value};

pub(super) fn functions() -> Vec<Function> {
    use Type::{Any, Bool, Str};
    let type_is = |name, is_like: bool| {
        Function::new(name, [Str, Any], move |_, args| {
            let found = type_of(at(args, 1));
            let is_pointer = is_like
                && found
                    .strip_prefix('*')
                    .is_some_and(|found| found.as_bytes() == text(args, 0));
            Ok(Value::Bool(found.as_bytes() == text(args, 0) || is_pointer))
        })
    };
    vec![
        Function::variadic("default", [Any], Any, |_, args| {
            let given = args.get(1).filter(|given| !is_empty(given));
            Ok(given.unwrap_or(at(args, 0)).clone())
        }),
        Function::new("empty", [Any], |_, args| Ok(Value::Bool(is_empty(at(args, 0))))),
        Function::variadic("coalesce", [], Any, |_, args| {
            Ok(args.iter().find(|arg| !is_empty(arg)).cloned().unwrap_or(Value::Nil))
        }),
        Function::variadic("all", [], Any, |_, args| Ok(Value::Bool(!args.iter().any(is_empty)))),
        Function::variadic("any", [], Any, |_, args| Ok(Value::Bool(!args.iter().all(is_empty)))),
        Function::new("ternary", [Any, Any, Bool], |_, args| {
            let chosen = if at(args, 2).is_true() { 0 } else { 1 };
            Ok(at(args, chosen).clone())
        }),
        Function::new("typeOf", [Any], |_, args| Ok(Value::from(type_of(at(args, 0))))),
        type_is("typeIs", false),
        type_is("typeIsLike", true),
        Function::new("kindOf", [Any], |_, args| Ok(Value::from(kind(at(args, 0))))),
        Function::new("kindIs", [Str, Any], |_, args| {
            Ok(Value::Bool(kind(at(args, 1)).as_bytes() == text(args, 0)))
        }),
        Function::new("deepEqual", [Any, Any], |scope, args| {
            Ok(Value::Bool(deep_equal(at(args, 0), at(args, 1), scope)?))
        }),
        Function::new("toString", [Any], |scope, args| -> Answer {
            let text: Text = string_of(at(args, 0), scope)?;
            Ok(Value::Str(text))
        }),
        Function::new("hello", [], |_, _| Ok(Value::from("Hello!"))),
    ]
}

/// What `%T` prints.
fn type_of(value: &Value) -> String {
    match value {
        Value::Absent | Value::Nil => "<nil>".to_owned(),
        value => value.type_name().into_owned(),
    }
}

/// Sprig's `empty`: what is false for `if`.
pub(super) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}
