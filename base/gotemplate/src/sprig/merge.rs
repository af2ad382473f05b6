//! `merge` and `mergeOverwrite`, by the rules of mergo 1.0.1, and `deepCopy`. The first dictionary is changed.

use super::args::{Answer, at, map, map_type};
use crate::environment::error::{Fault, LimitError, PrintError};
use crate::environment::limits::MAP_STEPS;
use crate::value::function::{Function, Scope};
use crate::value::{List, Map, Type, Value};

/// How deep dictionaries may nest to be copied: a dictionary can hold itself, where Go runs out of stack.
const DEPTH_MAX: usize = 200;

pub(super) fn functions() -> Vec<Function> {
    let named = |name: &str, overwrites: bool| {
        Function::variadic(
            name,
            [map_type()],
            map_type(),
            move |scope: &mut Scope<'_>, args: &[Value]| {
                let mut into = map(args, 0);
                for place in 1..args.len() {
                    let from = map(args, place);
                    if into.is_nil() && !from.is_empty() {
                        into = Map::new::<&str>(Type::Any, []);
                    }
                    merge(&into, &from, overwrites, scope)?;
                }
                Ok(Value::Map(into))
            },
        )
    };
    let copy = |name: &str| Function::new(name, [Type::Any], |scope, args| copy(at(args, 0), scope));
    vec![
        named("merge", false),
        named("mustMerge", false),
        named("mergeOverwrite", true),
        named("mustMergeOverwrite", true),
        copy("deepCopy"),
        copy("mustDeepCopy"),
    ]
}

/// It takes a step for each entry.
fn merge(into: &Map, from: &Map, overwrites: bool, scope: &Scope<'_>) -> Result<(), Fault> {
    let mut open = vec![(into.clone(), from.clone(), 0)];
    while let Some((into, from, depth)) = open.pop() {
        if into.is(&from) {
            continue;
        }
        if depth > DEPTH_MAX {
            return Err(too_deep());
        }
        scope.spend(from.len())?;
        for (key, value) in from.entries() {
            scope.spend_bytes(key.len())?;
            let before = into.get(&key);
            let is_empty = before.as_ref().is_none_or(|before| !before.is_true());
            match (&value, &before) {
                (Value::Nil | Value::Absent, _) if !overwrites => {}
                (Value::Map(value_map), Some(Value::Map(before_map)))
                    if !before_map.is_empty() || !value_map.is_empty() =>
                {
                    open.push((before_map.clone(), value_map.clone(), depth + 1));
                }
                _ if overwrites || is_empty => scope.shared.change(&into, key, value),
                _ => {}
            }
        }
    }
    Ok(())
}

fn too_deep() -> Fault {
    Fault::Limit(LimitError::Value(PrintError::TooDeep))
}

/// A copy that shares no dictionary with the value. It takes a step for each value, and some for each dictionary.
fn copy(value: &Value, scope: &Scope<'_>) -> Answer {
    if value.is_nil() {
        return Err(Fault::from("reflect: call of reflect.Value.Type on zero Value"));
    }
    copy_at(value, 0, scope)
}

fn copy_at(value: &Value, depth: usize, scope: &Scope<'_>) -> Answer {
    if depth > DEPTH_MAX {
        return Err(too_deep());
    }
    Ok(match value {
        Value::List(list) => {
            scope.spend(1 + list.items().len())?;
            let items = list.items().iter().map(|item| copy_at(item, depth + 1, scope));
            Value::List(List::new(list.element().clone(), items.collect::<Result<_, _>>()?))
        }
        Value::Map(map) => {
            scope.spend(MAP_STEPS + map.len())?;
            let copied = Map::new::<&str>(map.element().clone(), []);
            for (key, value) in map.entries() {
                scope.spend_bytes(key.len())?;
                copied.set(key, copy_at(&value, depth + 1, scope)?);
            }
            Value::Map(copied)
        }
        value => value.clone(),
    })
}
