//! Arguments and values of functions: reading, converting, joining, splitting.

use memchr::memmem;

use crate::environment::error::Fault;
use crate::print::sprint;
use crate::text::Str;
use crate::value::function::Scope;
use crate::value::{List, Map, Type, Value, is_pointer};

pub(super) type Answer = Result<Value, Fault>;

/// Go's error for the use of a nil pointer.
pub(super) const NIL_POINTER: &str = "runtime error: invalid memory address or nil pointer dereference";

/// `map[string]interface {}`
pub(super) fn map_type() -> Type {
    Type::Map(Box::new(Type::Any))
}

/// An argument, nothing if it was not given.
pub(super) fn at(args: &[Value], place: usize) -> &Value {
    args.get(place).unwrap_or(&Value::Nil)
}

/// A string argument: the signature has checked that it is one.
pub(super) fn text(args: &[Value], place: usize) -> &[u8] {
    match args.get(place) {
        Some(Value::Str(text)) => text,
        _ => b"",
    }
}

/// An `int` argument: the signature has checked that it is one.
pub(super) fn int(args: &[Value], place: usize) -> i64 {
    match args.get(place) {
        Some(Value::Int(_, number)) => *number,
        _ => 0,
    }
}

/// A dictionary argument: the signature has checked that it is one.
pub(super) fn map(args: &[Value], place: usize) -> Map {
    match args.get(place) {
        Some(Value::Map(map)) => map.clone(),
        _ => Map::nil(Type::Any),
    }
}

/// Sprig's `strval`: strings and bytes as they are, all else as it prints, which takes steps.
pub(super) fn string_of(value: &Value, scope: &Scope<'_>) -> Result<Str, Fault> {
    Ok(match value {
        Value::Str(text) | Value::Bytes(text) => text.clone(),
        // Nil as `fmt` prints it, `<nil>`, not the `<no value>` of templates.
        value => printed(value, scope)?.into(),
    })
}

/// What `fmt.Sprint` prints, which takes steps.
pub(super) fn printed(value: &Value, scope: &Scope<'_>) -> Result<Vec<u8>, Fault> {
    let text = sprint(std::slice::from_ref(value), scope.limits.string_bytes_max)?;
    scope.spend_bytes(text.len())?;
    Ok(text)
}

/// Sprig's `strslice`: a list as strings, without its nils; all else as one string.
pub(super) fn strings_of(value: &Value, scope: &Scope<'_>) -> Result<Vec<Str>, Fault> {
    match items(value, scope)? {
        Some(items) => items
            .iter()
            .filter(|item| !item.is_nil())
            .map(|item| string_of(item, scope))
            .collect(),
        None if value.is_nil() => Ok(Vec::new()),
        None => Ok(vec![string_of(value, scope)?]),
    }
}

/// The items of a slice, each of which takes a step.
pub(super) fn items(value: &Value, scope: &Scope<'_>) -> Result<Option<Vec<Value>>, Fault> {
    match value {
        Value::List(list) => scope.spend(list.items().len())?,
        Value::Bytes(bytes) => scope.spend(bytes.len())?,
        Value::Object(object) => {
            let underlying = object.underlying();
            return underlying.map_or(Ok(None), |value| items(&value, scope));
        }
        _ => {}
    }
    Ok(value.items())
}

/// A `[]string`.
pub(super) fn string_list(items: Vec<Str>) -> Value {
    Value::List(List::new(Type::Str, items.into_iter().map(Value::Str).collect()))
}

/// What Go prints for a float that is no number or has no end.
pub(super) fn non_finite(number: f64) -> &'static str {
    match number {
        f64::INFINITY => "+Inf",
        f64::NEG_INFINITY => "-Inf",
        _ => "NaN",
    }
}

/// The name of a value's kind: `reflect.Kind`.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Absent | Value::Nil => "invalid",
        Value::Bool(_) => "bool",
        Value::Int(kind, _) => kind.name(),
        Value::Uint(kind, _) => kind.name(),
        Value::Float(_) => "float64",
        Value::Complex(..) => "complex128",
        Value::Str(_) => "string",
        Value::Bytes(_) | Value::List(_) => "slice",
        Value::Map(_) => "map",
        Value::Object(object) if is_pointer(object.type_name()) => "ptr",
        Value::Object(object) => object.underlying().map_or("struct", |value| kind(&value)),
    }
}

/// Texts joined by a separator.
pub(super) fn joined(parts: &[Str], separator: &[u8], scope: &Scope<'_>) -> Answer {
    let lengths = parts.iter().map(|part| part.len() + separator.len());
    let bytes = lengths.fold(0, usize::saturating_add);
    scope.check_length(bytes)?;
    let parts: Vec<&[u8]> = parts.iter().map(Str::bytes).collect();
    Ok(Value::string(parts.join(separator)))
}

/// Where a text is found from some place on.
pub(super) fn find(text: &[u8], wanted: &[u8], from: usize) -> Option<usize> {
    memmem::find(text.get(from..)?, wanted).map(|at| from + at)
}

/// The parts of a text between separators, at most so many: `strings.SplitN`. An empty separator splits it into runes. Each
/// part takes a step before it is made.
pub(super) fn split(
    text: &[u8],
    separator: &[u8],
    parts_max: Option<usize>,
    scope: &Scope<'_>,
) -> Result<Vec<Str>, Fault> {
    let mut parts = Vec::new();
    let mut from = 0;
    let is_last = |parts: &Vec<Str>| parts_max.is_some_and(|max| parts.len() + 1 >= max);
    if separator.is_empty() {
        for (at, _, width) in crate::text::runes(text) {
            if is_last(&parts) {
                break;
            }
            scope.spend(1)?;
            parts.push(text.get(at..at + width).unwrap_or_default().into());
            from = at + width;
        }
        if from < text.len() {
            parts.push(text.get(from..).unwrap_or_default().into());
        }
        return Ok(parts);
    }
    let mut found_all = memmem::find_iter(text, separator);
    while !is_last(&parts)
        && let Some(found) = found_all.next()
    {
        scope.spend(1)?;
        parts.push(text.get(from..found).unwrap_or_default().into());
        from = found + separator.len();
    }
    parts.push(text.get(from..).unwrap_or_default().into());
    Ok(parts)
}
