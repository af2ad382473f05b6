//! Scans scalars in all five styles: which characters belong to them, and what becomes of line breaks.

use std::borrow::Cow;

use super::Problem;
use super::scan::Scanner;
use super::text::Mark;
use super::token::{Kind, Token};

/// What a block scalar keeps of the line breaks at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Chomping {
    Strip,
    Clip,
    Keep,
}

/// Line breaks and blanks between the words of a scalar over several lines, until it is known what they become.
#[derive(Default)]
struct Gap {
    leading_break: Vec<u8>,
    trailing_breaks: Vec<u8>,
    blanks: Vec<u8>,
    /// A line break was met: blanks no longer count.
    broken: bool,
}

impl Gap {
    /// One line break becomes a blank, of more the first is dropped.
    fn fold_into(&mut self, value: &mut Vec<u8>) {
        if !self.broken {
            value.append(&mut self.blanks);
            return;
        }
        if self.leading_break.first() != Some(&b'\n') {
            value.append(&mut self.leading_break);
        } else if self.trailing_breaks.is_empty() {
            value.push(b' ');
        }
        value.append(&mut self.trailing_breaks);
        self.leading_break.clear();
        self.broken = false;
    }
}

impl<'a> Scanner<'a> {
    /// Reads blanks and line breaks into `gap`.
    fn read_gap_piece(&mut self, gap: &mut Gap) {
        if !self.text.is_blank(0) {
            if gap.broken {
                self.text.read_line(&mut gap.trailing_breaks);
            } else {
                gap.blanks.clear();
                self.text.read_line(&mut gap.leading_break);
                gap.broken = true;
            }
        } else if gap.broken {
            self.text.skip();
        } else {
            self.text.read(&mut gap.blanks);
        }
    }

    /// A scalar without quotes.
    pub(super) fn scan_plain(&mut self) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        let indent = self.indent + 1;
        if self.flow_level == 0
            && let Some(plain) = self.text.take_plain(indent)
        {
            self.simple_key_allowed |= plain.ends_line;
            let value = Cow::Borrowed(plain.value);
            return Ok(Token::new(Kind::Scalar { value, plain: true }, start));
        }
        let mut value = Vec::new();
        let mut gap = Gap::default();
        loop {
            let _ = self.text.byte(3);
            if self.text.is_document_indicator() || self.text.byte(0) == b'#' {
                break;
            }
            self.read_plain_word(&mut value, &mut gap);
            if !self.text.is_blank(0) && !self.text.is_break(0) {
                break;
            }
            while self.text.is_blank(0) || self.text.is_break(0) {
                let tab = gap.broken && self.text.byte(0) == b'\t';
                if tab && (self.text.mark.column as isize) < indent {
                    return Err(self.problem(start, "found a tab character that violates indentation"));
                }
                self.read_gap_piece(&mut gap);
            }
            if self.flow_level == 0 && (self.text.mark.column as isize) < indent {
                break;
            }
        }
        if gap.broken {
            self.simple_key_allowed = true;
        }
        let value = Cow::Owned(value);
        Ok(Token::new(Kind::Scalar { value, plain: true }, start))
    }

    fn read_plain_word(&mut self, value: &mut Vec<u8>, gap: &mut Gap) {
        let in_flow = self.flow_level > 0;
        while !self.text.is_blank_or_end(0) {
            let byte = self.text.byte(0);
            if byte == b':' && self.text.is_blank_or_end(1)
                || in_flow && matches!(byte, b',' | b'?' | b'[' | b']' | b'{' | b'}')
            {
                break;
            }
            if gap.broken || !gap.blanks.is_empty() {
                gap.fold_into(value);
            }
            self.text.read(value);
            self.text.read_run(value, |byte| {
                matches!(
                    byte,
                    b' ' | b'\t' | b'\r' | b'\n' | 0 | b':' | b',' | b'?' | b'[' | b']' | b'{' | b'}'
                )
            });
        }
    }

    /// A scalar in single or double quotes.
    pub(super) fn scan_quoted(&mut self) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        let quote = self.text.byte(0);
        if let Some(value) = self.text.take_quoted(quote) {
            let value = Cow::Borrowed(value);
            return Ok(Token::new(Kind::Scalar { value, plain: false }, start));
        }
        self.text.skip();
        let mut value = Vec::new();
        let mut gap = Gap::default();
        loop {
            let _ = self.text.byte(3);
            if self.text.is_document_indicator() {
                return Err(self.problem(start, "found unexpected document indicator"));
            }
            if self.text.is_end(0) {
                return Err(self.problem(start, "found unexpected end of stream"));
            }
            gap.broken = self.read_quoted_word(&mut value, quote, start)?;
            if self.text.byte(0) == quote {
                break;
            }
            while self.text.is_blank(0) || self.text.is_break(0) {
                self.read_gap_piece(&mut gap);
            }
            if gap.broken && gap.leading_break.is_empty() {
                // After an escaped line break nothing is folded.
                value.append(&mut gap.trailing_breaks);
                gap.broken = false;
            }
            gap.fold_into(&mut value);
        }
        self.text.skip();
        let value = Cow::Owned(value);
        Ok(Token::new(Kind::Scalar { value, plain: false }, start))
    }

    /// Reads a word; returns whether it ended with an escaped line break.
    fn read_quoted_word(&mut self, value: &mut Vec<u8>, quote: u8, start: Mark) -> Result<bool, Problem> {
        while !self.text.is_blank_or_end(0) {
            let byte = self.text.byte(0);
            if byte == b'\'' && quote == byte && self.text.byte(1) == byte {
                value.push(byte);
                self.text.skip_bytes(2);
            } else if byte == quote {
                break;
            } else if byte == b'\\' && quote == b'"' {
                if self.text.is_break(1) {
                    self.text.skip();
                    self.text.skip_line();
                    return Ok(true);
                }
                self.read_escape(value, start)?;
            } else {
                self.text.read(value);
                self.text.read_run(value, |byte| {
                    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0 | b'\'' | b'"' | b'\\')
                });
            }
        }
        Ok(false)
    }

    fn read_escape(&mut self, value: &mut Vec<u8>, start: Mark) -> Result<(), Problem> {
        let plain: &[u8] = match self.text.byte(1) {
            b'0' => b"\0",
            b'a' => b"\x07",
            b'b' => b"\x08",
            b't' | b'\t' => b"\t",
            b'n' => b"\n",
            b'v' => b"\x0B",
            b'f' => b"\x0C",
            b'r' => b"\r",
            b'e' => b"\x1B",
            b' ' => b" ",
            b'"' => b"\"",
            b'\'' => b"'",
            b'\\' => b"\\",
            b'N' => "\u{85}".as_bytes(),
            b'_' => "\u{A0}".as_bytes(),
            b'L' => "\u{2028}".as_bytes(),
            b'P' => "\u{2029}".as_bytes(),
            b'x' => return self.read_code(value, start, 2),
            b'u' => return self.read_code(value, start, 4),
            b'U' => return self.read_code(value, start, 8),
            _ => return Err(self.problem(start, "found unknown escape character")),
        };
        value.extend_from_slice(plain);
        self.text.skip_bytes(2);
        Ok(())
    }

    /// A character by its number of `digits` hexadecimal digits.
    fn read_code(&mut self, value: &mut Vec<u8>, start: Mark, digits: usize) -> Result<(), Problem> {
        self.text.skip_bytes(2);
        let mut code = 0;
        for ahead in 0..digits {
            let Some(digit) = char::from(self.text.byte(ahead)).to_digit(16) else {
                return Err(self.problem(start, "did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
        }
        let Some(character) = char::from_u32(code) else {
            return Err(self.problem(start, "found invalid Unicode character escape code"));
        };
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        self.text.skip_bytes(digits);
        Ok(())
    }

    /// A scalar whose lines are indented below `|` or `>`.
    pub(super) fn scan_block(&mut self, literal: bool) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        let (chomping, increment) = self.scan_block_header(start)?;
        let mut indent = match increment {
            0 => 0,
            increment => self.indent.max(0) as usize + increment,
        };
        let mut value = Vec::new();
        let mut leading_break = Vec::new();
        let mut trailing_breaks = Vec::new();
        self.scan_block_breaks(&mut indent, &mut trailing_breaks, start)?;
        let mut leading_blank = false;
        while self.text.mark.column == indent && !self.text.is_end(0) {
            let blank = self.text.is_blank(0);
            if !literal && !leading_blank && !blank && leading_break.first() == Some(&b'\n') {
                if trailing_breaks.is_empty() {
                    value.push(b' ');
                }
                leading_break.clear();
            } else {
                value.append(&mut leading_break);
            }
            value.append(&mut trailing_breaks);
            leading_blank = blank;
            while !self.text.is_break_or_end(0) {
                self.text.read(&mut value);
                self.text.read_run(&mut value, |byte| matches!(byte, b'\r' | b'\n' | 0));
            }
            self.text.read_line(&mut leading_break);
            self.scan_block_breaks(&mut indent, &mut trailing_breaks, start)?;
        }
        if chomping != Chomping::Strip {
            value.append(&mut leading_break);
        }
        if chomping == Chomping::Keep {
            value.append(&mut trailing_breaks);
        }
        let value = Cow::Owned(value);
        Ok(Token::new(Kind::Scalar { value, plain: false }, start))
    }

    fn scan_block_header(&mut self, start: Mark) -> Result<(Chomping, usize), Problem> {
        self.text.skip();
        let mut chomping = self.scan_chomping();
        let increment = self.scan_increment(start)?;
        if chomping.is_none() && increment > 0 {
            chomping = self.scan_chomping();
        }
        self.text.skip_blanks();
        self.text.skip_comment();
        if !self.text.is_break_or_end(0) {
            return Err(self.problem(start, "did not find expected comment or line break"));
        }
        self.text.skip_line();
        Ok((chomping.unwrap_or(Chomping::Clip), increment))
    }

    fn scan_chomping(&mut self) -> Option<Chomping> {
        let chomping = match self.text.byte(0) {
            b'+' => Chomping::Keep,
            b'-' => Chomping::Strip,
            _ => return None,
        };
        self.text.skip();
        Some(chomping)
    }

    fn scan_increment(&mut self, start: Mark) -> Result<usize, Problem> {
        match self.text.byte(0) {
            b'0' => Err(self.problem(start, "found an indentation indicator equal to 0")),
            digit @ b'1'..=b'9' => {
                self.text.skip();
                Ok(usize::from(digit - b'0'))
            }
            _ => Ok(0),
        }
    }

    /// Indentation and empty lines; finds out the indentation where none is given (0).
    fn scan_block_breaks(&mut self, indent: &mut usize, breaks: &mut Vec<u8>, start: Mark) -> Result<(), Problem> {
        let mut widest = 0;
        loop {
            let within = *indent;
            self.text
                .skip_while(|text| (within == 0 || text.mark.column < within) && text.byte(0) == b' ');
            widest = widest.max(self.text.mark.column);
            if (within == 0 || self.text.mark.column < within) && self.text.byte(0) == b'\t' {
                return Err(self.problem(start, "found a tab character where an indentation space is expected"));
            }
            if !self.text.is_break(0) {
                break;
            }
            self.text.read_line(breaks);
        }
        if *indent == 0 {
            *indent = widest.max((self.indent + 1) as usize).max(1);
        }
        Ok(())
    }
}
