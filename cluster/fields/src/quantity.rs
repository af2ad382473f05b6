//! `resource.Quantity`: how much of something, as manifests write it: `500m`, `1.5Gi`, `1e3`.
//! (kubernetes/apimachinery v0.35 pkg/api/resource/quantity.go)

use std::borrow::Cow;

use serde_json::Value;

/// An amount in billionths of its unit, rounded up as upstream does. Larger amounts count as the largest one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(i128);

const NANO: i128 = 1_000_000_000;
/// The largest amount that upstream distinguishes from larger ones.
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
    /// Nothing.
    pub const ZERO: Quantity = Quantity(0);

    /// Reads text or a number; none when it is no quantity.
    pub fn of(value: &Value) -> Option<Self> {
        match value {
            Value::String(text) => Self::parse(text),
            Value::Number(number) => Self::parse(&number.to_string()),
            _ => None,
        }
    }

    /// Reads text; none when it is no quantity.
    pub fn parse(text: &str) -> Option<Self> {
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

    /// Whether it is a whole number.
    pub fn is_whole(self) -> bool {
        self.0 % NANO == 0
    }

    /// How many thousandths of its unit it is, rounded up (`Quantity.MilliValue`).
    pub fn thousandths(self) -> i128 {
        const BILLIONTHS: i128 = NANO / 1000;
        self.0.div_euclid(BILLIONTHS) + i128::from(self.0.rem_euclid(BILLIONTHS) > 0)
    }

    /// The sum, within the amounts that upstream distinguishes.
    pub fn plus(self, other: Self) -> Self {
        Quantity((self.0 + other.0).clamp(-MAX, MAX))
    }
}

/// Digits that fit the `i64` with which upstream computes where it can.
const FAST_DIGITS: usize = 18;
/// As [`FAST_DIGITS`], for powers of two.
const FAST_BINARY_DIGITS: usize = 14;
/// The smallest power of ten that makes a difference.
const NANO_POWER: i32 = -9;
const FORM_WRONG: &str = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// How upstream writes a quantity that it has read: without a fraction, with the largest suffix that needs none; what has
/// no better form stays as it is.
///
/// # Errors
/// The text is no quantity; upstream's words.
pub fn canonical(text: &str) -> Result<Cow<'_, str>, &'static str> {
    let text = text.trim();
    if Quantity::parse(text).is_none() {
        return Err(refusal(text));
    }
    let unsigned = text.trim_start_matches(['+', '-']);
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole = whole.trim_start_matches('0');
    let digits = whole.len().max(1) + fraction.len();
    let Some((decimal, binary)) = scale(suffix) else {
        return Err(refusal(text));
    };
    let exponent = decimal - i32::try_from(fraction.len()).unwrap_or(i32::MAX);
    let shifted = format!("{whole}{fraction}");
    let Ok(mut amount) = format!("0{shifted}").parse::<i128>() else {
        return Ok(text.into());
    };
    if amount == 0 {
        return Ok("0".into());
    }
    let is_canonical = match binary {
        0 => {
            let short = !whole.is_empty() && !shifted.ends_with("000");
            short && digits <= FAST_DIGITS && exponent >= NANO_POWER && exponent % 3 == 0
        }
        _ => {
            let room = FAST_BINARY_DIGITS.saturating_sub(binary as usize * 3 / 10);
            fraction.is_empty() && digits <= room && amount & 7 != 0
        }
    };
    if is_canonical {
        return Ok(text.into());
    }
    let form = match (binary, suffix.as_bytes()) {
        (0, [b'e' | b'E', _, ..]) => Form::Exponent,
        (0, _) => Form::Decimal,
        _ => Form::Binary,
    };
    if binary > 0 {
        match amount.checked_mul(1 << binary) {
            Some(product) => amount = product,
            None => return Ok(text.into()),
        }
    }
    let written = written(amount, exponent, form);
    let sign = if text.starts_with('-') { "-" } else { "" };
    Ok(written.map_or(text.into(), |written| Cow::Owned(format!("{sign}{written}"))))
}

/// How a quantity was written, and is written again.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Decimal,
    Exponent,
    Binary,
}

/// `amount` times ten to the power of `exponent`; none where no suffix fits.
fn written(mut amount: i128, mut exponent: i32, form: Form) -> Option<String> {
    // Less than a billionth is rounded up to one: a request for something is never for nothing.
    let mut rest = false;
    while exponent < NANO_POWER {
        rest |= amount % 10 != 0;
        (amount, exponent) = (amount / 10, exponent + 1);
    }
    amount += i128::from(rest);
    while amount % 10 == 0 {
        (amount, exponent) = (amount / 10, exponent + 1);
    }
    if form == Form::Binary {
        let whole = u32::try_from(exponent)
            .ok()
            .and_then(|power| amount.checked_mul(10_i128.checked_pow(power)?));
        if let Some(mut whole) = whole.filter(|whole| *whole >= 1024) {
            whole = whole.min(i64::MAX.into());
            let mut suffixes = [""].into_iter().chain(BINARY.iter().map(|(suffix, _)| *suffix));
            let mut suffix = suffixes.next()?;
            while whole % 1024 == 0 {
                (whole, suffix) = (whole / 1024, suffixes.next()?);
            }
            return Some(format!("{whole}{suffix}"));
        }
    }
    while exponent % 3 != 0 {
        (amount, exponent) = (amount.checked_mul(10)?, exponent - 1);
    }
    if form == Form::Exponent && exponent != 0 {
        return Some(format!("{amount}e{exponent}"));
    }
    let (suffix, _) = DECIMAL.iter().find(|(_, power)| *power == exponent)?;
    Some(format!("{amount}{suffix}"))
}

/// Why a text is no quantity.
fn refusal(text: &str) -> &'static str {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let number = number
        .strip_prefix('.')
        .map_or(number, |number| number.trim_start_matches(|c: char| c.is_ascii_digit()));
    let letters = number.trim_start_matches(|c: char| "eEinumkKMGTP".contains(c));
    let digits = letters.strip_prefix(['+', '-']).unwrap_or(letters);
    if text.is_empty() || digits.bytes().any(|b| !b.is_ascii_digit()) {
        FORM_WRONG
    } else {
        "unable to parse quantity's suffix"
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
    fn only_quantities_are_parsed() {
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
    fn quantities_are_written_in_their_shortest_form() {
        // What real Kubernetes 1.35 makes of them (tests/conformance, `quantities`).
        for (text, written) in [
            ("1000m", "1"),
            ("1024Mi", "1Gi"),
            ("1.5Gi", "1536Mi"),
            ("0.5", "500m"),
            ("1.5", "1500m"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1024", "1024"),
            ("2048Ki", "2Mi"),
            ("512Ki", "512Ki"),
            ("0.5Ki", "512"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("12E", "12E"),
            ("0.0", "0"),
            ("-0", "0"),
            ("-1500m", "-1500m"),
            ("-1.5", "-1500m"),
            ("100m", "100m"),
            ("1.500", "1.500"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("0.1Ki", "102400m"),
            ("1000E", "1000E"),
            ("8Gi", "8Gi"),
            (" 1 ", "1"),
        ] {
            assert_eq!(canonical(text).as_deref(), Ok(written), "{text}");
        }
        assert_eq!(canonical("many"), Err(FORM_WRONG));
        assert_eq!(canonical(""), Err(FORM_WRONG));
        assert_eq!(canonical("1mm"), Err("unable to parse quantity's suffix"));
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
