//! `resource.Quantity`: how much of something, as manifests write it: `500m`, `1.5Gi`, `1e3`.
//! (kubernetes/apimachinery v0.35 pkg/api/resource/quantity.go)

use serde_json::Value;

/// An amount in billionths of its unit, rounded up as upstream does; amounts beyond [`MAX`] are that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Quantity(i128);

const NANO: i128 = 1_000_000_000;
/// The largest amount that upstream tells from larger ones.
const MAX: i128 = i64::MAX as i128 * NANO;
/// Digits that count: as many as with the largest binary suffix fit 128 bits.
const DIGITS_MAX: u32 = 20;
/// No exponent beyond this makes a difference.
const EXPONENT_MAX: i32 = 64;
/// Powers of ten.
const DECIMAL: [(&str, i32); 10] = [
    ("n", -9),
    ("u", -6),
    ("m", -3),
    ("", 0),
    ("k", 3),
    ("M", 6),
    ("G", 9),
    ("T", 12),
    ("P", 15),
    ("E", 18),
];
/// Powers of two.
const BINARY: [(&str, u32); 6] = [("Ki", 10), ("Mi", 20), ("Gi", 30), ("Ti", 40), ("Pi", 50), ("Ei", 60)];

impl Quantity {
    pub(super) const ZERO: Quantity = Quantity(0);

    /// Reads text or a number; none when it is no quantity.
    pub(super) fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    pub(super) fn parse(text: &str) -> Option<Self> {
        let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
        let end = unsigned
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (decimal, binary) = scale(suffix)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
            return None;
        }
        let magnitude = magnitude(whole, fraction, decimal, binary);
        Some(Quantity(if text.starts_with('-') { -magnitude } else { magnitude }))
    }

    pub(super) fn plus(self, other: Self) -> Self {
        Quantity((self.0 + other.0).clamp(-MAX, MAX))
    }
}

/// The powers of ten and of two that a suffix stands for.
fn scale(suffix: &str) -> Option<(i32, u32)> {
    if let Some((_, power)) = DECIMAL.iter().find(|(known, _)| *known == suffix) {
        return Some((*power, 0));
    }
    if let Some((_, power)) = BINARY.iter().find(|(known, _)| *known == suffix) {
        return Some((0, *power));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((exponent.clamp(-EXPONENT_MAX, EXPONENT_MAX), 0))
}

fn magnitude(whole: &str, fraction: &str, decimal: i32, binary: u32) -> i128 {
    // `digits` times ten to the power of `exponent`, in billionths; `rest` when something smaller was left out.
    let (mut digits, mut taken, mut exponent, mut rest) = (0_i128, 0, decimal + 9, false);
    let all = whole
        .bytes()
        .map(|digit| (digit, 1))
        .chain(fraction.bytes().map(|digit| (digit, 0)));
    for (digit, is_whole) in all {
        if taken < DIGITS_MAX {
            digits = digits * 10 + i128::from(digit - b'0');
            taken += u32::from(digits > 0);
            exponent = exponent.saturating_add(is_whole - 1);
        } else {
            rest |= digit > b'0';
            exponent = exponent.saturating_add(is_whole);
        }
    }
    digits <<= binary;
    while exponent > 0 && digits > 0 && digits <= MAX {
        digits *= 10;
        exponent -= 1;
    }
    while exponent < 0 && digits > 0 {
        rest |= digits % 10 > 0;
        digits /= 10;
        exponent += 1;
    }
    (digits + i128::from(rest)).min(MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_told_from_other_texts() {
        for good in ["1", "500m", "1.5Gi", "1e3", "-1", ".5", "5.", "12E", "0", "1E-3"] {
            assert!(Quantity::parse(good).is_some(), "{good}");
        }
        for bad in [
            "",
            "m",
            ".",
            "1.2.3",
            "1gb",
            "1 Gi",
            "1e",
            "Gi1",
            "--1",
            "1ee3",
            "1e99999999999",
        ] {
            assert!(Quantity::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn amounts_are_what_they_stand_for_however_they_are_written() {
        let of = |text: &str| Quantity::parse(text).unwrap();
        for (one, same) in [
            ("1", "1000m"),
            ("0.5", "500m"),
            ("1Gi", "1024Mi"),
            ("1.5Gi", "1610612736"),
            ("1e3", "1k"),
            ("1E", "1e18"),
            ("0", "-0"),
            ("0001.10", "1.1"),
            ("0.1n", "1n"),
            ("1e64", "9223372036854775807"),
            ("9".repeat(400).as_str(), "16Ei"),
            (format!("0.{}1", "0".repeat(400)).as_str(), "1n"),
        ] {
            assert_eq!(of(one), of(same), "{one} {same}");
        }
        for (less, more) in [
            ("1", "1001m"),
            ("1G", "1Gi"),
            ("-1", "0"),
            ("9223372036854775806", "9223372036854775807"),
            ("123456789012345678", "123456789012345679"),
        ] {
            assert!(of(less) < of(more), "{less} {more}");
        }
        assert_eq!(of("1").plus(of("500m")), of("1.5"));
        assert_eq!(of("8E").plus(of("8E")), of("1e30"));
    }
}
