//! Lengths of time in nanoseconds, as `time.Duration` of Go 1.26 reads and writes them.

use super::read::quote;

const MICROSECOND: u64 = 1_000;
const MILLISECOND: u64 = 1_000 * MICROSECOND;
const SECOND: u64 = 1_000 * MILLISECOND;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("µs", MICROSECOND),
    ("μs", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("m", MINUTE),
    ("h", HOUR),
];
/// Go's error for most invalid texts.
const INVALID: &str = "invalid duration";
/// One nanosecond more than the longest, which only a negative one can have.
const MAGNITUDE_MAX: u64 = 1 << 63;

/// `Duration.String`
pub(crate) fn written(nanoseconds: i64) -> String {
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let size = nanoseconds.unsigned_abs();
    if size < SECOND {
        return format!("{sign}{}", written_short(size));
    }
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

/// A length below a second, in the largest unit of which it has a whole one.
fn written_short(size: u64) -> String {
    let (unit, digits, name) = match size {
        0 => return "0s".to_owned(),
        1..MICROSECOND => (1, 0, "ns"),
        MICROSECOND..MILLISECOND => (MICROSECOND, 3, "µs"),
        _ => (MILLISECOND, 6, "ms"),
    };
    let fraction = format!("{:0digits$}", size % unit);
    let fraction = fraction.trim_end_matches('0');
    let point = if fraction.is_empty() { "" } else { "." };
    format!("{}{point}{fraction}{name}", size / unit)
}

/// `time.ParseDuration`
///
/// # Errors
/// The text is no length of time: Go's message.
pub(crate) fn read(text: &[u8]) -> Result<i64, String> {
    total(text).map_err(|problem| format!("time: {problem} {}", quote(text)))
}

fn total(text: &[u8]) -> Result<i64, String> {
    let is_negative = text.first() == Some(&b'-');
    let mut rest = match text.split_first() {
        Some((b'-' | b'+', rest)) => rest,
        _ => text,
    };
    if rest == b"0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(INVALID.to_owned());
    }
    let mut total = 0_u64;
    while !rest.is_empty() {
        let (nanoseconds, behind) = part(rest)?;
        total = total
            .checked_add(nanoseconds)
            .filter(|total| *total <= MAGNITUDE_MAX)
            .ok_or(INVALID)?;
        rest = behind;
    }
    let number = match is_negative {
        true => 0_i64.checked_sub_unsigned(total),
        false => i64::try_from(total).ok(),
    };
    number.ok_or_else(|| INVALID.to_owned())
}

/// A number with its unit, and what follows.
fn part(text: &[u8]) -> Result<(u64, &[u8]), String> {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (whole, mut rest) = text.split_at(digits(text));
    let mut fraction: &[u8] = b"";
    if let Some(behind) = rest.strip_prefix(b".") {
        (fraction, rest) = behind.split_at(digits(behind));
    }
    let whole = number(whole).ok_or(INVALID)?;
    if whole.is_none() && fraction.is_empty() {
        return Err(INVALID.to_owned());
    }
    let end = rest.iter().position(|byte| *byte == b'.' || byte.is_ascii_digit());
    let (unit, rest) = rest.split_at(end.unwrap_or(rest.len()));
    if unit.is_empty() {
        return Err("missing unit in duration".to_owned());
    }
    let Some((_, unit)) = UNITS.iter().find(|(name, _)| name.as_bytes() == unit) else {
        return Err(format!("unknown unit {} in duration", quote(unit)));
    };
    let nanoseconds = whole.unwrap_or(0).checked_mul(*unit);
    let nanoseconds = nanoseconds.filter(|product| *product <= MAGNITUDE_MAX).ok_or(INVALID)?;
    // Digits that no longer fit are left out.
    let (mut value, mut scale) = (0_u64, 1.0_f64);
    for digit in fraction {
        let more = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(u64::from(digit - b'0')));
        let Some(more) = more.filter(|more| *more <= MAGNITUDE_MAX) else {
            break;
        };
        value = more;
        scale *= 10.0;
    }
    let behind_point = value as f64 * (*unit as f64 / scale);
    let all = nanoseconds.checked_add(behind_point as u64);
    all.filter(|all| *all <= MAGNITUDE_MAX)
        .map(|all| (all, rest))
        .ok_or_else(|| INVALID.to_owned())
}

/// A whole number, nothing where there are no digits; none at all if it is too large.
fn number(digits: &[u8]) -> Option<Option<u64>> {
    if digits.is_empty() {
        return Some(None);
    }
    let mut number = 0_u64;
    for digit in digits {
        number = number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
    }
    Some(Some(number).filter(|number| *number <= MAGNITUDE_MAX)).filter(Option::is_some)
}
