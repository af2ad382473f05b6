//! Integers, and floating point numbers as far as they need no decimal fractions. Whatever is no number counts as 0.

use super::args::{Answer, at, int, text};
use super::dates::number_of;
use crate::environment::error::Fault;
use crate::print::sprint;
use crate::syntax::{parse_float, parse_int};
use crate::value::function::{Function, Scope};
use crate::value::{IntKind, List, Type, Value};

/// What an `int` of a list takes: a list counts against the limit of strings.
const ITEM_BYTES: usize = 8;

pub(super) fn functions() -> Vec<Function> {
    use Type::{Any, Float, Str};
    let mut functions = vec![
        Function::new("int", [Any], |_, args| Ok(Value::int(to_int(at(args, 0))))),
        Function::new("int64", [Any], |_, args| Ok(int64(to_int(at(args, 0))))),
        Function::new("float64", [Any], |_, args| Ok(Value::Float(to_float(at(args, 0))))),
        Function::new("atoi", [Str], |_, args| Ok(Value::int(atoi(text(args, 0))))),
        Function::new("toDecimal", [Any], to_decimal),
        Function::new("add1", [Any], |_, args| Ok(int64(to_int(at(args, 0)).wrapping_add(1)))),
        Function::variadic("add", [], Any, |_, args| {
            Ok(int64(args.iter().map(to_int).fold(0, i64::wrapping_add)))
        }),
        Function::variadic("mul", [Any], Any, |_, args| {
            Ok(int64(args.iter().map(to_int).fold(1, i64::wrapping_mul)))
        }),
        Function::new("sub", [Any, Any], |_, args| {
            Ok(int64(to_int(at(args, 0)).wrapping_sub(to_int(at(args, 1)))))
        }),
        Function::new("div", [Any, Any], |_, args| divide(args, i64::wrapping_div)),
        Function::new("mod", [Any, Any], |_, args| divide(args, i64::wrapping_rem)),
        Function::new("until", [Type::INT], |scope, args| {
            let step = if int(args, 0) < 0 { -1 } else { 1 };
            Ok(ints(until_step(0, int(args, 0), step, scope)?))
        }),
        Function::new("untilStep", [Type::INT, Type::INT, Type::INT], |scope, args| {
            Ok(ints(until_step(int(args, 0), int(args, 1), int(args, 2), scope)?))
        }),
        Function::variadic("seq", [], Type::INT, seq),
        Function::new("ceil", [Any], |_, args| Ok(Value::Float(to_float(at(args, 0)).ceil()))),
        Function::new("floor", [Any], |_, args| {
            Ok(Value::Float(to_float(at(args, 0)).floor()))
        }),
        Function::variadic("round", [Any, Type::INT], Float, round),
    ];
    for (name, takes) in [
        ("max", greater as fn(i64, i64) -> bool),
        ("biggest", greater),
        ("min", less),
    ] {
        functions.push(Function::variadic(name, [Any], Any, move |_, args| {
            let found = args
                .iter()
                .map(to_int)
                .reduce(|best, next| if takes(next, best) { next } else { best });
            Ok(int64(found.unwrap_or(0)))
        }));
    }
    for (name, pick) in [("maxf", f64::max as fn(f64, f64) -> f64), ("minf", f64::min)] {
        functions.push(Function::variadic(name, [Any], Any, move |_, args| {
            // In Go, NaN among the numbers makes NaN of all.
            let numbers: Vec<f64> = args.iter().map(to_float).collect();
            let has_nan = numbers.iter().any(|number| number.is_nan());
            let found = numbers.into_iter().reduce(pick).filter(|_| !has_nan);
            Ok(Value::Float(found.unwrap_or(f64::NAN)))
        }));
    }
    functions
}

fn greater(one: i64, other: i64) -> bool {
    one > other
}

fn less(one: i64, other: i64) -> bool {
    one < other
}

fn int64(number: i64) -> Value {
    Value::Int(IntKind::Int64, number)
}

fn ints(numbers: Vec<i64>) -> Value {
    Value::List(List::new(Type::INT, numbers.into_iter().map(Value::int).collect()))
}

/// spf13/cast 1.7.0's `ToInt64`, whose errors Sprig ignores.
pub(super) fn to_int(value: &Value) -> i64 {
    match value {
        Value::Int(_, number) => *number,
        Value::Uint(_, number) => *number as i64,
        Value::Float(number) => float_to_int(*number),
        Value::Bool(value) => i64::from(*value),
        Value::Str(text) => std::str::from_utf8(without_zero_decimals(text))
            .ok()
            .and_then(parse_int)
            .unwrap_or(0),
        value => number_of(value).unwrap_or(0),
    }
}

/// As Go converts on 64-bit Intel and AMD: what does not fit is the smallest number.
fn float_to_int(number: f64) -> i64 {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if (-BOUND..BOUND).contains(&number) {
        number as i64
    } else {
        i64::MIN
    }
}

/// `8.00` is 8, as in the Go library cast.
fn without_zero_decimals(text: &[u8]) -> &[u8] {
    match text.iter().rposition(|byte| *byte != b'0') {
        Some(point) if text.get(point) == Some(&b'.') && point + 1 < text.len() => {
            text.get(..point).unwrap_or_default()
        }
        _ => text,
    }
}

/// cast's `ToFloat64`.
pub(super) fn to_float(value: &Value) -> f64 {
    match value {
        Value::Int(_, number) => *number as f64,
        Value::Uint(_, number) => *number as f64,
        Value::Float(number) => *number,
        Value::Bool(value) => f64::from(u8::from(*value)),
        Value::Str(text) => std::str::from_utf8(text).ok().and_then(parse_float).unwrap_or(0.0),
        value => number_of(value).map_or(0.0, |number| number as f64),
    }
}

/// `strconv.Atoi`: 0 for what is no number, the nearest for what is too large.
pub(super) fn atoi(text: &[u8]) -> i64 {
    let text = std::str::from_utf8(text).unwrap_or_default();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return 0;
    }
    let bound = if text.starts_with('-') { i64::MIN } else { i64::MAX };
    text.parse().unwrap_or(bound)
}

fn to_decimal(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let text = sprint(args, scope.limits.string_bytes_max)?;
    let text = String::from_utf8_lossy(&text);
    let digits = text.strip_prefix(['+', '-']).unwrap_or(&text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let number = is_number.then(|| i64::from_str_radix(&text, 8).ok()).flatten();
    Ok(int64(number.unwrap_or(0)))
}

fn divide(args: &[Value], divide: fn(i64, i64) -> i64) -> Answer {
    let by = to_int(at(args, 1));
    if by == 0 {
        return Err(Fault::from("runtime error: integer divide by zero"));
    }
    Ok(int64(divide(to_int(at(args, 0)), by)))
}

fn until_step(start: i64, stop: i64, step: i64, scope: &Scope<'_>) -> Result<Vec<i64>, Fault> {
    let goes_up = stop >= start;
    if goes_up && step <= 0 || !goes_up && step >= 0 {
        return Ok(Vec::new());
    }
    let count = start.abs_diff(stop).div_ceil(step.unsigned_abs());
    let steps = usize::try_from(count).unwrap_or(usize::MAX);
    scope.check_length(steps.saturating_mul(ITEM_BYTES))?;
    scope.spend(steps)?;
    let mut numbers = Vec::new();
    let mut next = start;
    for _ in 0..count {
        numbers.push(next);
        next = next.wrapping_add(step);
    }
    Ok(numbers)
}

fn seq(scope: &mut Scope<'_>, args: &[Value]) -> Answer {
    let numbers = match args.len() {
        1 => {
            let end = int(args, 0);
            let step = if end < 1 { -1 } else { 1 };
            until_step(1, end.wrapping_add(step), step, scope)?
        }
        2 => {
            let (start, end) = (int(args, 0), int(args, 1));
            let step = if end < start { -1 } else { 1 };
            until_step(start, end.wrapping_add(step), step, scope)?
        }
        3 => {
            let (start, step, end) = (int(args, 0), int(args, 1), int(args, 2));
            if end < start && step > 0 {
                Vec::new()
            } else {
                let increment = if end < start { -1 } else { 1 };
                until_step(start, end.wrapping_add(increment), step, scope)?
            }
        }
        _ => Vec::new(),
    };
    let texts: Vec<String> = numbers.iter().map(i64::to_string).collect();
    Ok(Value::from(texts.join(" ")))
}

/// Go's `math.Pow(10, exponent)`, which rounds at each of its steps.
fn power_of_ten(exponent: i64) -> f64 {
    /// Beyond this the power is infinite, or 0.
    const EXPONENT_MAX: u64 = 400;
    let mut left = exponent.unsigned_abs().min(EXPONENT_MAX);
    let (mut power, mut power_exponent) = (1.0_f64, 0);
    // Ten is 0.625 times two to the fourth.
    let (mut factor, mut factor_exponent) = (0.625_f64, 4);
    while left > 0 {
        if left & 1 == 1 {
            power *= factor;
            power_exponent += factor_exponent;
        }
        factor *= factor;
        factor_exponent *= 2;
        if factor < 0.5 {
            factor += factor;
            factor_exponent -= 1;
        }
        left >>= 1;
    }
    if exponent < 0 {
        power = 1.0 / power;
        power_exponent = -power_exponent;
    }
    // In two steps, so that neither power of two is out of range.
    let half = power_exponent / 2;
    power * 2f64.powi(half) * 2f64.powi(power_exponent - half)
}

fn round(_: &mut Scope<'_>, args: &[Value]) -> Answer {
    let from = match args.get(2) {
        Some(Value::Float(from)) => *from,
        _ => 0.5,
    };
    let power = power_of_ten(int(args, 1));
    let digit = power * to_float(at(args, 0));
    let rounded = if digit.fract() >= from {
        digit.ceil()
    } else {
        digit.floor()
    };
    Ok(Value::Float(rounded / power))
}
