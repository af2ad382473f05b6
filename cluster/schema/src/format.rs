//! The text formats that Kubernetes checks (`format` in a schema; kube-openapi `pkg/validation/strfmt`).
//! A format that is not known here is never an error, as in Kubernetes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine as _;

/// True when `text` has the format, or the format is unknown.
pub(crate) fn matches(format: &str, text: &str) -> bool {
    match format {
        "date-time" | "datetime" => text.parse::<jiff::Timestamp>().is_ok(),
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "duration" => go_duration_ns(text).is_some(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "uuid" | "uuid3" | "uuid4" | "uuid5" => is_uuid(text, format),
        "uri" => is_uri(text),
        "hostname" => is_hostname(text),
        "email" => is_email(text),
        "hexcolor" => is_hex_colour(text),
        "k8s-short-name" => crate::names::dns_label(text).is_none(),
        "k8s-long-name" => crate::names::dns_subdomain(text).is_none(),
        _ => true,
    }
}

/// A duration as Go writes it (`1h30m`, `-5ms`, `0`), in nanoseconds; `None` when malformed or out of range.
pub(crate) fn go_duration_ns(text: &str) -> Option<i64> {
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

fn is_hex_colour(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_accept_and_refuse() {
        let table = [
            ("date-time", "2026-11-21T08:00:00Z", true),
            ("date-time", "2026-11-21", false),
            ("date", "2026-11-21", true),
            ("duration", "1h30m", true),
            ("duration", "1x", false),
            ("duration", "", false),
            ("duration", "-", false),
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
        ];
        for (format, text, good) in table {
            assert_eq!(matches(format, text), good, "{format} {text}");
        }
    }
}
