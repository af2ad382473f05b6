//! Numbers as Go reads and writes them: `strconv.ParseInt` with base 0, `strconv.ParseFloat`, `strconv.FormatFloat`.

use std::fmt::Write;

/// A whole number of either type that Go distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Whole {
    Signed(i64),
    Unsigned(u64),
}

/// `strconv.ParseInt(text, 0, 64)`, then `strconv.ParseUint(text, 0, 64)`, for a text without underscores.
pub(super) fn parse_whole(text: &str) -> Option<Whole> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (radix, digits) = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &unsigned[2..]),
        [b'0', b'o' | b'O', ..] => (8, &unsigned[2..]),
        [b'0', b'b' | b'B', ..] => (2, &unsigned[2..]),
        [b'0', _, ..] => (8, &unsigned[1..]),
        _ => (10, unsigned),
    };
    with_sign_of(text, parse_digits(digits, radix)?)
}

/// `strconv.ParseInt(text, radix, 64)`, then `strconv.ParseUint(text, radix, 64)`.
pub(super) fn parse_radix(text: &str, radix: u32) -> Option<Whole> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    with_sign_of(text, parse_digits(digits, radix)?)
}

fn with_sign_of(text: &str, magnitude: u64) -> Option<Whole> {
    if text.starts_with('-') {
        return 0i64.checked_sub_unsigned(magnitude).map(Whole::Signed);
    }
    match i64::try_from(magnitude) {
        Ok(number) => Some(Whole::Signed(number)),
        // Only a number without a sign is tried as an unsigned one.
        Err(_) if text.starts_with('+') => None,
        Err(_) => Some(Whole::Unsigned(magnitude)),
    }
}

fn parse_digits(digits: &str, radix: u32) -> Option<u64> {
    // The standard library would take a second sign.
    let plain = digits.bytes().all(|byte| byte.is_ascii_alphanumeric());
    (plain && !digits.is_empty()).then(|| u64::from_str_radix(digits, radix).ok())?
}

/// Whether `text` is `^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$`, which YAML takes for a float.
pub(super) fn is_yaml_float(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (text, None),
    };
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let mantissa = match mantissa.split_once('.') {
        Some(("", fraction)) => digits(fraction),
        Some((whole, fraction)) => digits(whole) && (fraction.is_empty() || digits(fraction)),
        None => digits(mantissa),
    };
    mantissa && exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent)))
}

/// `strconv.ParseFloat(text, 64)` for a text that is a float to YAML or begins with a point; nothing when it is none or too
/// large.
pub(super) fn parse_float(text: &str) -> Option<f64> {
    if text.contains('_') {
        let bytes = text.as_bytes();
        // Between two digits and nowhere else.
        let between = bytes.iter().enumerate().all(|(at, byte)| {
            *byte != b'_'
                || at > 0
                    && bytes[at - 1].is_ascii_digit()
                    && bytes.get(at + 1).is_some_and(|next| next.is_ascii_digit())
        });
        return between.then(|| parse_float(&text.replace('_', "")))?;
    }
    is_yaml_float(text)
        .then(|| text.parse::<f64>().ok())?
        .filter(|number| number.is_finite())
}

/// `strconv.FormatFloat(number, 'g', -1, 64)`: the shortest decimal that is read as `number`, with an exponent where
/// it is below -4 or above 5.
pub fn format_float(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    Decimal::of(number).general()
}

/// The fewest decimal digits that are read as a finite `number`, without its sign and without zeros behind them, and where
/// the point stands: behind the first digit at 0. Of two that are equally near it is the even one, as in Go.
pub fn shortest_digits(number: f64) -> (String, i32) {
    let Decimal { digits, exponent, .. } = Decimal::of(number);
    (digits, exponent)
}

/// [`format_float`] for a number of 32 bits, which Go's YAML makes of keys and of numbers where a text is required.
pub(super) fn format_float_32(number: f64) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "what is asked for")]
    let short = number as f32;
    if !short.is_finite() {
        return format_float(f64::from(short));
    }
    let reads = |text: &str| text.parse::<f32>().is_ok_and(|read| read.to_bits() == short.to_bits());
    Decimal::shortest(&format!("{short:e}"), f64::from(short), reads).general()
}

/// `%g` of a shortest decimal writes an exponent from here on (strconv's `ftoa.go`).
const G_EXPONENT_END: i32 = 6;
/// More digits than any number has behind a tie that lies between two of its decimals.
const EXACT_DIGITS: usize = 60;

/// The shortest decimal that is read as a number.
pub(super) struct Decimal {
    sign: &'static str,
    digits: String,
    /// Where the point stands: behind the first digit at 0
    exponent: i32,
}

impl Decimal {
    pub(super) fn of(number: f64) -> Self {
        let reads = |text: &str| text.parse::<f64>().is_ok_and(|read| read.to_bits() == number.to_bits());
        Self::shortest(&format!("{number:e}"), number, reads)
    }

    /// `scientific` is Rust's: of two decimals that are equally near it has the greater one, Go the even one.
    fn shortest(scientific: &str, number: f64, reads: impl Fn(&str) -> bool) -> Self {
        let shortest = Self::read(scientific);
        let is_odd = shortest.digits.as_bytes().last().is_some_and(|digit| digit % 2 == 1);
        if !is_odd || shortest.digits.len() == 1 {
            return shortest;
        }
        let exact = format!("{number:.EXACT_DIGITS$e}");
        let below = Self::read(&exact);
        let (truncated, cut) = below.digits.split_at(shortest.digits.len());
        let is_tie = cut
            .strip_prefix('5')
            .is_some_and(|rest| rest.bytes().all(|digit| digit == b'0'));
        let even = Self {
            digits: truncated.to_owned(),
            ..below
        };
        if is_tie && reads(&even.scientific(0)) {
            even
        } else {
            shortest
        }
    }

    /// Reads a number such as `-1.25e3`.
    fn read(scientific: &str) -> Self {
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
        let (sign, mantissa) = match mantissa.strip_prefix('-') {
            Some(mantissa) => ("-", mantissa),
            None => ("", mantissa),
        };
        Self {
            sign,
            digits: mantissa.replace('.', ""),
            exponent: exponent.parse().unwrap_or(0),
        }
    }

    /// `%g`
    fn general(&self) -> String {
        match (-4..G_EXPONENT_END).contains(&self.exponent) {
            true => self.plain(),
            false => self.scientific(2),
        }
    }

    /// `%e`, the exponent with so many digits at least.
    pub(super) fn scientific(&self, width: usize) -> String {
        let Self { sign, digits, exponent } = self;
        let mut text = format!("{sign}{}", &digits[..1]);
        if digits.len() > 1 {
            text.push('.');
            text.push_str(&digits[1..]);
        }
        let mark = if *exponent < 0 { '-' } else { '+' };
        // Writing to a string cannot fail.
        let _ = write!(text, "e{mark}{:0width$}", exponent.abs());
        text
    }

    /// `%f`
    pub(super) fn plain(&self) -> String {
        plain_form(self.sign, &self.digits, self.exponent)
    }
}

/// Without an exponent. `exponent` says where the point stands: behind the first digit at 0.
fn plain_form(sign: &str, digits: &str, exponent: i32) -> String {
    let mut text = sign.to_owned();
    let point = exponent + 1;
    if point <= 0 {
        text.push_str("0.");
        text.extend(std::iter::repeat_n('0', point.unsigned_abs() as usize));
        text.push_str(digits);
        return text;
    }
    let point = point as usize;
    if digits.len() <= point {
        text.push_str(digits);
        text.extend(std::iter::repeat_n('0', point - digits.len()));
    } else {
        text.push_str(&digits[..point]);
        text.push('.');
        text.push_str(&digits[point..]);
    }
    text
}
