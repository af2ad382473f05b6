//! `Sprintf`: the format string's directives.

use super::Printer;
use crate::environment::error::PrintError;
use crate::text::decode_rune;
use crate::value::Value;

/// Widths and precisions beyond this are invalid, as in Go.
const NUMBER_MAX: i64 = 1_000_000;

/// Where we are in a format and its arguments.
struct Format<'f> {
    text: &'f [u8],
    at: usize,
    values: &'f [Value],
    next: usize,
    is_reordered: bool,
    is_good_index: bool,
    is_after_index: bool,
}

impl Format<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// A number that stands here, none if it is too large. Go leaves the format behind then.
    fn number(&mut self, end: usize) -> Option<i64> {
        let mut number = None;
        while let Some(digit) = self.text.get(..end).and_then(|text| text.get(self.at)) {
            if !digit.is_ascii_digit() {
                break;
            }
            let so_far = number.unwrap_or(0);
            if so_far > NUMBER_MAX {
                self.at = end;
                return None;
            }
            number = Some(so_far * 10 + i64::from(digit - b'0'));
            self.at += 1;
        }
        number
    }

    /// `[3]`: which argument is next.
    fn index(&mut self) {
        self.is_after_index = false;
        if self.peek() != Some(b'[') {
            return;
        }
        self.is_reordered = true;
        let rest = self.text.get(self.at..).unwrap_or_default();
        let close = rest.iter().position(|byte| *byte == b']');
        let Some(close) = close.filter(|_| rest.len() >= 3) else {
            self.is_good_index = false;
            self.at += 1;
            return;
        };
        let end = self.at + close;
        self.at += 1;
        let number = self.number(end).filter(|_| self.at == end);
        self.at = end + 1;
        self.is_after_index = number.is_some();
        let index = number.and_then(|number| usize::try_from(number - 1).ok());
        match index.filter(|index| *index < self.values.len()) {
            Some(index) => self.next = index,
            None => self.is_good_index = false,
        }
    }

    /// The next argument as a width or precision.
    fn starred(&mut self) -> Option<i64> {
        let value = self.values.get(self.next)?;
        self.next += 1;
        let number = match value {
            Value::Int(_, number) => Some(*number),
            Value::Uint(_, number) => i64::try_from(*number).ok(),
            _ => None,
        };
        number.filter(|number| (-NUMBER_MAX..=NUMBER_MAX).contains(number))
    }
}

impl Printer<'_> {
    /// `Sprintf`.
    pub(crate) fn printf(mut self, format: &[u8], values: &[Value]) -> Result<(), PrintError> {
        let mut format = Format {
            text: format,
            at: 0,
            values,
            next: 0,
            is_reordered: false,
            is_good_index: true,
            is_after_index: false,
        };
        while let Some(rest) = format.text.get(format.at..).filter(|rest| !rest.is_empty()) {
            if self.is_full() {
                break;
            }
            let literal = rest.iter().position(|byte| *byte == b'%').unwrap_or(rest.len());
            self.out.extend_from_slice(rest.get(..literal).unwrap_or_default());
            format.at += literal + 1;
            if literal == rest.len() {
                break;
            }
            self.directive(&mut format);
        }
        if !format.is_reordered {
            self.extra(values.get(format.next..).unwrap_or_default());
        }
        self.done()
    }

    fn directive(&mut self, format: &mut Format<'_>) {
        self.clear();
        format.is_good_index = true;
        while let Some(flag) = format.peek() {
            match flag {
                b'#' => self.flags.sharp = true,
                b'0' => self.flags.zero = true,
                b'+' => self.flags.plus = true,
                b'-' => self.flags.minus = true,
                b' ' => self.flags.space = true,
                _ => break,
            }
            format.at += 1;
        }
        // A plain verb takes its argument at once.
        if let Some(verb) = format.peek().filter(u8::is_ascii_lowercase)
            && let Some(value) = format.values.get(format.next)
        {
            format.at += 1;
            format.next += 1;
            return self.verb(value, char::from(verb));
        }
        format.index();
        self.width(format);
        self.precision(format);
        if !format.is_after_index {
            format.index();
        }
        let Some(rest) = format.text.get(format.at..).filter(|rest| !rest.is_empty()) else {
            return self.text("%!(NOVERB)");
        };
        let (verb, size) = decode_rune(rest);
        format.at += size;
        if verb == '%' {
            self.out.push(b'%');
        } else if !format.is_good_index {
            self.bad_directive(verb, "(BADINDEX)");
        } else if let Some(value) = format.values.get(format.next) {
            format.next += 1;
            self.verb(value, verb);
        } else {
            self.bad_directive(verb, "(MISSING)");
        }
    }

    fn verb(&mut self, value: &Value, verb: char) {
        if matches!(verb, 'v' | 'w') {
            self.flags.sharp_v = std::mem::take(&mut self.flags.sharp);
            self.flags.plus_v = std::mem::take(&mut self.flags.plus);
        }
        self.argument(value, verb);
    }

    fn bad_directive(&mut self, verb: char, what: &str) {
        self.text("%!");
        crate::text::push_rune(self.out, verb);
        self.text(what);
    }

    fn width(&mut self, format: &mut Format<'_>) {
        if format.peek() == Some(b'*') {
            format.at += 1;
            let width = format.starred();
            if width.is_none() {
                self.text("%!(BADWIDTH)");
            }
            if width.is_some_and(|width| width < 0) {
                self.flags.minus = true;
                self.flags.zero = false;
            }
            self.width = width.and_then(|width| usize::try_from(width.unsigned_abs()).ok());
            format.is_after_index = false;
            return;
        }
        let width = format.number(format.text.len());
        self.width = width.and_then(|width| usize::try_from(width).ok());
        if format.is_after_index && width.is_some() {
            format.is_good_index = false;
        }
    }

    fn precision(&mut self, format: &mut Format<'_>) {
        // A point that ends the format is a verb.
        if format.peek() != Some(b'.') || format.at + 1 >= format.text.len() {
            return;
        }
        format.at += 1;
        if format.is_after_index {
            format.is_good_index = false;
        }
        format.index();
        if format.peek() == Some(b'*') {
            format.at += 1;
            let precision = format.starred().and_then(|precision| usize::try_from(precision).ok());
            if precision.is_none() {
                self.text("%!(BADPREC)");
            }
            self.precision = precision;
            format.is_after_index = false;
            return;
        }
        let precision = format.number(format.text.len());
        self.precision = Some(
            precision
                .and_then(|precision| usize::try_from(precision).ok())
                .unwrap_or(0),
        );
    }

    fn extra(&mut self, values: &[Value]) {
        if values.is_empty() {
            return;
        }
        self.clear();
        self.text("%!(EXTRA ");
        for (at, value) in values.iter().enumerate() {
            if at > 0 {
                self.text(", ");
            }
            if value.is_nil() {
                self.text("<nil>");
            } else {
                self.text(&value.type_name());
                self.out.push(b'=');
                self.argument(value, 'v');
            }
        }
        self.out.push(b')');
    }
}
