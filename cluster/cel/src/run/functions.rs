//! What expressions may use that the interpreter does not know by itself: loops with two variables, types as values, functions
//! of cel-go v0.26 (`ext/comprehensions.go`, `ext/lists.go`, `common/stdlib`). It checks nothing.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::mem::discriminant;
use std::sync::Arc;

use chrono::{DateTime, FixedOffset};
use kube_cel::cel::common::ast::{CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, operators};
use kube_cel::cel::extractors::{Arguments, This};
use kube_cel::cel::objects::{Key, Map, OptionalValue};
use kube_cel::cel::{Context, ExecutionError, FunctionContext, ResolveResult, Value as CelValue, functions};

use crate::run::meter::{spend, weight};
use crate::syntax::macros::{MAP_INSERT, SORT_BY_KEYS};
use crate::syntax::nodes::each_part_mut;

/// What a loop with two variables runs over, and its variable; no expression can spell them.
const ENTRIES: &str = "@entries";
const ENTRY: &str = "@entry";

/// Types whose names have dots.
const QUALIFIED: [&str; 4] = [
    "google.protobuf.Duration",
    "google.protobuf.Timestamp",
    "net.CIDR",
    "net.IP",
];

/// How often a value is compared while a list is sorted: a list has less than 2^20 elements.
const SORT_STEPS: u64 = 20;

/// Writes in the interpreter's own terms what it does not know.
pub(crate) fn lower(node: &mut IdedExpr) {
    if let Some(name) = qualified_type(node) {
        node.expr = Expr::Literal(LiteralValue::String(name.into()));
        return;
    }
    each_part_mut(&mut node.expr, &mut lower);
    if let Expr::Comprehension(inner) = &mut node.expr
        && let Some(second) = inner.iter_var2.take()
    {
        over_entries(inner, second);
    }
}

fn qualified_type(node: &IdedExpr) -> Option<&'static str> {
    let Expr::Select(select) = &node.expr else { return None };
    QUALIFIED.into_iter().find(|name| {
        let (before, last) = name.rsplit_once('.').unwrap_or_default();
        select.field == last && !select.test && is_path(&select.operand, before)
    })
}

fn is_path(node: &IdedExpr, path: &str) -> bool {
    match (&node.expr, path.rsplit_once('.')) {
        (Expr::Ident(name), None) => name == path,
        (Expr::Select(select), Some((before, last))) => select.field == last && is_path(&select.operand, before),
        _ => false,
    }
}

/// A loop over pairs, whose step gives both halves a name.
fn over_entries(inner: &mut ComprehensionExpr, second: String) {
    let id = inner.iter_range.id;
    let made = |expr: Expr| IdedExpr { id, expr };
    let call = |function: &str, args: Vec<IdedExpr>| {
        made(Expr::Call(CallExpr {
            func_name: function.to_owned(),
            target: None,
            args,
        }))
    };
    let range = std::mem::take(&mut inner.iter_range);
    inner.iter_range = call(ENTRIES, vec![range]);
    let first = std::mem::replace(&mut inner.iter_var, ENTRY.to_owned());
    for (half, name) in [(1, second), (0, first)] {
        let entry = made(Expr::Ident(ENTRY.to_owned()));
        let index = made(Expr::Literal(LiteralValue::Int(half.into())));
        // A loop that never runs.
        let bound = ComprehensionExpr {
            iter_range: made(Expr::List(ListExpr::default())),
            iter_var: "#unused".to_owned(),
            iter_var2: None,
            accu_var: name.clone(),
            accu_init: call(operators::INDEX, vec![entry, index]),
            loop_cond: made(Expr::Literal(LiteralValue::Boolean(false.into()))),
            loop_step: made(Expr::Ident(name)),
            result: std::mem::take(&mut inner.loop_step),
        };
        inner.loop_step = made(Expr::Comprehension(Box::new(bound)));
    }
}

/// Adds what lowered expressions call, and what the library lacks.
pub(crate) fn register(context: &mut Context<'_>) {
    context.add_function(ENTRIES, entries);
    context.add_function(MAP_INSERT, map_insert);
    context.add_function(SORT_BY_KEYS, sort_by_keys);
    context.add_function("sort", |This(list): This<Arc<Vec<CelValue>>>| -> ResolveResult {
        sort_by_keys(This(list.clone()), list)
    });
    context.add_function("dyn", |value: CelValue| -> ResolveResult {
        spend(weight(&value));
        Ok(value)
    });
    context.add_function("bool", |value: CelValue| -> ResolveResult {
        match &value {
            CelValue::Bool(_) => Ok(value),
            CelValue::String(text) => match text.as_str() {
                "1" | "t" | "true" | "TRUE" | "True" => Ok(CelValue::Bool(true)),
                "0" | "f" | "false" | "FALSE" | "False" => Ok(CelValue::Bool(false)),
                _ => Err(no_conversion("bool")),
            },
            _ => Err(ExecutionError::NoSuchOverload),
        }
    });
    context.add_function("timestamp", |value: CelValue| -> ResolveResult {
        match &value {
            CelValue::Int(seconds) => {
                let time = DateTime::from_timestamp(*seconds, 0).ok_or_else(|| no_conversion("timestamp"))?;
                Ok(CelValue::Timestamp(time.into()))
            }
            CelValue::String(text) => DateTime::<FixedOffset>::parse_from_rfc3339(text)
                .map(CelValue::Timestamp)
                .map_err(|_| no_conversion("timestamp")),
            CelValue::Timestamp(_) => Ok(value),
            _ => Err(ExecutionError::NoSuchOverload),
        }
    });
    context.add_function(
        "int",
        |call: &FunctionContext<'_, '_>, this: This<CelValue>| -> ResolveResult {
            match &this.0 {
                CelValue::Timestamp(time) => Ok(CelValue::Int(time.timestamp())),
                CelValue::Duration(duration) => {
                    let whole = duration.num_nanoseconds();
                    whole.map(CelValue::Int).ok_or_else(|| no_conversion("int"))
                }
                _ => functions::int(call, this),
            }
        },
    );
    context.add_function(
        "string",
        |call: &FunctionContext<'_, '_>, this: This<CelValue>| -> ResolveResult {
            match &this.0 {
                CelValue::Duration(duration) => {
                    let seconds = duration.num_microseconds().unwrap_or(i64::MAX) as f64 / 1e6;
                    Ok(CelValue::String(Arc::new(format!("{seconds}s"))))
                }
                CelValue::Bool(truth) => Ok(CelValue::String(Arc::new(truth.to_string()))),
                _ => functions::string(call, this),
            }
        },
    );
    for name in ["unwrapOpt", "optional.unwrap"] {
        context.add_function(name, |This(list): This<CelValue>| -> ResolveResult {
            unwrap_all(&list)
        });
    }
}

fn no_conversion(to: &str) -> ExecutionError {
    ExecutionError::function_error(to, format!("type conversion error to '{to}'"))
}

/// The pairs of a list's places, or a map's keys, and what is there.
fn entries(of: CelValue) -> ResolveResult {
    spend(weight(&of));
    let pair = |key: CelValue, value: &CelValue| CelValue::List(Arc::new(vec![key, value.clone()]));
    let pairs: Vec<CelValue> = match &of {
        CelValue::List(items) => (0..)
            .zip(items.iter())
            .map(|(index, item)| pair(CelValue::Int(index), item))
            .collect(),
        CelValue::Map(map) => map.map.iter().map(|(key, value)| pair(of_key(key), value)).collect(),
        _ => return Err(ExecutionError::NoSuchOverload),
    };
    Ok(CelValue::List(Arc::new(pairs)))
}

fn of_key(key: &Key) -> CelValue {
    match key {
        Key::Int(number) => CelValue::Int(*number),
        Key::Uint(number) => CelValue::UInt(*number),
        Key::Bool(truth) => CelValue::Bool(*truth),
        Key::String(text) => CelValue::String(text.clone()),
    }
}

fn to_key(value: &CelValue) -> Option<Key> {
    Some(match value {
        CelValue::Int(number) => Key::Int(*number),
        CelValue::UInt(number) => Key::Uint(*number),
        CelValue::Bool(truth) => Key::Bool(*truth),
        CelValue::String(text) => Key::String(text.clone()),
        _ => return None,
    })
}

/// A map with one more entry, or with those of another one.
fn map_insert(Arguments(arguments): Arguments) -> ResolveResult {
    let mut arguments = arguments.iter();
    let Some(CelValue::Map(map)) = arguments.next() else {
        return Err(ExecutionError::NoSuchOverload);
    };
    spend(map.map.len() as u64);
    let mut entries: HashMap<Key, CelValue> = (*map.map).clone();
    let mut insert = |key: Key, value: CelValue| match entries.contains_key(&key) {
        true => {
            let why = format!("insert failed: key {key} already exists");
            Err(ExecutionError::function_error(MAP_INSERT, why))
        }
        false => {
            entries.insert(key, value);
            Ok(())
        }
    };
    match (arguments.next(), arguments.next()) {
        (Some(key), Some(value)) => {
            let key = to_key(key).ok_or_else(|| ExecutionError::UnsupportedKeyType(key.clone()))?;
            insert(key, value.clone())?;
        }
        (Some(CelValue::Map(more)), None) => {
            for (key, value) in more.map.iter() {
                insert(key.clone(), value.clone())?;
            }
        }
        _ => return Err(ExecutionError::NoSuchOverload),
    }
    Ok(CelValue::Map(Map { map: Arc::new(entries) }))
}

/// A list in the order of the keys that belong to its elements (google/cel-go v0.26 `ext/lists.go`).
fn sort_by_keys(This(list): This<Arc<Vec<CelValue>>>, keys: Arc<Vec<CelValue>>) -> ResolveResult {
    if list.len() != keys.len() {
        return Err(ExecutionError::NoSuchOverload);
    }
    let sizes = list.iter().chain(keys.iter()).map(weight).sum::<u64>();
    spend(sizes.saturating_mul(SORT_STEPS));
    if let Some(first) = keys.first() {
        if compared(first, first).is_none() {
            return Err(unsortable("list elements must be comparable"));
        }
        if keys.iter().any(|key| discriminant(key) != discriminant(first)) {
            return Err(unsortable("list elements must have the same type"));
        }
    }
    let mut places: Vec<usize> = (0..list.len()).collect();
    places.sort_by(|one, other| compared(&keys[*one], &keys[*other]).unwrap_or(Ordering::Equal));
    let sorted = places.into_iter().map(|place| list[place].clone()).collect();
    Ok(CelValue::List(Arc::new(sorted)))
}

fn unsortable(why: &str) -> ExecutionError {
    ExecutionError::function_error("sort", why)
}

/// How two values of one type follow each other, if it has an order. What is no number comes last.
fn compared(one: &CelValue, other: &CelValue) -> Option<Ordering> {
    match (one, other) {
        (CelValue::Null, _) => None,
        (CelValue::Bytes(one), CelValue::Bytes(other)) => Some(one.cmp(other)),
        (CelValue::Float(one), CelValue::Float(other)) => {
            let by_number = one.partial_cmp(other);
            Some(by_number.unwrap_or_else(|| one.is_nan().cmp(&other.is_nan())))
        }
        _ => one.partial_cmp(other),
    }
}

/// What the optional values of a list hold.
fn unwrap_all(list: &CelValue) -> ResolveResult {
    let CelValue::List(items) = list else {
        return Err(ExecutionError::NoSuchOverload);
    };
    spend(weight(list));
    let mut held = Vec::new();
    for item in items.iter() {
        match <&OptionalValue>::try_from(item) {
            Ok(optional) => held.extend(optional.value().cloned()),
            Err(_) => return Err(ExecutionError::NoSuchOverload),
        }
    }
    Ok(CelValue::List(Arc::new(held)))
}
