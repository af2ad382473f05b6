//! What go-yaml 2.4 takes a plain text for, and in which order it puts keys.

use std::cmp::Ordering;

use crate::text::{Str, is_letter, runes};

/// Words that are no strings.
const WORDS: [&str; 31] = [
    "y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON", "n", "N", "no", "No", "NO", "false",
    "False", "FALSE", "off", "Off", "OFF", "", "~", "null", "Null", "NULL", ".nan", ".NaN", ".NAN", ".inf",
];
/// More of them.
const INFINITIES: [&str; 8] = [".Inf", ".INF", "+.inf", "+.Inf", "+.INF", "-.inf", "-.Inf", "-.INF"];

/// Whether a text without quotes is a string.
pub(super) fn is_string(text: &str) -> bool {
    if WORDS.contains(&text) || INFINITIES.contains(&text) {
        return false;
    }
    match text.bytes().next() {
        Some(b'.') => crate::syntax::parse_float(text).is_none(),
        Some(b'+' | b'-' | b'0'..=b'9') => !(is_timestamp(text) || super::is_number(text) || is_base_60(text)),
        _ => true,
    }
}

/// A number of digits to base 60, which go-yaml does not read but quotes for those who do.
fn is_base_60(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let is_first = |part: &str| {
        part.starts_with(|digit: char| digit.is_ascii_digit())
            && part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
    };
    let is_part = |part: &str| match part.as_bytes() {
        [digit] => digit.is_ascii_digit(),
        [b'0'..=b'5', digit] => digit.is_ascii_digit(),
        _ => false,
    };
    whole.contains(':')
        && parts.next().is_some_and(is_first)
        && parts.all(is_part)
        && fraction.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_')
}

pub(super) fn is_unsigned(text: &str) -> bool {
    text.parse::<u64>().is_ok() && !text.starts_with('+')
}

/// `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`
pub(super) fn looks_like_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.find(['e', 'E']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let is_exponent = exponent.is_none_or(|exponent| {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        !exponent.is_empty() && digits(exponent)
    });
    let (whole, behind) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    is_exponent && digits(whole) && digits(behind) && !(whole.is_empty() && behind.is_empty())
}

/// A date, or a date with a time: `2006-1-2`, with `T` and a zone, or with a space and none.
fn is_timestamp(text: &str) -> bool {
    let Some((date, time)) = split_date(text) else {
        return false;
    };
    let mut parts = date.split('-');
    let (year, month, day) = (parts.next(), parts.next().and_then(small), parts.next().and_then(small));
    let year = year
        .filter(|year| year.len() == 4)
        .and_then(|year| year.parse::<u32>().ok());
    let (Some(year), Some(month), Some(day), None) = (year, month, day, parts.next()) else {
        return false;
    };
    let is_leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day) && time.is_none_or(|(has_zone, time)| is_time(time, has_zone))
}

/// The date, and the time with whether it has a zone.
fn split_date(text: &str) -> Option<(&str, Option<(bool, &str)>)> {
    match text.find(['T', 't', ' ']) {
        None => Some((text, None)),
        Some(at) => {
            let has_zone = text.get(at..=at)? != " ";
            Some((text.get(..at)?, Some((has_zone, text.get(at + 1..)?))))
        }
    }
}

/// A number of one or two digits.
fn small(text: &str) -> Option<u32> {
    let is_short = matches!(text.len(), 1 | 2) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_short.then(|| text.parse().ok())?
}

fn is_time(text: &str, has_zone: bool) -> bool {
    let text = if has_zone {
        match text.strip_suffix('Z').or_else(|| without_zone(text)) {
            Some(text) => text,
            None => return false,
        }
    } else {
        text
    };
    let (time, fraction) = match text.find(['.', ',']) {
        Some(at) => (text.get(..at).unwrap_or_default(), text.get(at + 1..)),
        None => (text, None),
    };
    let parts: Vec<Option<u32>> = time.split(':').map(small).collect();
    let is_fraction = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    matches!(parts.as_slice(), [Some(0..=23), Some(0..=59), Some(0..=59)]) && fraction.is_none_or(is_fraction)
}

fn without_zone(text: &str) -> Option<&str> {
    let (time, zone) = text.split_at_checked(text.len().checked_sub(6)?)?;
    let zone = zone.strip_prefix(['+', '-'])?;
    let (hours, minutes) = zone.split_once(':')?;
    let is_zone = hours.len() == 2 && minutes.len() == 2 && small(hours)? <= 24 && small(minutes)? < 60;
    is_zone.then_some(time)
}

/// Puts entries into go-yaml's order. Some keys come before each other in a circle, and Go's own order of them is another
/// each time: the standard library's sort may panic on such, a merge does not.
pub(super) fn sort_by_key<V>(entries: Vec<(Str, V)>) -> Vec<(Str, V)> {
    let mut runs: Vec<Vec<(Str, V)>> = entries.into_iter().map(|entry| vec![entry]).collect();
    while runs.len() > 1 {
        let mut merged = Vec::with_capacity(runs.len().div_ceil(2));
        let mut pairs = runs.into_iter();
        while let Some(one) = pairs.next() {
            merged.push(merge(one, pairs.next().unwrap_or_default()));
        }
        runs = merged;
    }
    runs.pop().unwrap_or_default()
}

fn merge<V>(one: Vec<(Str, V)>, other: Vec<(Str, V)>) -> Vec<(Str, V)> {
    let mut merged = Vec::with_capacity(one.len() + other.len());
    let (mut one, mut other) = (one.into_iter().peekable(), other.into_iter().peekable());
    while let (Some(left), Some(right)) = (one.peek(), other.peek()) {
        let from = match key_order(&left.0, &right.0) {
            Ordering::Greater => &mut other,
            _ => &mut one,
        };
        merged.extend(from.next());
    }
    merged.extend(one);
    merged.extend(other);
    merged
}

/// go-yaml's order of keys: letters after all else, numbers by their value.
fn key_order(one: &[u8], other: &[u8]) -> Ordering {
    let (one, other) = (letters(one), letters(other));
    let Some(at) = one.iter().zip(&other).position(|(one, other)| one != other) else {
        return one.len().cmp(&other.len());
    };
    let (a, b) = (one[at], other[at]);
    match (is_letter(a), is_letter(b)) {
        (true, true) => return a.cmp(&b),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number counts as a digit like others.
    let before = one.iter().take(at).rev().take_while(|rune| rune.is_ascii_digit());
    let is_inside = (a == '0' || b == '0') && before.into_iter().any(|rune| *rune != '0');
    let start = i64::from(is_inside);
    let number = |runes: &[char]| {
        let digits: Vec<char> = runes
            .iter()
            .skip(at)
            .take_while(|rune| rune.is_ascii_digit())
            .copied()
            .collect();
        let value = digits.iter().fold(start, |value: i64, digit| {
            value.wrapping_mul(10).wrapping_add(i64::from(*digit as u32) - 48)
        });
        (value, digits.len())
    };
    number(&one).cmp(&number(&other)).then(a.cmp(&b))
}

fn letters(text: &[u8]) -> Vec<char> {
    runes(text).map(|(_, rune, _)| rune).collect()
}
