//! `reflect.DeepEqual`.

use crate::value::Value;

/// Whether two values are the same through and through, types included. Maps that hold themselves are compared as far as
/// they go: a pair that is the same map is not looked into.
pub(super) fn deep_equal(one: &Value, other: &Value) -> bool {
    let mut pairs = vec![(one.clone(), other.clone())];
    while let Some(pair) = pairs.pop() {
        let is_same = match &pair {
            (Value::Absent | Value::Nil, Value::Absent | Value::Nil) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(kind, one), Value::Int(other_kind, other)) => kind == other_kind && one == other,
            (Value::Uint(kind, one), Value::Uint(other_kind, other)) => kind == other_kind && one == other,
            (Value::Float(one), Value::Float(other)) => one == other,
            (Value::Complex(a, b), Value::Complex(c, d)) => a == c && b == d,
            (Value::Str(one), Value::Str(other)) | (Value::Bytes(one), Value::Bytes(other)) => one == other,
            (Value::List(one), Value::List(other)) => {
                let is_alike = one.element() == other.element()
                    && one.is_nil() == other.is_nil()
                    && one.items().len() == other.items().len();
                if is_alike {
                    pairs.extend(one.items().iter().cloned().zip(other.items().iter().cloned()));
                }
                is_alike
            }
            (Value::Map(one), Value::Map(other)) if one.is(other) => true,
            (Value::Map(one), Value::Map(other)) => {
                let (entries, others) = (one.entries(), other.entries());
                let has_same_keys = entries
                    .iter()
                    .map(|entry| &entry.0)
                    .eq(others.iter().map(|entry| &entry.0));
                let is_alike = one.element() == other.element() && one.is_nil() == other.is_nil() && has_same_keys;
                if is_alike {
                    let values = entries.into_iter().map(|entry| entry.1);
                    pairs.extend(values.zip(others.into_iter().map(|entry| entry.1)));
                }
                is_alike
            }
            (Value::Object(one), Value::Object(other)) => std::sync::Arc::ptr_eq(one, other),
            _ => false,
        };
        if !is_same {
            return false;
        }
    }
    true
}
