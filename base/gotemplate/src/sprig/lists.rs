//! Lists. A function and the one whose name begins with `must` differ in Go in how they fail, and in templates not at all.

use super::args::{Answer, NIL_POINTER, at, int, items, joined, kind, string_list, string_of, strings_of, text};
use super::defaults::is_empty;
use super::equal::deep_equal;
use super::numbers::to_int;
use crate::environment::error::Fault;
use crate::value::function::{Function, Scope};
use crate::value::{List, Type, Value};

type Body = fn(&mut Scope<'_>, &[Value]) -> Answer;

pub(super) fn functions() -> Vec<Function> {
    use Type::{Any, Str};
    let list_of = |name: &str| Function::variadic(name, [], Any, |_, args| Ok(Value::list(args.to_vec())));
    let mut functions = vec![
        list_of("list"),
        list_of("tuple"),
        Function::variadic("concat", [], Any, |scope, args| {
            // Before the first is copied: a list may be given many times.
            let lengths = args.iter().map(length).fold(0, usize::saturating_add);
            scope.spend(lengths)?;
            let mut all = Vec::new();
            for list in args {
                all.extend(list_items(list, "Cannot concat type {} as list", scope)?);
            }
            Ok(if all.is_empty() { nothing() } else { Value::list(all) })
        }),
        Function::new("join", [Str, Any], |scope, args| {
            let parts = strings_of(at(args, 1), scope)?;
            joined(&parts, text(args, 0), scope)
        }),
        Function::new("toStrings", [Any], |scope, args| {
            Ok(string_list(strings_of(at(args, 0), scope)?))
        }),
        Function::new("sortAlpha", [Any], |scope, args| {
            let list = at(args, 0);
            if items(list, scope)?.is_none() {
                return Ok(string_list(vec![string_of(list, scope)?]));
            }
            let mut strings = strings_of(list, scope)?;
            // Each is compared about so many times, to its end if all begin alike.
            let rounds = strings.len().checked_ilog2().unwrap_or(0) as usize + 1;
            let bytes = strings.iter().map(|text| text.len()).fold(0, usize::saturating_add);
            scope.spend_bytes(bytes.saturating_mul(rounds))?;
            strings.sort();
            Ok(string_list(strings))
        }),
    ];
    let pairs: [(&[&str], Type, Body); 4] = [
        (&["append", "push", "mustAppend", "mustPush"], Any, push),
        (&["prepend", "mustPrepend"], Any, prepend),
        (&["has", "mustHas"], Any, has),
        (&["chunk", "mustChunk"], Type::INT, chunk),
    ];
    for (names, first, body) in pairs {
        functions.extend(names.iter().map(|name| Function::new(name, [first.clone(), Any], body)));
    }
    let singles: [(&str, &str, Body); 7] = [
        ("first", "mustFirst", first),
        ("last", "mustLast", last),
        ("rest", "mustRest", rest),
        ("initial", "mustInitial", initial),
        ("reverse", "mustReverse", reverse),
        ("compact", "mustCompact", compact),
        ("uniq", "mustUniq", uniq),
    ];
    for (name, must, body) in singles {
        functions.extend([name, must].map(|name| Function::new(name, [Any], body)));
    }
    for (name, body) in [
        ("without", without as Body),
        ("mustWithout", without),
        ("slice", slice),
        ("mustSlice", slice),
    ] {
        functions.push(Function::variadic(name, [Any], Any, body));
    }
    functions
}

/// The items of a list, each of which takes a step. For another value the error is `message` with its kind in place of `{}`.
fn list_items(list: &Value, message: &str, scope: &Scope<'_>) -> Result<Vec<Value>, Fault> {
    match items(list, scope)? {
        Some(items) => Ok(items),
        None if list.is_nil() => Err(Fault::from(NIL_POINTER)),
        None => Err(Fault::Message(message.replace("{}", kind(list)))),
    }
}

fn length(list: &Value) -> usize {
    match list {
        Value::List(list) => list.items().len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    }
}

/// The nil slice that some functions make of an empty one.
fn nothing() -> Value {
    Value::List(List::nil(Type::Any))
}

fn push(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let mut items = list_items(at(args, 0), "Cannot push on type {}", scope)?;
    items.push(at(args, 1).clone());
    Ok(Value::list(items))
}

fn prepend(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let mut items = list_items(at(args, 0), "Cannot prepend on type {}", scope)?;
    items.insert(0, at(args, 1).clone());
    Ok(Value::list(items))
}

fn is_among(wanted: &Value, items: &[Value], scope: &Scope<'_>) -> Result<bool, Fault> {
    for item in items {
        if deep_equal(wanted, item, scope)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    if at(args, 1).is_nil() {
        return Ok(Value::Bool(false));
    }
    let items = list_items(at(args, 1), "Cannot find has on type {}", scope)?;
    Ok(Value::Bool(is_among(at(args, 0), &items, scope)?))
}

fn first(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 0), "Cannot find first on type {}", scope)?;
    Ok(items.first().cloned().unwrap_or(Value::Nil))
}

fn last(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 0), "Cannot find last on type {}", scope)?;
    Ok(items.last().cloned().unwrap_or(Value::Nil))
}

fn rest(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 0), "Cannot find rest on type {}", scope)?;
    if items.is_empty() {
        return Ok(nothing());
    }
    Ok(Value::list(items.into_iter().skip(1).collect()))
}

fn initial(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let mut items = list_items(at(args, 0), "Cannot find initial on type {}", scope)?;
    match items.pop() {
        Some(_) => Ok(Value::list(items)),
        None => Ok(nothing()),
    }
}

fn reverse(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let mut items = list_items(at(args, 0), "Cannot find reverse on type {}", scope)?;
    items.reverse();
    Ok(Value::list(items))
}

fn compact(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let mut items = list_items(at(args, 0), "Cannot compact on type {}", scope)?;
    items.retain(|item| !is_empty(item));
    Ok(Value::list(items))
}

fn uniq(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 0), "Cannot find uniq on type {}", scope)?;
    let mut distinct: Vec<Value> = Vec::new();
    for item in items {
        if !is_among(&item, &distinct, scope)? {
            distinct.push(item);
        }
    }
    Ok(Value::list(distinct))
}

fn without(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 0), "Cannot find without on type {}", scope)?;
    let omitted = args.get(1..).unwrap_or_default();
    let mut remaining = Vec::new();
    for item in items {
        if !is_among(&item, omitted, scope)? {
            remaining.push(item);
        }
    }
    Ok(Value::list(remaining))
}

fn slice(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let list = at(args, 0);
    let all = list_items(list, "list should be type of slice or array but {}", scope)?;
    if all.is_empty() {
        return Ok(Value::Nil);
    }
    let bound = |place: usize, default: i64| args.get(place).map_or(default, to_int);
    let from = bound(1, 0);
    let to = bound(2, i64::try_from(all.len()).unwrap_or(i64::MAX));
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    let selected = range.and_then(|(from, to)| all.get(from..to));
    let selected = selected.ok_or_else(|| Fault::from("reflect.Value.Slice: slice index out of bounds"))?;
    Ok(match list {
        Value::Bytes(bytes) => {
            let (from, to) = range.unwrap_or_default();
            Value::Bytes(bytes.get(from..to).unwrap_or_default().into())
        }
        Value::List(list) => Value::List(List::new(list.element().clone(), selected.to_vec())),
        _ => Value::list(selected.to_vec()),
    })
}

fn chunk(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let items = list_items(at(args, 1), "Cannot chunk type {}", scope)?;
    let size = match int(args, 0) {
        size @ ..=0 => chunk_size_below_one(size, items.len())?,
        size => usize::try_from(size).unwrap_or(usize::MAX),
    };
    let items = if size == 0 { Vec::new() } else { items };
    let size = size.max(1);
    let chunks = items.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect();
    let element = Type::List(Box::new(Type::Any));
    Ok(Value::List(List::new(element, chunks)))
}

/// What Go's arithmetic on floats makes of a size below one: usually an impossible length, sometimes one chunk of one item,
/// or no chunk at all, which is 0 here.
fn chunk_size_below_one(size: i64, length: usize) -> Result<usize, Fault> {
    let below = usize::try_from(size.unsigned_abs()).unwrap_or(usize::MAX);
    match length {
        1 if below > 1 => Ok(1),
        2.. if below >= length - 1 => Ok(0),
        _ => Err(Fault::from("runtime error: makeslice: len out of range")),
    }
}
