//! Comparison. Go compares what is of one kind, and integers of either sign; all else is an error.

use std::cmp::Ordering;
use std::sync::Arc;

use super::plain_value;
use crate::environment::error::Fault;
use crate::print::Printer;
use crate::value::Value;

const BAD_TYPE: &str = "invalid type for comparison";
const MISSING: &str = "missing argument for comparison";

/// How much of a value an error shows at most: errors are for people.
const SHOWN_BYTES_MAX: usize = 64 << 10;

/// A value as comparisons see it.
enum Basic<'v> {
    Bool(bool),
    Complex(f64, f64),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(&'v [u8]),
    /// None of these
    Other,
}

fn basic(value: &Value) -> Basic<'_> {
    match value {
        Value::Bool(value) => Basic::Bool(*value),
        Value::Complex(real, imaginary) => Basic::Complex(*real, *imaginary),
        Value::Int(_, value) => Basic::Int(*value),
        Value::Uint(_, value) => Basic::Uint(*value),
        Value::Float(value) => Basic::Float(*value),
        Value::Str(text) => Basic::Str(text),
        _ => Basic::Other,
    }
}

fn incompatible(one: &Value, other: &Value) -> Fault {
    let (one, other) = (one.type_name(), other.type_name());
    Fault::Message(format!("incompatible types for comparison: {one} and {other}"))
}

/// Whether the first is equal to one of the others.
pub(super) fn eq(args: &[Value]) -> Result<bool, Fault> {
    match args {
        [] | [_] => Err(Fault::from(MISSING)),
        [first, others @ ..] => {
            for other in others {
                if is_equal(first, other)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}

fn is_equal(one: &Value, other: &Value) -> Result<bool, Fault> {
    let (one_plain, other_plain) = (plain_value(one), plain_value(other));
    Ok(match (basic(&one_plain), basic(&other_plain)) {
        (Basic::Bool(one), Basic::Bool(other)) => one == other,
        (Basic::Complex(a, b), Basic::Complex(c, d)) => a == c && b == d,
        (Basic::Int(one), Basic::Int(other)) => one == other,
        (Basic::Uint(one), Basic::Uint(other)) => one == other,
        (Basic::Int(int), Basic::Uint(uint)) | (Basic::Uint(uint), Basic::Int(int)) => u64::try_from(int) == Ok(uint),
        (Basic::Float(one), Basic::Float(other)) => one == other,
        (Basic::Str(one), Basic::Str(other)) => one == other,
        (Basic::Other, Basic::Other) => return others_are_equal(one, other),
        // What is not there is equal to nothing that is.
        _ if one.is_nil() || other.is_nil() => false,
        _ => return Err(incompatible(one, other)),
    })
}

/// Whether maps, slices, objects or what is not there are equal: only what is not there can be.
fn others_are_equal(one: &Value, other: &Value) -> Result<bool, Fault> {
    let is_map = |value: &Value| matches!(plain_value(value), Value::Map(_));
    let is_one_missing = one.is_nil() || other.is_nil();
    if (one.is_go_nil() || other.is_go_nil()) && (is_one_missing || is_map(one) == is_map(other)) {
        return Ok(one.is_go_nil() && other.is_go_nil());
    }
    if let (Value::Object(one), Value::Object(other)) = (one, other)
        && one.underlying().is_none()
    {
        return Ok(Arc::ptr_eq(one, other) || one.equals(&**other));
    }
    if is_map(one) != is_map(other) {
        return Err(Fault::Message(format!(
            "non-comparable types {}: {}, {}: {}",
            shown(one, b"%s")?,
            one.type_name(),
            other.type_name(),
            shown(other, b"%v")?,
        )));
    }
    let what = shown(other, b"%s")?;
    Err(Fault::Message(format!(
        "non-comparable type {what}: {}",
        other.type_name()
    )))
}

fn shown(value: &Value, format: &[u8]) -> Result<String, Fault> {
    let mut out = Vec::new();
    Printer::new(&mut out, SHOWN_BYTES_MAX).printf(format, std::slice::from_ref(value))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// Whether they differ.
pub(super) fn ne(one: &Value, other: &Value) -> Result<bool, Fault> {
    is_equal(one, other).map(|is_equal| !is_equal)
}

/// Whether the first is less.
pub(super) fn lt(one: &Value, other: &Value) -> Result<bool, Fault> {
    let (one_plain, other_plain) = (plain_value(one), plain_value(other));
    let (one_basic, other_basic) = (basic(&one_plain), basic(&other_plain));
    if matches!(one_basic, Basic::Other) || matches!(other_basic, Basic::Other) {
        return Err(Fault::from(BAD_TYPE));
    }
    let order = match (one_basic, other_basic) {
        (Basic::Int(one), Basic::Int(other)) => one.cmp(&other),
        (Basic::Uint(one), Basic::Uint(other)) => one.cmp(&other),
        (Basic::Int(int), Basic::Uint(uint)) => u64::try_from(int).map_or(Ordering::Less, |int| int.cmp(&uint)),
        (Basic::Uint(uint), Basic::Int(int)) => u64::try_from(int).map_or(Ordering::Greater, |int| uint.cmp(&int)),
        (Basic::Float(one), Basic::Float(other)) => return Ok(one < other),
        (Basic::Str(one), Basic::Str(other)) => one.cmp(other),
        (Basic::Bool(_), Basic::Bool(_)) | (Basic::Complex(..), Basic::Complex(..)) => {
            return Err(Fault::from(BAD_TYPE));
        }
        _ => return Err(incompatible(one, other)),
    };
    Ok(order == Ordering::Less)
}

/// Whether the first is less or equal: Go evaluates both, so that NaN is neither.
pub(super) fn le(one: &Value, other: &Value) -> Result<bool, Fault> {
    Ok(lt(one, other)? || is_equal(one, other)?)
}

/// Whether the first is not less or equal.
pub(super) fn gt(one: &Value, other: &Value) -> Result<bool, Fault> {
    le(one, other).map(|is_le| !is_le)
}

/// Whether the first is not less.
pub(super) fn ge(one: &Value, other: &Value) -> Result<bool, Fault> {
    lt(one, other).map(|is_lt| !is_lt)
}
