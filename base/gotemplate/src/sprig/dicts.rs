//! Dictionaries.

use super::args::{Answer, at, map, map_type, string_of, text};
use crate::environment::error::Fault;
use crate::environment::limits::MAP_STEPS;
use crate::text::Str;
use crate::value::function::{Function, Scope};
use crate::value::{List, Map, Type, Value};

const NIL_MAP: &str = "assignment to entry in nil map";

pub(super) fn functions() -> Vec<Function> {
    use Type::{Any, Str as Text};
    let map_any = map_type;
    vec![
        Function::variadic("dict", [], Any, dict),
        Function::new("get", [map_any(), Text], |_, args| {
            Ok(map(args, 0).get(text(args, 1)).unwrap_or_else(|| Value::from("")))
        }),
        Function::new("set", [map_any(), Text, Any], |scope, args| {
            let map = map(args, 0);
            if map.is_nil() {
                return Err(Fault::from(NIL_MAP));
            }
            scope.shared.change(&map, text(args, 1).into(), at(args, 2).clone());
            Ok(Value::Map(map))
        }),
        Function::new("unset", [map_any(), Text], |_, args| {
            let map = map(args, 0);
            map.unset(text(args, 1));
            Ok(Value::Map(map))
        }),
        Function::new("hasKey", [map_any(), Text], |_, args| {
            Ok(Value::Bool(map(args, 0).has(text(args, 1))))
        }),
        Function::variadic("pluck", [Text], map_any(), |_, args| {
            let maps = (1..args.len()).map(|place| map(args, place));
            Ok(Value::list(maps.filter_map(|map| map.get(text(args, 0))).collect()))
        }),
        Function::variadic("keys", [], map_any(), |scope, args| {
            // Go gives them in no order; ours is one that it may give.
            let mut keys = Vec::new();
            for place in 0..args.len() {
                let map = map(args, place);
                scope.spend(map.len())?;
                keys.extend(map.entries().into_iter().map(|(key, _)| Value::Str(key)));
            }
            Ok(Value::List(List::new(Type::Str, keys)))
        }),
        Function::new("values", [map_any()], |_, args| {
            let entries = map(args, 0).entries().into_iter();
            Ok(Value::list(entries.map(|(_, value)| value).collect()))
        }),
        Function::variadic("pick", [map_any()], Text, |_, args| {
            let map = map(args, 0);
            let picked = args.iter().skip(1).filter_map(|key| match key {
                Value::Str(key) => Some((key.clone(), map.get(key)?)),
                _ => None,
            });
            Ok(Value::map(picked.collect::<Vec<_>>()))
        }),
        Function::variadic("omit", [map_any()], Text, |scope, args| {
            scope.spend(map(args, 0).len().saturating_mul(args.len()))?;
            let is_omitted = |key: &Str| {
                args.iter()
                    .skip(1)
                    .any(|arg| matches!(arg, Value::Str(arg) if arg == key))
            };
            let entries = map(args, 0).entries().into_iter();
            Ok(Value::map(entries.filter(|(key, _)| !is_omitted(key))))
        }),
        Function::variadic("dig", [], Any, dig),
    ]
}

fn dict(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    scope.spend(MAP_STEPS)?;
    let made = Map::new::<Str>(Type::Any, []);
    for pair in args.chunks(2) {
        let value = pair.get(1).cloned().unwrap_or_else(|| Value::from(""));
        made.set(string_of(at(pair, 0), scope)?, value);
    }
    Ok(Value::Map(made))
}

fn dig(_: &mut Scope<'_>, args: &[Value]) -> Answer {
    let Some(([default, dict], keys)) = args
        .split_last_chunk::<2>()
        .map(|(keys, last)| (last, keys))
        .filter(|(_, keys)| !keys.is_empty())
    else {
        return Err(Fault::from("dig needs at least three arguments"));
    };
    let mut step = as_map(dict)?;
    let mut names = Vec::new();
    for key in keys {
        match key {
            Value::Str(key) => names.push(key),
            other => return Err(conversion(other, "string")),
        }
    }
    let Some((last, before)) = names.split_last() else {
        return Ok(default.clone());
    };
    for name in before {
        match step.get(name) {
            None => return Ok(default.clone()),
            Some(value) => step = as_map(&value)?,
        }
    }
    Ok(step.get(last).unwrap_or_else(|| default.clone()))
}

fn as_map(value: &Value) -> Result<Map, Fault> {
    match value {
        Value::Map(map) if map.type_of() == Type::Map(Box::new(Type::Any)) => Ok(map.clone()),
        other => Err(conversion(other, "map[string]interface {}")),
    }
}

/// Go's error for a value of another type than expected.
fn conversion(value: &Value, wanted: &str) -> Fault {
    let found = if value.is_nil() {
        "nil".into()
    } else {
        value.type_name()
    };
    Fault::Message(format!("interface conversion: interface {{}} is {found}, not {wanted}"))
}
