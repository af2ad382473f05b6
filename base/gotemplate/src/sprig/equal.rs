//! `reflect.DeepEqual` of Go 1.26.

use std::collections::HashSet;
use std::sync::Arc;

use crate::environment::error::Fault;
use crate::value::function::Scope;
use crate::value::{List, Map, Value};

/// Whether two values are deeply equal, types included. As in Go, a list or map equals itself, and a pair that has been
/// compared is not compared again: values may hold themselves, or one thing many times. It takes a step for each pair.
pub(super) fn deep_equal(one: &Value, other: &Value, scope: &Scope<'_>) -> Result<bool, Fault> {
    scope.spend(1)?;
    let mut pairs = vec![(one.clone(), other.clone())];
    let mut seen = HashSet::new();
    while let Some(pair) = pairs.pop() {
        let is_same = match &pair {
            (Value::Absent | Value::Nil, Value::Absent | Value::Nil) => true,
            (Value::Bool(one), Value::Bool(other)) => one == other,
            (Value::Int(kind, one), Value::Int(other_kind, other)) => kind == other_kind && one == other,
            (Value::Uint(kind, one), Value::Uint(other_kind, other)) => kind == other_kind && one == other,
            (Value::Float(one), Value::Float(other)) => one == other,
            (Value::Complex(a, b), Value::Complex(c, d)) => a == c && b == d,
            (Value::Str(one), Value::Str(other)) | (Value::Bytes(one), Value::Bytes(other)) => {
                if one.len() == other.len() {
                    scope.spend_bytes(one.len())?;
                }
                one == other
            }
            (Value::List(one), Value::List(other)) => match lists_are_alike(one, other) {
                true if one.is(other) || !seen.insert((one.address(), other.address())) => true,
                true => {
                    scope.spend(one.items().len())?;
                    pairs.extend(one.items().iter().cloned().zip(other.items().iter().cloned()));
                    true
                }
                false => false,
            },
            (Value::Map(one), Value::Map(other)) => match maps_are_alike(one, other) {
                true if one.is(other) || !seen.insert((one.address(), other.address())) => true,
                true => {
                    scope.spend(one.len())?;
                    add_values(&mut pairs, one, other, scope)?
                }
                false => false,
            },
            (Value::Object(one), Value::Object(other)) => Arc::ptr_eq(one, other) || one.is_like(&**other),
            _ => false,
        };
        if !is_same {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lists_are_alike(one: &List, other: &List) -> bool {
    one.element() == other.element() && one.is_nil() == other.is_nil() && one.items().len() == other.items().len()
}

fn maps_are_alike(one: &Map, other: &Map) -> bool {
    one.element() == other.element() && one.is_nil() == other.is_nil() && one.len() == other.len()
}

/// Adds the values of two maps in pairs, and returns whether their keys are the same.
fn add_values(pairs: &mut Vec<(Value, Value)>, one: &Map, other: &Map, scope: &Scope<'_>) -> Result<bool, Fault> {
    for ((key, value), (other_key, other_value)) in one.entries().into_iter().zip(other.entries()) {
        scope.spend_bytes(key.len())?;
        if key != other_key {
            return Ok(false);
        }
        pairs.push((value, other_value));
    }
    Ok(true)
}
