//! Floating point numbers, by all verbs that they have: the shortest text that reads back the same, or as many digits as
//! the precision requests.

use super::Printer;

/// No `f64` has more digits behind its point; beyond them all are zeros, which are written without the formatter.
const DIGITS_MAX: usize = 1100;
/// Where `%g` without precision turns to an exponent.
const EXPONENT_FROM: i32 = 6;
/// Where `%g` turns to an exponent for small numbers.
const EXPONENT_BELOW: i32 = -4;
/// Bits of an `f64` behind its leading one.
const MANTISSA_BITS: u32 = 52;
const EXPONENT_BIAS: i64 = 1023;

impl Printer<'_> {
    pub(super) fn float(&mut self, number: f64, verb: char) {
        let (form, precision) = match verb {
            'v' => ('g', None),
            'F' => ('f', Some(6)),
            'f' | 'e' | 'E' => (verb, Some(6)),
            _ => (verb, None),
        };
        let precision = self.precision.or(precision);
        let mut text = plain(number, form, precision).into_bytes();
        let sign = if number.is_sign_negative() && !number.is_nan() {
            b'-'
        } else if self.flags.space && !self.flags.plus {
            b' '
        } else {
            b'+'
        };
        let shows_sign = self.flags.plus || sign != b'+';
        if !number.is_finite() {
            // Infinity always has its sign.
            if number.is_infinite() || self.flags.space || self.flags.plus {
                text.insert(0, sign);
            }
            return self.pad_with_spaces(&text);
        }
        if self.flags.sharp && form != 'b' {
            text = with_point(&text, form, precision);
        }
        if !shows_sign {
            return self.pad(&text);
        }
        let width = self.width.unwrap_or(0);
        if self.flags.zero && !self.flags.minus && width > text.len() + 1 {
            self.out.push(sign);
            self.padding(width - text.len() - 1);
            self.out.extend_from_slice(&text);
        } else {
            text.insert(0, sign);
            self.pad(&text);
        }
    }
}

/// `strconv.FormatFloat` of 64 bits without the sign.
fn plain(number: f64, form: char, precision: Option<usize>) -> String {
    let number = number.abs();
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return "Inf".to_owned();
    }
    match form {
        'b' => binary(number),
        'x' | 'X' => hexadecimal(number, form, precision),
        'e' | 'E' => {
            let digits = Digits::of(number, precision.map(|precision| precision.saturating_add(1)));
            let shown = precision.unwrap_or(digits.text.len().saturating_sub(1));
            digits.with_exponent(shown, form)
        }
        'f' => match precision {
            None => {
                let digits = Digits::of(number, None);
                let length = i32::try_from(digits.text.len()).unwrap_or(i32::MAX);
                digits.without_exponent(usize::try_from(length - digits.point).unwrap_or(0))
            }
            Some(precision) => {
                let mut text = format!("{number:.*}", precision.min(DIGITS_MAX));
                let missing = precision.saturating_sub(DIGITS_MAX);
                text.extend(std::iter::repeat_n('0', missing));
                text
            }
        },
        _ => general(number, form, precision),
    }
}

/// The shortest digits of a number without its sign, by `e` or `f`.
pub(crate) fn plain_float(number: f64, form: char) -> String {
    plain(number, form, None)
}

fn general(number: f64, form: char, precision: Option<usize>) -> String {
    // No digit at all is one digit.
    let precision = precision.map(|precision| precision.max(1));
    let digits = Digits::of(number, precision);
    let count = digits.text.len();
    let length = i32::try_from(count).unwrap_or(i32::MAX);
    let wanted = precision.map_or(EXPONENT_FROM, |precision| i32::try_from(precision).unwrap_or(i32::MAX));
    let from = match precision {
        None => EXPONENT_FROM,
        Some(_) if wanted > length && length >= digits.point => length,
        Some(_) => wanted,
    };
    let exponent = digits.point - 1;
    if exponent < EXPONENT_BELOW || exponent >= from {
        let shown = precision.map_or(count, |precision| precision.min(count));
        let letter = if form == 'G' { 'E' } else { 'e' };
        return digits.with_exponent(shown.saturating_sub(1), letter);
    }
    let behind = usize::try_from(length - digits.point).unwrap_or(0);
    digits.without_exponent(behind)
}

/// Decimal digits without trailing zeros, and where the point stands: 0.digits times ten to the power of `point`.
struct Digits {
    text: String,
    point: i32,
}

impl Digits {
    /// The shortest digits, or so many.
    fn of(number: f64, count: Option<usize>) -> Self {
        let Some(count) = count else {
            let (digits, exponent) = base_yaml::go::shortest_digits(number);
            return Self::new(&digits, exponent);
        };
        let text = format!("{number:.*e}", count.saturating_sub(1).min(DIGITS_MAX));
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let digits: String = mantissa.chars().filter(char::is_ascii_digit).collect();
        Self::new(&digits, exponent.parse().unwrap_or(0))
    }

    fn new(digits: &str, exponent: i32) -> Self {
        let text = digits.trim_end_matches('0').to_owned();
        let point = if text.is_empty() { 0 } else { exponent + 1 };
        Self { text, point }
    }

    fn digit(&self, at: i64) -> char {
        usize::try_from(at)
            .ok()
            .and_then(|at| self.text.as_bytes().get(at))
            .map_or('0', |digit| char::from(*digit))
    }

    /// One digit, so many behind the point, and the exponent of at least two digits.
    fn with_exponent(&self, behind: usize, letter: char) -> String {
        let mut out = String::from(self.digit(0));
        if behind > 0 {
            out.push('.');
            let known = self.text.len().saturating_sub(1).min(behind);
            out.extend(self.text.chars().skip(1).take(known));
            out.extend(std::iter::repeat_n('0', behind - known));
        }
        let exponent = if self.text.is_empty() { 0 } else { self.point - 1 };
        let sign = if exponent < 0 { '-' } else { '+' };
        out.push(letter);
        out.push(sign);
        out.push_str(&format!("{:02}", exponent.abs()));
        out
    }

    /// All digits before the point and so many behind it.
    fn without_exponent(&self, behind: usize) -> String {
        let mut out = String::new();
        if self.point > 0 {
            out.extend((0..i64::from(self.point)).map(|at| self.digit(at)));
        } else {
            out.push('0');
        }
        if behind > 0 {
            out.push('.');
            let from = i64::from(self.point);
            out.extend((0..i64::try_from(behind).unwrap_or(0)).map(|at| self.digit(from + at)));
        }
        out
    }
}

/// What the sharp flag adds: a point, and the zeros that `%g` leaves out.
fn with_point(text: &[u8], form: char, precision: Option<usize>) -> Vec<u8> {
    let mut digits = match form {
        'g' | 'G' | 'x' => precision.unwrap_or(6),
        _ => 0,
    };
    let is_hex = matches!(form, 'x' | 'X');
    let tail_at = text
        .iter()
        .position(|byte| matches!(byte, b'p' | b'P') || !is_hex && matches!(byte, b'e' | b'E'))
        .unwrap_or(text.len());
    let (head, tail) = text.split_at(tail_at);
    let mut out = head.to_vec();
    let mut has_nonzero = false;
    for byte in head.iter().filter(|byte| **byte != b'.') {
        has_nonzero |= *byte != b'0';
        if has_nonzero {
            digits = digits.saturating_sub(1);
        }
    }
    if !head.contains(&b'.') {
        if head == b"0" {
            digits = digits.saturating_sub(1);
        }
        out.push(b'.');
    }
    out.resize(out.len() + digits, b'0');
    out.extend_from_slice(tail);
    out
}

/// Mantissa and exponent of the leading one; a number below the smallest normal one has none.
fn parts(number: f64) -> (u64, i64) {
    let bits = number.to_bits();
    let exponent = i64::try_from((bits >> MANTISSA_BITS) & 0x7FF).unwrap_or(0);
    let mantissa = bits & ((1 << MANTISSA_BITS) - 1);
    if exponent == 0 {
        (mantissa, 1 - EXPONENT_BIAS)
    } else {
        (mantissa | (1 << MANTISSA_BITS), exponent - EXPONENT_BIAS)
    }
}

fn binary(number: f64) -> String {
    let (mantissa, exponent) = parts(number);
    format!("{mantissa}p{:+}", exponent - i64::from(MANTISSA_BITS))
}

/// `%x`, as `fmtX` of Go's strconv.
fn hexadecimal(number: f64, form: char, precision: Option<usize>) -> String {
    const ONE: u64 = 1 << 60;
    let (mantissa, mut exponent) = parts(number);
    if mantissa == 0 {
        exponent = 0;
    }
    let mut mantissa = mantissa << (60 - MANTISSA_BITS);
    while mantissa != 0 && mantissa & ONE == 0 {
        mantissa <<= 1;
        exponent -= 1;
    }
    if let Some(precision) = precision.filter(|precision| *precision < 15) {
        let shift = u32::try_from(precision * 4).unwrap_or(0);
        let extra = (mantissa << shift) & (ONE - 1);
        mantissa >>= 60 - shift;
        if extra | (mantissa & 1) > ONE >> 1 {
            mantissa += 1;
        }
        mantissa <<= 60 - shift;
        if mantissa & (ONE << 1) != 0 {
            mantissa >>= 1;
            exponent += 1;
        }
    }
    let mut out = format!("0x{}", (mantissa >> 60) & 1);
    mantissa <<= 4;
    let digits = precision.unwrap_or(if mantissa == 0 {
        0
    } else {
        16 - usize::try_from(mantissa.trailing_zeros() / 4).unwrap_or(0)
    });
    if digits > 0 {
        out.push('.');
    }
    for _ in 0..digits {
        out.push_str(&format!("{:x}", mantissa >> 60));
        mantissa <<= 4;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    out.push_str(&format!("p{sign}{:02}", exponent.abs()));
    if form == 'X' { out.to_uppercase() } else { out }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn numbers_have_the_digits_that_go_gives_them() {
        for (number, text) in [
            (1e6, "1e+06"),
            (123_456.0, "123456"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (0.0, "0"),
            (100.5, "100.5"),
            (1e21, "1e+21"),
        ] {
            assert_eq!(plain(number, 'g', None), text);
        }
        assert_eq!(plain(1.0, 'x', None), "0x1p+00");
        assert_eq!(plain(1.5, 'b', None), "6755399441055744p-52");
    }
}
