//! Lengths of time in nanoseconds, as `time.Duration` of Go 1.26 reads and writes them. Dates are not here yet.

use super::args::at;
use super::numbers::atoi;
use crate::function::Function;
use crate::value::{IntKind, Type, Value};

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
/// One nanosecond more than the longest, which only a negative one can have.
const MAGNITUDE_MAX: u64 = 1 << 63;

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
        Function::new("durationRound", [Type::Any], |_, args| {
            let nanoseconds = match at(args, 0) {
                Value::Str(text) => std::str::from_utf8(text).ok().and_then(read).unwrap_or(0),
                Value::Int(IntKind::Int64, nanoseconds) => *nanoseconds,
                _ => 0,
            };
            Ok(Value::from(rounded(nanoseconds.unsigned_abs())))
        }),
    ]
}

/// The greatest unit of which there is more than one whole.
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

/// `Duration.String`
fn written(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    // FIXME: Go writes what is shorter than a second in smaller units. Whole seconds are so only if they overflow.
    let seconds = size / SECOND;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!("{:09}", size % SECOND);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    let seconds = format!("{seconds}{point}{fraction}s");
    match (hours, minutes) {
        (0, 0) => format!("{sign}{seconds}"),
        (0, _) => format!("{sign}{minutes}m{seconds}"),
        _ => format!("{sign}{hours}h{minutes}m{seconds}"),
    }
}

/// `time.ParseDuration`
fn read(text: &str) -> Option<i64> {
    let is_negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (nanoseconds, behind) = part(rest)?;
        total = total.checked_add(nanoseconds).filter(|total| *total <= MAGNITUDE_MAX)?;
        rest = behind;
    }
    match is_negative {
        true => 0_i64.checked_sub_unsigned(total),
        false => i64::try_from(total).ok(),
    }
}

/// A number with its unit, and what follows.
fn part(text: &str) -> Option<(u64, &str)> {
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction = "";
    if let Some(behind) = rest.strip_prefix('.') {
        (fraction, rest) = behind.split_at(digits(behind));
    }
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let end = rest.find(|letter: char| letter == '.' || letter.is_ascii_digit());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    let unit = match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => MICROSECOND,
        "ms" => MILLISECOND,
        "s" => SECOND,
        "m" => MINUTE,
        "h" => HOUR,
        _ => return None,
    };
    let whole = if whole.is_empty() {
        0
    } else {
        whole.parse::<u64>().ok()?
    };
    let nanoseconds = whole.checked_mul(unit).filter(|product| *product <= MAGNITUDE_MAX)?;
    // Digits that no longer fit are left out.
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction.bytes() {
        let more = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')));
        let Some(more) = more.filter(|more| *more <= MAGNITUDE_MAX) else {
            break;
        };
        value = more;
        scale *= 10.0;
    }
    let behind_point = value as f64 * (unit as f64 / scale);
    nanoseconds.checked_add(behind_point as u64).map(|all| (all, rest))
}
