//! The text formats that Kubernetes checks (`format` in a schema; kube-openapi `pkg/validation/strfmt`).
//! A format that is not known here is never an error, as in Kubernetes.

use std::net::{IpAddr, Ipv6Addr};

use base64::Engine as _;

use crate::names;

/// True when `text` has the format, or the format is unknown.
pub fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => go_duration_ns(text).is_some() || is_scala_duration(text),
        "ipv4" => is_ipv4(text),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(text, format),
        "uri" => is_uri(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "hexcolor" => is_hex_colour(text),
        "bsonobjectid" => text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "isbn" => is_isbn(text, 10) || is_isbn(text, 13),
        "isbn10" => is_isbn(text, 10),
        "isbn13" => is_isbn(text, 13),
        "ssn" => is_grouped(text, &[3, 2, 4]),
        "creditcard" => is_credit_card(text),
        "rgbcolor" => is_rgb_colour(text),
        "k8s-short-name" => names::dns_label(text).is_none(),
        "k8s-long-name" => names::dns_subdomain(text).is_none(),
        _ => true,
    }
}

/// A duration as Go writes it (`1h30m`, `-5ms`, `0`), in nanoseconds; `None` when malformed or out of range.
pub fn go_duration_ns(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total = 0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let unit_len = rest
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(rest.len());
        let unit = match &rest[..unit_len] {
            "ns" => 1.0,
            "us" | "µs" | "μs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 60e9,
            "h" => 3600e9,
            _ => return None,
        };
        total += number * unit;
        rest = &rest[unit_len..];
    }
    if total > i64::MAX as f64 {
        return None;
    }
    let nanoseconds = total as i64;
    Some(if negative { -nanoseconds } else { nanoseconds })
}

/// A number with a unit somewhere in the text, as Scala's durations have them: `2 days`.
fn is_scala_duration(text: &str) -> bool {
    const WORDS: [&str; 8] = ["nano", "micro", "milli", "sec", "min", "hour", "day", "week"];
    const SHORT: [&str; 9] = ["ns", "us", "µs", "ms", "s", "m", "h", "hr", "wk"];
    let is_unit = |unit: &str| {
        let unit = unit.to_lowercase();
        SHORT.contains(&&*unit) || matches!(&*unit, "d" | "w") || WORDS.iter().any(|word| unit.starts_with(word))
    };
    let bytes = text.as_bytes();
    let begins = |place: &usize| bytes[*place].is_ascii_digit() && (*place == 0 || !bytes[*place - 1].is_ascii_digit());
    (0..bytes.len()).filter(begins).any(|start| {
        let rest = text[start..]
            .trim_start_matches(|c: char| c.is_ascii_digit())
            .trim_start();
        let end = rest
            .find(|c: char| !c.is_ascii_alphabetic() && c != 'µ')
            .unwrap_or(rest.len());
        is_unit(&rest[..end])
    })
}

/// Leading zeros are allowed, as in older versions of Go.
fn is_ipv4(text: &str) -> bool {
    let is_part = |part: &str| {
        !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit()) && part.parse::<u16>().is_ok_and(|part| part < 256)
    };
    text.split('.').count() == 4 && text.split('.').all(is_part)
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let bits_max = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    !bits.is_empty()
        && bits.len() <= 3
        && bits.bytes().all(|b| b.is_ascii_digit())
        && bits.parse::<u16>().is_ok_and(|bits| bits <= bits_max)
}

fn is_mac(text: &str) -> bool {
    let separator = if text.contains('-') { '-' } else { ':' };
    let parts: Vec<&str> = text.split(separator).collect();
    matches!(parts.len(), 6 | 8 | 20)
        && parts
            .iter()
            .all(|part| part.len() == 2 && part.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn is_uuid(text: &str, format: &str) -> bool {
    let hex: String = text.chars().filter(|c| *c != '-').collect();
    let version = format.strip_prefix("uuid").unwrap_or_default();
    hex.len() == 32
        && hex.bytes().all(|b| b.is_ascii_hexdigit())
        && (version.is_empty() || hex.get(12..13) == Some(version))
}

fn is_uri(text: &str) -> bool {
    if text.contains(char::is_whitespace) || text.is_empty() {
        return false;
    }
    match text.split_once(':') {
        Some((scheme, rest)) => {
            text.starts_with('/')
                || (scheme.starts_with(|c: char| c.is_ascii_alphabetic())
                    && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b))
                    && !rest.is_empty())
        }
        None => text.starts_with('/'),
    }
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|label| {
            !label.is_empty()
                && label.len() <= 63
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(user, host)| {
        !user.is_empty() && !host.is_empty() && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    })
}

/// Digits in groups of these lengths, between which one blank or dash may stand.
fn is_grouped(text: &str, lengths: &[usize]) -> bool {
    let mut rest = text;
    for (position, length) in lengths.iter().enumerate() {
        if position > 0 {
            rest = rest.strip_prefix(['-', ' ']).unwrap_or(rest);
        }
        match rest.split_at_checked(*length) {
            Some((digits, tail)) if digits.bytes().all(|b| b.is_ascii_digit()) => rest = tail,
            _ => return false,
        }
    }
    rest.is_empty()
}

fn is_isbn(text: &str, digits: usize) -> bool {
    let text: Vec<u8> = text.bytes().filter(|b| !matches!(b, b'-' | b' ')).collect();
    if text.len() != digits {
        return false;
    }
    let mut sum = 0_u32;
    for (position, byte) in text.iter().enumerate() {
        let digit = match byte {
            b'0'..=b'9' => u32::from(byte - b'0'),
            b'X' if digits == 10 && position == 9 => 10,
            _ => return false,
        };
        let weight = match digits {
            10 => 10 - position as u32,
            _ => [1, 3][position % 2],
        };
        sum += weight * digit;
    }
    sum.is_multiple_of(if digits == 10 { 11 } else { 10 })
}

/// A number of 12 to 19 digits, whatever stands between them, with a checksum after Luhn.
fn is_credit_card(text: &str) -> bool {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(10)).collect();
    let weighed = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(position, digit)| match position % 2 {
            0 => *digit,
            _ => digit * 2 / 10 + digit * 2 % 10,
        });
    (12..=19).contains(&digits.len()) && weighed.sum::<u32>().is_multiple_of(10)
}

fn is_rgb_colour(text: &str) -> bool {
    let inner = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')'));
    let is_part = |part: &str| part.parse::<u8>().is_ok_and(|number| number.to_string() == part);
    inner.is_some_and(|inner| inner.split(',').count() == 3 && inner.split(',').all(|part| is_part(part.trim())))
}

fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_accepts_valid_and_refuses_invalid_texts() {
        let table = [
            ("date-time", "2026-11-21T08:00:00Z", true),
            ("date-time", "2026-11-21", false),
            ("date", "2026-11-21", true),
            ("duration", "1h30m", true),
            ("duration", "1x", false),
            ("duration", "", false),
            ("duration", "-", false),
            ("duration", "2 days", true),
            ("duration", "2 dogs", false),
            ("ipv4", "010.1.1.1", true),
            ("ipv4", "1.1.1.256", false),
            ("ipv4", "1.1.1", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("cidr", "10.0.0.0/", false),
            ("ipv6", "::1", true),
            ("byte", "aGk=", true),
            ("byte", "a", false),
            ("uuid4", "6ba7b810-9dad-41d1-80b4-00c04fd430c8", true),
            ("uuid4", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", false),
            ("mac", "00:11:22:33:44:55", true),
            ("hostname", "a.b-c", true),
            ("hostname", "-a", false),
            ("uri", "https://x/y", true),
            ("uri", "x y", false),
            ("unheard-of", "anything", true),
            ("isbn", "0-321-75104-3", true),
            ("isbn", "978-0321751041", true),
            ("isbn10", "0321751044", false),
            ("ssn", "123-45 6789", true),
            ("ssn", "123--456789", false),
            ("creditcard", "4111-1111-1111-1111", true),
            ("creditcard", "4111-1111-1111-1112", false),
            ("rgbcolor", "rgb(0, 12,255)", true),
            ("rgbcolor", "rgb(0,12,256)", false),
            ("bsonobjectid", "507f1f77bcf86cd799439011", true),
            ("bsonobjectid", "507f1f77", false),
        ];
        for (format, text, good) in table {
            assert_eq!(matches(format, text), good, "{format} {text}");
        }
    }
}
