//! Whether two JSON texts mean the same to an API server, which sorts members, compacts, prints numbers and escapes its own
//! way, and may drop members that are null.

use api_meta::RawJson;
use serde_json::{Map, Number, Value};

/// Compares two states. A text that is no JSON of this library (a number beyond a float) is compared byte for byte.
pub(crate) fn is_same(one: Option<&RawJson>, other: Option<&RawJson>) -> bool {
    let (Some(one), Some(other)) = (one, other) else {
        return is_nothing(one) && is_nothing(other);
    };
    if one.get() == other.get() {
        return true;
    }
    match (one.decode::<Value>(), other.decode::<Value>()) {
        (Ok(one), Ok(other)) => same(&one, &other),
        _ => false,
    }
}

fn is_nothing(raw: Option<&RawJson>) -> bool {
    raw.is_none_or(|raw| raw.get() == "null")
}

fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => same_members(one, other),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same(one, other))
        }
        (Value::Number(one), Value::Number(other)) => same_number(one, other),
        _ => one == other,
    }
}

/// Whether the members are the same; one that is null may be missing. Each pair is compared once, whatever its depth.
fn same_members(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let null = &Value::Null;
    let mut beyond = other.iter().filter(|(name, _)| !one.contains_key(*name));
    one.iter()
        .all(|(name, value)| same(value, other.get(name).unwrap_or(null)))
        && beyond.all(|(_, value)| value.is_null())
}

/// Go reads `1.0` as the number 1, and prints an integer beyond 64 bits as a float.
fn same_number(one: &Number, other: &Number) -> bool {
    one == other || (one.is_f64() || other.is_f64()) && one.as_f64() == other.as_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, expected: bool) {
        let raw = |text: &str| (!text.is_empty()).then(|| RawJson::parse(text).unwrap());
        assert_eq!(
            is_same(raw(one).as_ref(), raw(other).as_ref()),
            expected,
            "{one} {other}"
        );
        assert_eq!(
            is_same(raw(other).as_ref(), raw(one).as_ref()),
            expected,
            "{other} {one}"
        );
    }

    #[test]
    fn states_are_compared_by_meaning() {
        check(r#"{"b": [1, "\u00e9"], "a": {}}"#, r#"{"a":{},"b":[1,"é"]}"#, true);
        check(r#"{"a":1.0,"c":null}"#, r#"{"a":1}"#, true);
        check(r#"{"a":18446744073709551615}"#, r#"{"a":1.8446744073709552e19}"#, true);
        check("", "null", true);
        check("", "{}", false);
        check(r#"{"a":9007199254740993}"#, r#"{"a":9007199254740992}"#, false);
        check(r#"{"a":[null]}"#, r#"{"a":[]}"#, false);
        check(r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false);
        check(r#"{"a":1e400}"#, r#"{"a":1e400}"#, true);
        check(r#"{"a":1e400}"#, r#"{"a": 1e400}"#, false);
        check(r#"{"a":{"b":null}}"#, r#"{"a":{}}"#, true);
        check(r#"{"a":1}"#, r#"{"a":1,"b":2}"#, false);
    }

    /// With two comparisons at each level this would not end.
    #[test]
    fn deep_states_are_compared_once_at_each_level() {
        let nested = |inner: &str| format!("{}{inner}{}", "{\"a\":".repeat(100), "}".repeat(100));
        check(&nested("1"), &nested("1.0"), true);
        check(&nested("1"), &nested("2"), false);
    }
}
