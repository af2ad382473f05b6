//! Whole numbers that are written with a point or an exponent: Go prints a float64 that is whole without either.

use serde_json::{Number, Value};

/// Beyond this a float no longer names one integer.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The integer that a number with a point or an exponent names; none of others.
#[must_use]
pub fn whole(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    #[expect(clippy::cast_possible_truncation, reason = "whole and within 2^53")]
    let whole = (float.fract() == 0.0 && float.abs() <= EXACT_MAX).then_some(float as i64);
    whole.map(Number::from)
}

/// Writes all whole numbers of a value without a point: `1.0` and `1e0` as `1`.
pub fn without_points(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = whole(number) {
                *number = whole;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(without_points),
        Value::Object(fields) => fields.values_mut().for_each(without_points),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_lose_their_point_and_nothing_else_changes() {
        let mut value = json!({"a": [1.0, 1.5, 1e3, -0.0, 1e300], "b": {"c": -2.0, "d": "1.0"}, "e": 18_446_744_073_709_551_615_u64});
        without_points(&mut value);
        let wanted =
            json!({"a": [1, 1.5, 1000, 0, 1e300], "b": {"c": -2, "d": "1.0"}, "e": 18_446_744_073_709_551_615_u64});
        assert_eq!(value, wanted);
    }
}
