//! Numbers and dates of TOML.

use crate::environment::error::Fault;
use crate::sprig::dates::{self, Form, Zone};
use crate::text::quote::quoted;
use crate::value::function::Scope;
use crate::value::{IntKind, Value};

/// The layouts of dates, in the order in which they are tried.
const LAYOUTS: [(&[u8], Form); 7] = [
    (b"2006-01-02T15:04:05.999999999Z07:00", Form::Zoned),
    (b"2006-01-02T15:04:05.999999999", Form::DateTime),
    (b"2006-01-02", Form::Date),
    (b"15:04:05.999999999", Form::Time),
    (b"2006-01-02T15:04Z07:00", Form::Zoned),
    (b"2006-01-02T15:04", Form::DateTime),
    (b"15:04", Form::Time),
];
const FLOATS: [&[u8]; 6] = [b"nan", b"+nan", b"-nan", b"inf", b"-inf", b"+inf"];

/// Whether each underscore stands between digits.
fn underscores_are_right(text: &[u8]) -> bool {
    if FLOATS.contains(&text) {
        return true;
    }
    let mut is_digit = false;
    for byte in text {
        if *byte == b'_' && !is_digit {
            return false;
        }
        is_digit = byte.is_ascii_hexdigit();
    }
    is_digit
}

fn has_leading_zero(text: &[u8]) -> bool {
    match text {
        [b'0', b'b' | b'o' | b'x', ..] => false,
        [b'0', _, ..] | [b'-' | b'+', b'0', _, ..] => true,
        _ => false,
    }
}

fn lossy(text: &[u8]) -> String {
    String::from_utf8_lossy(text).into_owned()
}

pub(super) fn integer(text: &[u8]) -> Result<Value, String> {
    if !underscores_are_right(text) {
        return Err(format!(
            "Invalid integer {}: underscores must be surrounded by digits",
            quoted(text)
        ));
    }
    if has_leading_zero(text) {
        return Err(format!("Invalid integer {}: cannot have leading zeroes", quoted(text)));
    }
    let digits = lossy(text).replace('_', "");
    let bases = [("0x", 16), ("0o", 8), ("0b", 2)];
    let number = match bases
        .iter()
        .find_map(|(mark, base)| Some((digits.strip_prefix(mark)?, *base)))
    {
        Some((digits, base)) => i64::from_str_radix(digits, base),
        None => digits.parse(),
    };
    let number = number.map_err(|_| format!("{} is out of range for int64", lossy(text)))?;
    Ok(Value::Int(IntKind::Int64, number))
}

pub(super) fn float(text: &[u8]) -> Result<Value, String> {
    let written = quoted(text);
    let is_between = |byte: &u8| matches!(byte, b'.' | b'e' | b'E');
    let mut parts = text.split(is_between).filter(|part| !part.is_empty());
    if !parts.clone().all(underscores_are_right) {
        return Err(format!(
            "Invalid float {written}: underscores must be surrounded by digits"
        ));
    }
    if parts.next().is_some_and(has_leading_zero) {
        return Err(format!("Invalid float {written}: cannot have leading zeroes"));
    }
    let mut behind_points = text.split(|byte| *byte == b'.').skip(1);
    if !behind_points.all(|part| part.first().is_some_and(u8::is_ascii_digit)) {
        return Err(format!(
            "Invalid float {written}: '.' must be followed by one or more digits"
        ));
    }
    let plain = lossy(text).replace('_', "");
    if plain == "-nan" {
        return Ok(Value::Float(f64::NAN.copysign(-1.0)));
    }
    let number: f64 = plain.parse().map_err(|_| format!("Invalid float value: {written}"))?;
    if number.is_infinite() && !FLOATS.contains(&text) {
        return Err(format!("{} is out of range for float64", lossy(text)));
    }
    Ok(Value::Float(number))
}

/// A date, a time of the day, or both.
pub(super) fn date_time(text: &[u8], scope: &Scope<'_>) -> Result<Result<Value, String>, Fault> {
    let text: Vec<u8> = text
        .trim_ascii()
        .iter()
        .map(|byte| match byte {
            b'z' => b'Z',
            b't' | b' ' => b'T',
            byte => *byte,
        })
        .collect();
    scope.spend(text.len())?;
    let local = Zone::Local(dates::local(scope));
    for (layout, form) in LAYOUTS {
        let zone = match form {
            Form::Zoned => local.clone(),
            form => Zone::of_form(form, dates::local_offset(scope)),
        };
        let Ok(time) = dates::parse(layout, &text, &zone) else {
            continue;
        };
        if lacks_zero(&text, layout) {
            break;
        }
        return Ok(Ok(time.into()));
    }
    Ok(Err(format!("invalid datetime: {}", quoted(&text))))
}

/// Whether a number has fewer digits than in the layout: the separators are then not at their places.
fn lacks_zero(text: &[u8], layout: &[u8]) -> bool {
    let fixed = layout.iter().take_while(|byte| !matches!(byte, b'.' | b'Z'));
    fixed
        .enumerate()
        .any(|(at, byte)| !byte.is_ascii_digit() && text.get(at) != Some(byte))
}
