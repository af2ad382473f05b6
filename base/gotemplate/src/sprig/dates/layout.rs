//! Layouts of Go 1.26's package `time`: the parts that a layout consists of, and writing a moment by one.

use super::time::Time;

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
pub(super) const DAYS: [&str; 7] = [
    "Sunday",
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
];
/// How many letters a short name has.
pub(super) const SHORT: usize = 3;
/// The bits in which Go stores the number of a fraction's digits.
const DIGITS_MASK: usize = 0xfff;
/// Digits of a fraction of a second that mean something.
const DIGITS: usize = 9;

/// `time.RFC3339Nano`
pub(crate) const RFC3339_NANO: &[u8] = b"2006-01-02T15:04:05.999999999Z07:00";
/// What `Time.String` writes.
pub(super) const STRING: &[u8] = b"2006-01-02 15:04:05.999999999 -0700 MST";

/// A part of a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    LongMonth,
    Month,
    NumMonth,
    ZeroMonth,
    LongWeekday,
    Weekday,
    Day,
    UnderDay,
    ZeroDay,
    UnderYearDay,
    ZeroYearDay,
    Hour,
    Hour12,
    ZeroHour12,
    Minute,
    ZeroMinute,
    Second,
    ZeroSecond,
    LongYear,
    Year,
    /// `PM`
    Upper,
    /// `pm`
    Lower,
    /// `MST`
    ZoneName,
    Offset {
        /// `Z` in place of no offset
        is_iso: bool,
        shape: Shape,
    },
    Fraction {
        /// As many digits as there are, and no zeros at the end
        is_trimmed: bool,
        digits: usize,
        separator: u8,
    },
}

/// How an offset is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// `07`
    Hours,
    /// `0700`
    Minutes,
    /// `07:00`
    ColonMinutes,
    /// `070000`
    Seconds,
    /// `07:00:00`
    ColonSeconds,
}

/// In the order in which Go looks for them.
const SHAPES: [(&[u8], Shape); 5] = [
    (b"070000", Shape::Seconds),
    (b"07:00:00", Shape::ColonSeconds),
    (b"0700", Shape::Minutes),
    (b"07:00", Shape::ColonMinutes),
    (b"07", Shape::Hours),
];

/// The next part: what stands before it, and how many bytes it takes.
pub(super) fn next(layout: &[u8]) -> Option<(usize, Part, usize)> {
    (0..layout.len()).find_map(|at| {
        let (skipped, part, length) = part_at(layout.get(at..)?)?;
        Some((at + skipped, part, length))
    })
}

/// The part at the beginning: how many bytes to skip before it (of `_2006` one), and how many bytes it takes.
fn part_at(text: &[u8]) -> Option<(usize, Part, usize)> {
    let is_word = |at: usize| text.get(at).is_some_and(u8::is_ascii_lowercase);
    let found = |part, length| Some((0, part, length));
    match text.first()? {
        b'J' if text.starts_with(b"January") => found(Part::LongMonth, 7),
        b'J' if text.starts_with(b"Jan") && !is_word(3) => found(Part::Month, 3),
        b'M' if text.starts_with(b"Monday") => found(Part::LongWeekday, 6),
        b'M' if text.starts_with(b"Mon") && !is_word(3) => found(Part::Weekday, 3),
        b'M' if text.starts_with(b"MST") => found(Part::ZoneName, 3),
        b'0' => match text.get(1)? {
            b'1' => found(Part::ZeroMonth, 2),
            b'2' => found(Part::ZeroDay, 2),
            b'3' => found(Part::ZeroHour12, 2),
            b'4' => found(Part::ZeroMinute, 2),
            b'5' => found(Part::ZeroSecond, 2),
            b'6' => found(Part::Year, 2),
            _ if text.starts_with(b"002") => found(Part::ZeroYearDay, 3),
            _ => None,
        },
        b'1' if text.starts_with(b"15") => found(Part::Hour, 2),
        b'1' => found(Part::NumMonth, 1),
        b'2' if text.starts_with(b"2006") => found(Part::LongYear, 4),
        b'2' => found(Part::Day, 1),
        b'_' if text.starts_with(b"_2006") => Some((1, Part::LongYear, 4)),
        b'_' if text.starts_with(b"_2") => found(Part::UnderDay, 2),
        b'_' if text.starts_with(b"__2") => found(Part::UnderYearDay, 3),
        b'3' => found(Part::Hour12, 1),
        b'4' => found(Part::Minute, 1),
        b'5' => found(Part::Second, 1),
        b'P' if text.starts_with(b"PM") => found(Part::Upper, 2),
        b'p' if text.starts_with(b"pm") => found(Part::Lower, 2),
        first @ (b'-' | b'Z') => {
            let rest = text.get(1..)?;
            let (written, shape) = SHAPES.iter().find(|(written, _)| rest.starts_with(written))?;
            let is_iso = *first == b'Z';
            found(Part::Offset { is_iso, shape: *shape }, 1 + written.len())
        }
        separator @ (b'.' | b',') => {
            let digit = *text.get(1).filter(|digit| matches!(digit, b'0' | b'9'))?;
            let rest = text.get(1..)?;
            let digits = rest.iter().take_while(|byte| **byte == digit).count();
            // A fraction is all of the digits that stand there.
            if rest.get(digits).is_some_and(u8::is_ascii_digit) {
                return None;
            }
            let part = Part::Fraction {
                is_trimmed: digit == b'9',
                digits: digits & DIGITS_MASK,
                separator: *separator,
            };
            found(part, 1 + digits)
        }
        _ => None,
    }
}

/// A whole number with at least so many digits.
fn push_number(out: &mut Vec<u8>, number: i64, width: usize) {
    if number < 0 {
        out.push(b'-');
    }
    let digits = number.unsigned_abs();
    out.extend_from_slice(format!("{digits:0width$}").as_bytes());
}

fn name(names: &[&'static str], place: i64) -> &'static str {
    usize::try_from(place)
        .ok()
        .and_then(|place| names.get(place))
        .copied()
        .unwrap_or_default()
}

/// The name of a month, from 1.
pub(super) fn month_name(month: i64) -> &'static str {
    name(&MONTHS, month - 1)
}

/// The name of a day of the week, from 0.
pub(super) fn day_name(weekday: i64) -> &'static str {
    name(&DAYS, weekday)
}

fn short(name: &str) -> &[u8] {
    name.as_bytes().get(..SHORT).unwrap_or_default()
}

/// `Time.Format`. It ends early once the text is longer than so many bytes.
pub(crate) fn format(time: &Time, layout: &[u8], bytes_max: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let civil = time.civil();
    let mut rest = layout;
    while out.len() <= bytes_max
        && let Some((before, part, length)) = next(rest)
    {
        out.extend_from_slice(rest.get(..before).unwrap_or_default());
        rest = rest.get(before + length..).unwrap_or_default();
        let hour12 = match civil.hour % 12 {
            0 => 12,
            hour => hour,
        };
        let out = &mut out;
        match part {
            Part::Year => push_number(out, civil.year.abs() % 100, 2),
            Part::LongYear => push_number(out, civil.year, 4),
            Part::Month => out.extend_from_slice(short(month_name(civil.month))),
            Part::LongMonth => out.extend_from_slice(month_name(civil.month).as_bytes()),
            Part::NumMonth => push_number(out, civil.month, 0),
            Part::ZeroMonth => push_number(out, civil.month, 2),
            Part::Weekday => out.extend_from_slice(short(day_name(civil.weekday))),
            Part::LongWeekday => out.extend_from_slice(day_name(civil.weekday).as_bytes()),
            Part::Day => push_number(out, civil.day, 0),
            Part::UnderDay => out.extend_from_slice(format!("{:2}", civil.day).as_bytes()),
            Part::ZeroDay => push_number(out, civil.day, 2),
            Part::UnderYearDay => out.extend_from_slice(format!("{:3}", civil.day_of_year).as_bytes()),
            Part::ZeroYearDay => push_number(out, civil.day_of_year, 3),
            Part::Hour => push_number(out, civil.hour, 2),
            Part::Hour12 => push_number(out, hour12, 0),
            Part::ZeroHour12 => push_number(out, hour12, 2),
            Part::Minute => push_number(out, civil.minute, 0),
            Part::ZeroMinute => push_number(out, civil.minute, 2),
            Part::Second => push_number(out, civil.second, 0),
            Part::ZeroSecond => push_number(out, civil.second, 2),
            Part::Upper => out.extend_from_slice(if civil.hour >= 12 { b"PM" } else { b"AM" }),
            Part::Lower => out.extend_from_slice(if civil.hour >= 12 { b"pm" } else { b"am" }),
            Part::ZoneName => push_zone_name(out, time),
            Part::Offset { is_iso, shape } => push_offset(out, time, is_iso, shape),
            Part::Fraction {
                is_trimmed,
                digits,
                separator,
            } => push_fraction(out, time.nanoseconds, is_trimmed, digits, separator),
        }
    }
    out.extend_from_slice(rest);
    out
}

fn push_zone_name(out: &mut Vec<u8>, time: &Time) {
    let zone = time.zone.at(time.unix_seconds());
    if !zone.name.is_empty() {
        return out.extend_from_slice(&zone.name);
    }
    push_hours_and_minutes(out, zone.offset / 60, b"");
}

fn push_hours_and_minutes(out: &mut Vec<u8>, minutes: i64, between: &[u8]) {
    out.push(if minutes < 0 { b'-' } else { b'+' });
    push_number(out, minutes.abs() / 60, 2);
    out.extend_from_slice(between);
    push_number(out, minutes.abs() % 60, 2);
}

fn push_offset(out: &mut Vec<u8>, time: &Time, is_iso: bool, shape: Shape) {
    let offset = time.zone.at(time.unix_seconds()).offset;
    if is_iso && offset == 0 {
        return out.push(b'Z');
    }
    // Only whole minutes have a sign.
    let minutes = offset / 60;
    let seconds = if minutes < 0 { -offset } else { offset } % 60;
    match shape {
        Shape::Hours => {
            out.push(if minutes < 0 { b'-' } else { b'+' });
            push_number(out, minutes.abs() / 60, 2);
        }
        Shape::Minutes => push_hours_and_minutes(out, minutes, b""),
        Shape::ColonMinutes => push_hours_and_minutes(out, minutes, b":"),
        Shape::Seconds => {
            push_hours_and_minutes(out, minutes, b"");
            push_number(out, seconds, 2);
        }
        Shape::ColonSeconds => {
            push_hours_and_minutes(out, minutes, b":");
            out.push(b':');
            push_number(out, seconds, 2);
        }
    }
}

fn push_fraction(out: &mut Vec<u8>, nanoseconds: u32, is_trimmed: bool, digits: usize, separator: u8) {
    if is_trimmed && (digits == 0 || nanoseconds == 0) {
        return;
    }
    let all = format!("{nanoseconds:09}");
    let shown = all.get(..digits.min(DIGITS)).unwrap_or_default();
    if !is_trimmed {
        out.push(separator);
        return out.extend_from_slice(shown.as_bytes());
    }
    let shown = shown.trim_end_matches('0');
    if !shown.is_empty() {
        out.push(separator);
        out.extend_from_slice(shown.as_bytes());
    }
}
