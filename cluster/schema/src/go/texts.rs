//! Texts that Kubernetes decodes into types of their own: times, bytes, quantities. Errors are those of Go's decoders; what is
//! decoded is written the way Go writes it. It never shows bytes: they may be secret.

use std::borrow::Cow;

use cluster_fields::quantity;
use jiff::Timestamp;

use crate::tree::schema::Scalar;

/// Go's layout of `metav1.Time`; a fraction of a second is accepted and dropped.
const TIME: &str = "2006-01-02T15:04:05Z07:00";
/// Go's layout of `metav1.MicroTime`.
const MICRO_TIME: &str = "2006-01-02T15:04:05.000000Z07:00";
/// Digits of the fraction in a [`MICRO_TIME`].
const MICRO_DIGITS: usize = 6;
/// The numbers of a time: the text before each, how Go's layout writes it, the smallest, the largest, its name in errors.
const NUMBERS: [(&str, &str, i64, i64, &str); 6] = [
    ("", "2006", 0, 9999, "year"),
    ("-", "01", 1, 12, "month"),
    ("-", "02", 1, 31, "day"),
    ("T", "15", 0, 23, "hour"),
    (":", "04", 0, 59, "minute"),
    (":", "05", 0, 59, "second"),
];

/// The text as Kubernetes writes it once it has read it; `None` where it is written so already.
pub(crate) fn rewritten(scalar: Scalar, text: &str) -> Option<String> {
    let written = match scalar {
        Scalar::Quantity => quantity::canonical(text).ok()?,
        Scalar::Time | Scalar::MicroTime if is_written(scalar, text) => return None,
        Scalar::Time | Scalar::MicroTime => {
            let format = if scalar == Scalar::Time {
                "%Y-%m-%dT%H:%M:%SZ"
            } else {
                "%Y-%m-%dT%H:%M:%S.%6fZ"
            };
            Cow::Owned(time(scalar, text).ok()?.strftime(format).to_string())
        }
        Scalar::Bytes if text.contains(['\r', '\n']) => Cow::Owned(text.replace(['\r', '\n'], "")),
        _ => return None,
    };
    (written != text).then(|| written.into_owned())
}

/// Why the text cannot be read as what the leaf holds.
pub(crate) fn decode_error(scalar: Scalar, text: &str) -> Option<String> {
    match scalar {
        Scalar::Quantity => quantity::canonical(text).err().map(str::to_owned),
        Scalar::Time | Scalar::MicroTime => time(scalar, text).err(),
        Scalar::Bytes => base64_error(text).map(|at| format!("illegal base64 data at input byte {at}")),
        _ => None,
    }
}

/// Whether a time has the length and the end of one that Go has written, which is cheap to check.
fn is_written(scalar: Scalar, text: &str) -> bool {
    let length = if scalar == Scalar::Time { 20 } else { 27 };
    text.len() == length && text.ends_with('Z')
}

fn time(scalar: Scalar, text: &str) -> Result<Timestamp, String> {
    let layout = if scalar == Scalar::Time { TIME } else { MICRO_TIME };
    let unread =
        |rest: &str, wanted: &str| format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {wanted:?}");
    let range = |what: &str| format!("parsing time {text:?}: {what} out of range");
    let mut rest = text;
    for (before, digits, least, most, name) in NUMBERS {
        rest = rest.strip_prefix(before).ok_or_else(|| unread(rest, before))?;
        let number = rest
            .get(..digits.len())
            .filter(|number| number.bytes().all(|b| b.is_ascii_digit()));
        let number = number.ok_or_else(|| unread(rest, digits))?;
        if !(least..=most).contains(&number.parse().unwrap_or_default()) {
            return Err(range(name));
        }
        rest = &rest[digits.len()..];
    }
    let digits = rest.strip_prefix(['.', ',']).map_or(0, |fraction| {
        fraction.len() - fraction.trim_start_matches(|c: char| c.is_ascii_digit()).len()
    });
    if scalar == Scalar::MicroTime && digits < MICRO_DIGITS {
        return Err(unread(rest, ".000000"));
    }
    let taken = if scalar == Scalar::MicroTime {
        MICRO_DIGITS
    } else {
        digits
    };
    if taken > 0 {
        rest = &rest[taken + 1..];
    }
    if !is_zone(rest) {
        return Err(unread(rest, "Z07:00"));
    }
    text.replacen(',', ".", 1).parse().map_err(|_| range("day"))
}

fn is_zone(text: &str) -> bool {
    let number = |text: Option<&str>, most: u8| {
        text.filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse::<u8>().ok())
            .is_some_and(|number| number <= most)
    };
    text == "Z"
        || text.len() == 6
            && text.starts_with(['+', '-'])
            && number(text.get(1..3), 24)
            && text.get(3..4) == Some(":")
            && number(text.get(4..), 59)
}

/// Where Go's decoder of base64 stops, if it does. Ends of lines do not count.
fn base64_error(text: &str) -> Option<usize> {
    let mut seen = 0_usize;
    let mut padding = None;
    for (at, byte) in text
        .bytes()
        .enumerate()
        .filter(|(_, byte)| !matches!(byte, b'\r' | b'\n'))
    {
        match (byte, padding) {
            (b'=', None) if seen % 4 >= 2 => padding = Some(at),
            (b'=', Some(_)) if seen % 4 == 3 => {}
            (b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'+' | b'/', None) => {}
            _ => return Some(at),
        }
        seen += 1;
    }
    let begun = seen % 4;
    let at = if padding.is_some() {
        text.len()
    } else {
        text.len() - begun
    };
    (begun != 0).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_decoded_strictly_and_written_in_utc() {
        let table = [
            (Scalar::Time, "2026-01-01T02:00:00+02:00", "2026-01-01T00:00:00Z"),
            (Scalar::Time, "2026-01-01T00:00:00.9Z", "2026-01-01T00:00:00Z"),
            (
                Scalar::MicroTime,
                "2026-01-01T01:00:00.123456+01:00",
                "2026-01-01T00:00:00.123456Z",
            ),
            (Scalar::Bytes, "YQ\n==", "YQ=="),
        ];
        for (scalar, text, written) in table {
            assert_eq!(decode_error(scalar, text), None, "{text}");
            assert_eq!(rewritten(scalar, text).as_deref(), Some(written));
            assert_eq!(rewritten(scalar, written), None);
        }
    }

    #[test]
    fn decode_errors_are_those_of_go() {
        let table = [
            (
                Scalar::MicroTime,
                "2026-01-01T00:00:00Z",
                r#"parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#,
            ),
            (
                Scalar::Time,
                "soon",
                r#"parsing time "soon" as "2006-01-02T15:04:05Z07:00": cannot parse "soon" as "2006""#,
            ),
            (
                Scalar::Time,
                "2026-13-01T00:00:00Z",
                r#"parsing time "2026-13-01T00:00:00Z": month out of range"#,
            ),
            (
                Scalar::Time,
                "2026-02-30T00:00:00Z",
                r#"parsing time "2026-02-30T00:00:00Z": day out of range"#,
            ),
            (
                Scalar::Time,
                "2026-01-01",
                r#"parsing time "2026-01-01" as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T""#,
            ),
            (Scalar::Bytes, "***", "illegal base64 data at input byte 0"),
            (Scalar::Bytes, "YWJjYWJ", "illegal base64 data at input byte 4"),
            (Scalar::Bytes, "YQ=", "illegal base64 data at input byte 3"),
            (Scalar::Bytes, "YQ=x", "illegal base64 data at input byte 3"),
        ];
        for (scalar, text, words) in table {
            assert_eq!(decode_error(scalar, text).as_deref(), Some(words));
        }
        assert_eq!(decode_error(Scalar::Bytes, "YWJj"), None);
        assert_eq!(decode_error(Scalar::Time, "ä"), decode_error(Scalar::Time, "ä"));
    }
}
