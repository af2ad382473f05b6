//! Reading fields into cells. A pointer is a JSON pointer (`/status/phase`).

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::human_duration;

pub(crate) const NONE: &str = "<none>";
pub(crate) const UNSET: &str = "<unset>";
pub(crate) const UNKNOWN: &str = "<unknown>";

pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The text, or `missing` when it is absent or empty.
pub(crate) fn text_or<'a>(object: &'a Value, pointer: &str, missing: &'a str) -> &'a str {
    Some(text(object, pointer))
        .filter(|text| !text.is_empty())
        .unwrap_or(missing)
}

pub(crate) fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

pub(crate) fn flag(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

pub(crate) fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default()
}

pub(crate) fn has(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).is_some_and(|value| !value.is_null())
}

/// Entries of a map.
pub(crate) fn count(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

pub(crate) fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

pub(crate) fn time(object: &Value, pointer: &str) -> Option<Timestamp> {
    text(object, pointer).parse().ok()
}

/// Time since, as an age.
pub(crate) fn since(then: Option<Timestamp>, now: Timestamp) -> String {
    then.map_or_else(|| UNKNOWN.to_owned(), |then| human_duration(seconds(then, now)))
}

/// Whole seconds between two instants, towards zero.
pub(crate) fn seconds(from: Timestamp, to: Timestamp) -> i64 {
    to.duration_since(from).as_secs()
}

pub(crate) fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(time(object, "/metadata/creationTimestamp"), now))
}

pub(crate) fn deleting(object: &Value) -> bool {
    has(object, "/metadata/deletionTimestamp")
}

/// The condition of a type, if its status is as given.
pub(crate) fn condition_is(object: &Value, type_: &str, status: &str) -> bool {
    list(object, "/status/conditions")
        .iter()
        .any(|condition| text(condition, "/type") == type_ && text(condition, "/status") == status)
}

/// `a,b` or `missing` when there is nothing.
pub(crate) fn join<T: AsRef<str>>(parts: impl IntoIterator<Item = T>, separator: &str, missing: &str) -> String {
    let parts: Vec<T> = parts.into_iter().collect();
    if parts.is_empty() {
        return missing.to_owned();
    }
    parts.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(separator)
}

/// Names and images of a pod template's containers.
pub(crate) fn containers(object: &Value, pointer: &str) -> [Value; 2] {
    let all = list(object, &format!("{pointer}/spec/containers"));
    let part = |field: &str| json!(join(all.iter().map(|container| text(container, field)), ",", ""));
    [part("/name"), part("/image")]
}

/// A label selector as kubectl prints it: `app=x,tier in (a,b),!legacy`.
pub(crate) fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = object.pointer(pointer).filter(|selector| !selector.is_null()) else {
        return NONE.to_owned();
    };
    let mut parts = map_parts(selector.get("matchLabels"));
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let values = join(list(expression, "/values").iter().filter_map(Value::as_str), ",", "");
        parts.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    join(parts, ",", NONE)
}

/// A map as `a=b,c=d`.
pub(crate) fn pairs(object: &Value, pointer: &str) -> String {
    join(map_parts(object.pointer(pointer)), ",", NONE)
}

fn map_parts(map: Option<&Value>) -> Vec<String> {
    let entries = map.and_then(Value::as_object).into_iter().flatten();
    entries
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect()
}

/// At most three, then ` + n more...`.
pub(crate) fn first_three(all: &[String], missing: &str) -> String {
    const SHOWN: usize = 3;
    let shown = all[..all.len().min(SHOWN)].join(",");
    match all.len() {
        count if count > SHOWN => format!("{shown} + {} more...", count - SHOWN),
        // One that has no name shows as none.
        _ if shown.is_empty() => missing.to_owned(),
        _ => shown,
    }
}

pub(crate) fn name_and_creation(object: &Value, _: Timestamp) -> Vec<Value> {
    vec![name(object), json!(text(object, "/metadata/creationTimestamp"))]
}
