//! Numbers as they are written in templates: Go's literals, and what each can be used as.

use super::node::Number;
use super::token::Kind;
use crate::text::quote::{SYNTAX, quoted, unquote_char};

impl Number {
    /// Reads a number. The error is Go's.
    pub(super) fn read(text: &[u8], kind: Kind) -> Result<Self, String> {
        let mut number = Self {
            text: String::from_utf8_lossy(text).into_owned(),
            ..Self::default()
        };
        match kind {
            Kind::CharConstant => number.character(text)?,
            Kind::Complex => number.complex_pair()?,
            _ => number.plain()?,
        }
        Ok(number)
    }

    fn character(&mut self, text: &[u8]) -> Result<(), String> {
        let inner = text.get(1..).unwrap_or_default();
        let read = unquote_char(inner, b'\'').ok_or(SYNTAX)?;
        if read.rest != b"'" {
            return Err(format!("malformed character constant: {}", self.text));
        }
        let code = read.rune.code();
        self.int = Some(i64::from(code));
        self.uint = Some(u64::from(code));
        self.float = Some(f64::from(code));
        Ok(())
    }

    fn complex_pair(&mut self) -> Result<(), String> {
        let text = self.text.strip_suffix('i').unwrap_or(&self.text);
        let bytes = text.as_bytes();
        let is_exponent = |at: usize| matches!(bytes.get(at.wrapping_sub(1)), Some(b'e' | b'E' | b'p' | b'P'));
        let split = (1..bytes.len())
            .rev()
            .find(|at| matches!(bytes.get(*at), Some(b'+' | b'-')) && !is_exponent(*at));
        let parts = split.and_then(|at| Some((float(text.get(..at)?)?, float(text.get(at..)?)?)));
        let (real, imaginary) = parts.ok_or("syntax error scanning complex number")?;
        self.set_complex(real, imaginary);
        Ok(())
    }

    fn set_complex(&mut self, real: f64, imaginary: f64) {
        self.complex = Some((real, imaginary));
        if imaginary == 0.0 {
            self.float = Some(real);
            self.int = whole(real);
            self.uint = whole_unsigned(real);
        }
    }

    fn plain(&mut self) -> Result<(), String> {
        if let Some(imaginary) = self.text.strip_suffix('i').and_then(float) {
            self.set_complex(0.0, imaginary);
            return Ok(());
        }
        self.uint = unsigned(&self.text);
        self.int = signed(&self.text);
        if self.int == Some(0) {
            // -0 is unsigned too.
            self.uint = Some(0);
        }
        if let Some(int) = self.int {
            self.float = Some(int as f64);
        } else if let Some(uint) = self.uint {
            self.float = Some(uint as f64);
        } else if let Some(float) = float(&self.text) {
            if !self.text.contains(['.', 'e', 'E', 'p', 'P']) {
                return Err(format!("integer overflow: {}", quoted(self.text.as_bytes())));
            }
            self.float = Some(float);
            self.int = whole(float);
            self.uint = whole_unsigned(float);
        }
        match self.float {
            Some(_) => Ok(()),
            None => Err(format!("illegal number syntax: {}", quoted(self.text.as_bytes()))),
        }
    }
}

/// The integer that a float is, if it is one. The bounds themselves are no `i64` for Go.
fn whole(float: f64) -> Option<i64> {
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    ((-BOUND..BOUND).contains(&float) && float.trunc() == float).then_some(float as i64)
}

fn whole_unsigned(float: f64) -> Option<u64> {
    const BOUND: f64 = 18_446_744_073_709_551_616.0;
    ((0.0..BOUND).contains(&float) && float.trunc() == float).then_some(float as u64)
}

/// Go's rule for underscores: between digits, or after the prefix of a base.
fn underscores_are_fine(text: &str) -> bool {
    let text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let lower = text.to_ascii_lowercase();
    let prefix = ["0x", "0o", "0b"].iter().find_map(|prefix| lower.strip_prefix(prefix));
    let is_hex = lower.starts_with("0x");
    // What stood last: a digit, an underscore or something else.
    let mut saw = if prefix.is_some() { '0' } else { '^' };
    for letter in prefix.unwrap_or(&lower).chars() {
        let is_digit = letter.is_ascii_digit() || is_hex && ('a'..='f').contains(&letter);
        saw = match letter {
            _ if is_digit => '0',
            '_' if saw != '0' => return false,
            '_' => '_',
            _ if saw == '_' => return false,
            _ => '!',
        };
    }
    saw != '_'
}

/// `strconv.ParseUint` with base 0.
fn unsigned(text: &str) -> Option<u64> {
    if text.contains('_') && !underscores_are_fine(text) {
        return None;
    }
    let lower = text.to_ascii_lowercase();
    let (digits, base) = match lower.get(..2) {
        Some("0x") => (lower.get(2..)?, 16),
        Some("0b") => (lower.get(2..)?, 2),
        Some("0o") => (lower.get(2..)?, 8),
        _ if lower.starts_with('0') && lower.len() > 1 => (lower.get(1..)?, 8),
        _ => (&*lower, 10),
    };
    let digits = digits.replace('_', "");
    // The standard library takes a sign, Go does not.
    let is_number = !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(base));
    is_number.then(|| u64::from_str_radix(&digits, base).ok())?
}

/// `strconv.ParseInt` with base 0.
pub(crate) fn signed(text: &str) -> Option<i64> {
    let (is_negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let magnitude = unsigned(digits)?;
    if is_negative {
        0i64.checked_sub_unsigned(magnitude)
    } else {
        i64::try_from(magnitude).ok()
    }
}

/// `strconv.ParseFloat`, of any text.
pub(crate) fn any_float(text: &str) -> Option<f64> {
    let word = text.strip_prefix(['+', '-']).unwrap_or(text).to_ascii_lowercase();
    match word.as_str() {
        "inf" | "infinity" => text.parse().ok(),
        // Go takes no sign before it.
        "nan" => (word.len() == text.len()).then_some(f64::NAN),
        _ => float(text),
    }
}

/// `strconv.ParseFloat`, of what the lexer takes for a number.
fn float(text: &str) -> Option<f64> {
    if text.contains('_') && !underscores_are_fine(text) {
        return None;
    }
    let plain = text.replace('_', "");
    let digits = plain.strip_prefix(['+', '-']).unwrap_or(&plain);
    let hex = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let number = match hex {
        Some(hex) => {
            let magnitude = hex_float(hex)?;
            if plain.starts_with('-') { -magnitude } else { magnitude }
        }
        None => plain.parse::<f64>().ok()?,
    };
    number.is_finite().then_some(number)
}

/// A hexadecimal mantissa with its binary exponent, which it must have.
fn hex_float(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let mut exponent: i32 = exponent.parse().ok()?;
    let (before, behind) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if before.is_empty() && behind.is_empty() {
        return None;
    }
    let mut bits: u64 = 0;
    for digit in before.chars().chain(behind.chars()) {
        let digit = u64::from(digit.to_digit(16)?);
        if bits >> 60 == 0 {
            bits = bits << 4 | digit;
        } else {
            // What does not fit still decides which way to round.
            bits |= u64::from(digit != 0);
            exponent = exponent.checked_add(4)?;
        }
    }
    let shift = i32::try_from(behind.len()).ok()?.checked_mul(4)?;
    exponent = exponent.checked_sub(shift)?;
    // In two steps, so that neither power is out of range.
    let half = exponent / 2;
    Some(bits as f64 * 2f64.powi(half) * 2f64.powi(exponent - half))
}

#[cfg(test)]
mod tests {
    use super::{Kind, Number};

    fn read(text: &str) -> Result<Number, String> {
        Number::read(text.as_bytes(), Kind::Number)
    }

    #[test]
    fn integers_are_read_in_every_base() {
        for (text, int) in [
            ("0x1F", 31),
            ("0b101", 5),
            ("0o17", 15),
            ("017", 15),
            ("1_000", 1000),
            ("0x_f", 15),
            ("-9223372036854775808", i64::MIN),
            ("1e3", 1000),
        ] {
            assert_eq!(read(text).map(|number| number.int), Ok(Some(int)), "{text}");
        }
    }

    #[test]
    fn invalid_numbers_are_refused() {
        for text in ["089", "1__0", "1_", "0x", "1e999", ".", "-"] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(
            read("18446744073709551616").map_err(|error| error.to_string()),
            Err("integer overflow: \"18446744073709551616\"".to_owned())
        );
        assert_eq!(read("18446744073709551615").map(|number| number.int), Ok(None));
    }

    #[test]
    fn hexadecimal_floats_are_read() {
        assert_eq!(read("0x1.8p1").map(|number| number.float), Ok(Some(3.0)));
        assert_eq!(read("1i").map(|number| number.complex), Ok(Some((0.0, 1.0))));
    }
}
