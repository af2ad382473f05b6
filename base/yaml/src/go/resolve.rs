//! What a text without quotes is: null, a boolean, a number, a point in time, or a text after all. By YAML 1.1's rules as
//! `resolve.go` of go.yaml.in/yaml/v2 2.4 and v3 3.0 has them.

use super::number::{Whole, is_yaml_float, parse_float, parse_radix, parse_whole};
use super::timestamp;

/// The two modules that Helm writes with; they differ in what is a boolean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dialect {
    /// go.yaml.in/yaml/v2, below sigs.k8s.io/yaml.
    V2,
    /// go.yaml.in/yaml/v3.
    V3,
}

/// What a scalar is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Resolved {
    Null,
    Bool(bool),
    Whole(Whole),
    Float(f64),
    /// Read as a text; written only in quotes.
    Timestamp,
    Text,
}

impl Resolved {
    fn tag(self) -> &'static str {
        match self {
            Self::Null => "!!null",
            Self::Bool(_) => "!!bool",
            Self::Whole(_) => "!!int",
            Self::Float(_) => "!!float",
            Self::Timestamp => "!!timestamp",
            Self::Text => "!!str",
        }
    }
}

const TAG_PREFIX: &str = "tag:yaml.org,2002:";

/// The tag in its short form, which messages show.
fn short_tag(tag: &str) -> String {
    match tag.strip_prefix(TAG_PREFIX) {
        Some(name) => format!("!!{name}"),
        None => tag.to_owned(),
    }
}

/// A scalar with a tag, or without one (empty) when it was not quoted.
///
/// # Errors
/// The text does not match its tag; Go's error.
pub(super) fn resolve_tagged(tag: &str, text: &str) -> Result<Resolved, String> {
    if tag.is_empty() {
        return Ok(resolve(text, Dialect::V2));
    }
    let name = match tag.strip_prefix(TAG_PREFIX) {
        Some("str") => return Ok(Resolved::Text),
        Some(name @ ("bool" | "int" | "float" | "null" | "timestamp")) => name,
        // With an unknown tag the text is taken as it is.
        _ => return Ok(Resolved::Text),
    };
    let resolved = match resolve(text, Dialect::V2) {
        Resolved::Timestamp if name != "timestamp" => resolve_number(text).unwrap_or(Resolved::Text),
        resolved => resolved,
    };
    match (name, resolved) {
        ("float", Resolved::Whole(Whole::Signed(number))) => Ok(Resolved::Float(number as f64)),
        (name, resolved) if resolved.tag().strip_prefix("!!") == Some(name) => Ok(resolved),
        (_, resolved) => Err(format!(
            "cannot decode {} `{text}` as a {}",
            resolved.tag(),
            short_tag(tag)
        )),
    }
}

/// A scalar without tag and quotes.
pub(super) fn resolve(text: &str, dialect: Dialect) -> Resolved {
    let Some(first) = text.bytes().next() else {
        return Resolved::Null;
    };
    match first {
        b'~' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'y' | b'Y' | b'o' | b'O' => resolve_word(text, dialect),
        b'.' => resolve_word_float(text)
            .or_else(|| parse_float(text).map(Resolved::Float))
            .unwrap_or(Resolved::Text),
        b'+' | b'-' | b'0'..=b'9' => resolve_word_float(text)
            .or_else(|| timestamp::is_timestamp(text).then_some(Resolved::Timestamp))
            .or_else(|| resolve_number(text))
            .unwrap_or(Resolved::Text),
        _ => Resolved::Text,
    }
}

fn resolve_word(text: &str, dialect: Dialect) -> Resolved {
    match text {
        "~" | "null" | "Null" | "NULL" => Resolved::Null,
        "true" | "True" | "TRUE" => Resolved::Bool(true),
        "false" | "False" | "FALSE" => Resolved::Bool(false),
        _ if dialect == Dialect::V3 => Resolved::Text,
        _ => old_bool(text).map_or(Resolved::Text, Resolved::Bool),
    }
}

/// The booleans that YAML 1.2 dropped.
pub(super) fn old_bool(text: &str) -> Option<bool> {
    match text {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Some(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Some(false),
        _ => None,
    }
}

fn resolve_word_float(text: &str) -> Option<Resolved> {
    Some(Resolved::Float(match text {
        ".nan" | ".NaN" | ".NAN" => f64::NAN,
        ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" => f64::INFINITY,
        "-.inf" | "-.Inf" | "-.INF" => f64::NEG_INFINITY,
        _ => return None,
    }))
}

fn resolve_number(text: &str) -> Option<Resolved> {
    let without;
    let text = if text.contains('_') {
        without = text.replace('_', "");
        &without
    } else {
        text
    };
    if let Some(number) = parse_whole(text) {
        return Some(Resolved::Whole(number));
    }
    if is_yaml_float(text)
        && let Some(number) = parse_float(text)
    {
        return Some(Resolved::Float(number));
    }
    // What is left of two prefixes: a sign behind them.
    let odd = |prefix: &str, radix| parse_radix(text.strip_prefix(prefix)?, radix);
    odd("0b", 2)
        .or_else(|| {
            let digits = text.strip_prefix("-0b")?;
            parse_radix(&format!("-{digits}"), 2).filter(|number| matches!(number, Whole::Signed(_)))
        })
        .map(Resolved::Whole)
}

/// Whether `text` is a number of base 60 in YAML 1.1, `^[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?$`: read as a text,
/// written in quotes for other readers.
pub(super) fn is_base_60(text: &str) -> bool {
    if !text.contains(':') {
        return false;
    }
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (text, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = text.split(':');
    let first = parts.next().unwrap_or("");
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let loose = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
    first.starts_with(|first: char| first.is_ascii_digit())
        && loose(first)
        && loose(fraction)
        && parts.all(|part| digits(part) && (part.len() == 1 || part.len() == 2 && part.as_bytes()[0] < b'6'))
}
