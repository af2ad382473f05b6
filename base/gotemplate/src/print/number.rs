//! Integers, by all verbs that integers have.

use super::Printer;
use crate::text::quote::quote_rune;
use crate::text::{RUNE_ERROR, is_print, push_rune};
use crate::value::Value;

/// What `%U` shows at least.
const UNICODE_DIGITS_MIN: usize = 4;

/// An integer of either sign.
#[derive(Clone, Copy)]
pub(super) struct Integer {
    is_signed: bool,
    is_negative: bool,
    magnitude: u64,
}

impl Integer {
    pub(super) fn signed(value: i64) -> Self {
        Self {
            is_signed: true,
            is_negative: value < 0,
            magnitude: value.unsigned_abs(),
        }
    }

    pub(super) fn unsigned(magnitude: u64) -> Self {
        Self {
            is_signed: false,
            is_negative: false,
            magnitude,
        }
    }

    /// The same bits without a sign.
    fn bits(self) -> u64 {
        if self.is_negative {
            self.magnitude.wrapping_neg()
        } else {
            self.magnitude
        }
    }

    /// The rune of this number, U+FFFD if there is none.
    fn rune(self) -> char {
        u32::try_from(self.bits())
            .ok()
            .and_then(char::from_u32)
            .unwrap_or(RUNE_ERROR)
    }
}

impl Printer<'_> {
    pub(super) fn integer(&mut self, value: &Value, number: Integer, verb: char) {
        match verb {
            'v' if self.flags.sharp_v && !number.is_signed => self.hex_number(number.magnitude),
            'v' | 'd' => self.digits(number, 10, verb),
            'b' => self.digits(number, 2, verb),
            'o' | 'O' => self.digits(number, 8, verb),
            'x' | 'X' => self.digits(number, 16, verb),
            'c' => {
                let mut out = Vec::new();
                push_rune(&mut out, number.rune());
                self.pad(&out);
            }
            'q' => {
                let quoted = quote_rune(number.rune(), self.flags.plus);
                self.pad(&quoted);
            }
            'U' => self.unicode(number),
            _ => self.bad_verb(Some(value), verb),
        }
    }

    /// A number as Go's source would have it.
    pub(super) fn hex_number(&mut self, magnitude: u64) {
        self.flags.sharp = true;
        self.digits(Integer::unsigned(magnitude), 16, 'v');
        self.flags.sharp = false;
    }

    fn unicode(&mut self, number: Integer) {
        let digits = format!("{:X}", number.bits());
        let wanted = self.precision.unwrap_or(0).max(UNICODE_DIGITS_MIN);
        let mut out = b"U+".to_vec();
        // Not by the formatter, whose widths end at 65,535.
        out.resize(out.len() + wanted.saturating_sub(digits.len()), b'0');
        out.extend_from_slice(digits.as_bytes());
        if self.flags.sharp && number.bits() <= u64::from(u32::from(char::MAX)) {
            let rune = number.rune();
            // A surrogate has no character to show.
            if u64::from(u32::from(rune)) == number.bits() && is_print(rune) {
                out.extend_from_slice(b" '");
                push_rune(&mut out, rune);
                out.push(b'\'');
            }
        }
        self.pad_with_spaces(&out);
    }

    /// Digits to some base, with sign, prefix and leading zeros.
    fn digits(&mut self, number: Integer, base: u32, verb: char) {
        let flags = self.flags;
        let mut zeros = 0;
        if let Some(precision) = self.precision {
            // A precision of nothing shows no zero.
            if precision == 0 && number.magnitude == 0 {
                return self.pad_with_spaces(b"");
            }
            zeros = precision;
        } else if let Some(width) = self.width
            && flags.zero
            && !flags.minus
        {
            let has_sign = number.is_negative || flags.plus || flags.space;
            zeros = if has_sign { width.saturating_sub(1) } else { width };
        }
        let digits = match (base, verb) {
            (2, _) => format!("{:b}", number.magnitude),
            (8, _) => format!("{:o}", number.magnitude),
            (16, 'X') => format!("{:X}", number.magnitude),
            (16, _) => format!("{:x}", number.magnitude),
            _ => number.magnitude.to_string(),
        };
        let mut out = Vec::with_capacity(zeros.max(digits.len()) + 3);
        if number.is_negative {
            out.push(b'-');
        } else if flags.plus {
            out.push(b'+');
        } else if flags.space {
            out.push(b' ');
        }
        if verb == 'O' {
            out.extend_from_slice(b"0o");
        }
        let missing = zeros.saturating_sub(digits.len());
        if flags.sharp {
            match (base, verb) {
                (2, _) => out.extend_from_slice(b"0b"),
                (8, _) if missing == 0 && !digits.starts_with('0') => out.push(b'0'),
                (16, 'X') => out.extend_from_slice(b"0X"),
                (16, _) => out.extend_from_slice(b"0x"),
                _ => {}
            }
        }
        out.resize(out.len() + missing, b'0');
        out.extend_from_slice(digits.as_bytes());
        self.pad_with_spaces(&out);
    }
}
