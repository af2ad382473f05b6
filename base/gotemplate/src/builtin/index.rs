//! `index`, `slice` and `len`.

use super::{arg, plain_value};
use crate::environment::error::Fault;
use crate::value::{List, UintKind, Value};

/// A place in something of that length: text/template's `indexArg`, which lets the length itself pass.
fn place(index: &Value, length: usize) -> Result<usize, Fault> {
    let number = match index {
        Value::Int(_, number) => *number,
        // Beyond what a slice can hold the bits count, as in Go.
        Value::Uint(_, number) => *number as i64,
        Value::Absent => return Err(Fault::from("cannot index slice/array with nil")),
        other => {
            let type_name = other.type_name();
            return Err(Fault::Message(format!(
                "cannot index slice/array with type {type_name}"
            )));
        }
    };
    usize::try_from(number)
        .ok()
        .filter(|place| *place <= length)
        .ok_or_else(|| Fault::Message(format!("index out of range: {number}")))
}

/// The item below the first, by one index after the other.
pub(super) fn index(args: &[Value]) -> Result<Value, Fault> {
    let mut item = arg(args, 0).clone().unwrapped();
    if item.is_nil() {
        return Err(Fault::from("index of untyped nil"));
    }
    for index in args.iter().skip(1) {
        if item.is_nil() {
            return Err(Fault::from("index of nil pointer"));
        }
        item = item_at(&item, &index.clone().unwrapped())?;
    }
    Ok(item)
}

fn item_at(item: &Value, index: &Value) -> Result<Value, Fault> {
    let plain = plain_value(item);
    let byte = |bytes: &[u8], what: &str| {
        let at = place(index, bytes.len())?;
        let byte = bytes.get(at).map(|byte| Value::Uint(UintKind::Uint8, u64::from(*byte)));
        byte.ok_or_else(|| out_of_range(what))
    };
    match &plain {
        Value::Str(text) => byte(text, "string"),
        Value::Bytes(bytes) => byte(bytes, "slice"),
        Value::List(list) => {
            let at = place(index, list.items().len())?;
            list.items().get(at).cloned().ok_or_else(|| out_of_range("slice"))
        }
        Value::Map(map) => match index {
            Value::Str(key) => Ok(map.get(key).unwrap_or_else(|| map.element().zero())),
            Value::Absent | Value::Nil => Err(Fault::from("value is nil; should be of type string")),
            other => {
                let type_name = other.type_name();
                Err(Fault::Message(format!("value has type {type_name}; should be string")))
            }
        },
        _ => Err(Fault::Message(format!("can't index item of type {}", item.type_name()))),
    }
}

/// The message of a panic of Go's reflection.
fn out_of_range(what: &str) -> Fault {
    Fault::Message(format!("reflect: {what} index out of range"))
}

/// `x[i:j:k]`. The capacity of our values is their length.
pub(crate) fn slice(args: &[Value]) -> Result<Value, Fault> {
    let item = arg(args, 0).clone().unwrapped();
    if item.is_nil() {
        return Err(Fault::from("slice of untyped nil"));
    }
    let indexes = args.get(1..).unwrap_or_default();
    if indexes.len() > 3 {
        return Err(Fault::Message(format!("too many slice indexes: {}", indexes.len())));
    }
    let plain = plain_value(&item);
    let length = match &plain {
        Value::Str(_) if indexes.len() == 3 => return Err(Fault::from("cannot 3-index slice a string")),
        Value::Str(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.items().len(),
        _ => return Err(Fault::Message(format!("can't slice item of type {}", item.type_name()))),
    };
    let mut places = [0, length, length];
    for (at, index) in indexes.iter().enumerate() {
        places[at] = place(index, length)?;
    }
    let [from, to, end] = places;
    if from > to {
        return Err(Fault::Message(format!("invalid slice index: {from} > {to}")));
    }
    if indexes.len() == 3 && to > end {
        return Err(Fault::Message(format!("invalid slice index: {to} > {end}")));
    }
    Ok(match plain {
        Value::Bytes(bytes) => Value::Bytes(bytes.get(from..to).unwrap_or_default().into()),
        Value::List(list) => {
            let items = list.items().get(from..to).unwrap_or_default().to_vec();
            Value::List(List::new(list.element().clone(), items))
        }
        Value::Str(text) => Value::string(text.get(from..to).unwrap_or_default()),
        other => other,
    })
}

/// How many items or bytes.
pub(super) fn len(item: &Value) -> Result<Value, Fault> {
    let length = match plain_value(item) {
        _ if matches!(item, Value::Nil) => return Err(Fault::from("len of nil pointer")),
        Value::Absent => return Err(Fault::from("reflect: call of reflect.Value.Type on zero Value")),
        Value::Str(text) | Value::Bytes(text) => text.len(),
        Value::List(list) => list.items().len(),
        Value::Map(map) => map.len(),
        _ => return Err(Fault::Message(format!("len of type {}", item.type_name()))),
    };
    Ok(Value::int(i64::try_from(length).unwrap_or(i64::MAX)))
}
