//! Sprig's functions on lengths of time.

use super::args::at;
use super::dates::duration_text::{read, written};
use super::dates::{age, time_of};
use super::numbers::atoi;
use crate::value::function::Function;
use crate::value::{IntKind, Type, Value};

const SECOND: u64 = 1_000_000_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new("duration", [Type::Any], |_, args| {
            let seconds = match at(args, 0) {
                Value::Str(text) => atoi(text),
                Value::Int(IntKind::Int64, seconds) => *seconds,
                _ => 0,
            };
            let nanoseconds = seconds.wrapping_mul(SECOND.cast_signed());
            Ok(Value::from(written(nanoseconds)))
        }),
        Function::new("durationRound", [Type::Any], |scope, args| {
            let nanoseconds = match at(args, 0) {
                value if time_of(value).is_some() => age(value, scope)?,
                Value::Str(text) => read(text).unwrap_or(0),
                Value::Int(IntKind::Int64, nanoseconds) => *nanoseconds,
                _ => 0,
            };
            Ok(Value::from(rounded(nanoseconds.unsigned_abs())))
        }),
    ]
}

/// Whole units, of the largest unit that is shorter than the time.
fn rounded(nanoseconds: u64) -> String {
    let units = [
        (365 * DAY, "y"),
        (30 * DAY, "mo"),
        (DAY, "d"),
        (HOUR, "h"),
        (MINUTE, "m"),
        (SECOND, "s"),
    ];
    let found = units.iter().find(|(unit, _)| nanoseconds > *unit);
    found.map_or("0s".to_owned(), |(unit, name)| format!("{}{name}", nanoseconds / unit))
}
