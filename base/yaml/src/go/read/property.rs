//! Scans anchors, aliases, tags and directives.

use super::Problem;
use super::scan::Scanner;
use super::text::Mark;
use super::token::{Kind, Token};

/// A version number has no more digits.
const VERSION_DIGITS_MAX: usize = 2;

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

impl<'a> Scanner<'a> {
    fn scan_name(&mut self) -> Vec<u8> {
        let mut name = Vec::new();
        self.text.read_run(&mut name, |byte| !is_name(byte));
        // Looks at the byte after the end, as Go does.
        let _ = self.text.byte(0);
        name
    }

    pub(super) fn scan_anchor(&mut self) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        let alias = self.text.byte(0) == b'*';
        self.text.skip();
        let name = self.scan_name();
        let ends = self.text.is_blank_or_end(0)
            || matches!(self.text.byte(0), b'?' | b':' | b',' | b']' | b'}' | b'%' | b'@' | b'`');
        if name.is_empty() || !ends {
            return Err(self.problem(start, "did not find expected alphabetic or numeric character"));
        }
        Ok(Token::new(
            if alias { Kind::Alias(name) } else { Kind::Anchor(name) },
            start,
        ))
    }

    pub(super) fn scan_tag(&mut self) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        let (mut handle, mut suffix) = (Vec::new(), Vec::new());
        if self.text.byte(1) == b'<' {
            self.text.skip_bytes(2);
            self.scan_uri(&mut suffix, false, start)?;
            if self.text.byte(0) != b'>' {
                return Err(self.problem(start, "did not find the expected '>'"));
            }
            self.text.skip();
        } else {
            handle = self.scan_handle(false, start)?;
            if handle.len() > 1 && handle.ends_with(b"!") {
                self.scan_uri(&mut suffix, false, start)?;
            } else {
                suffix.extend_from_slice(&handle[1..]);
                self.scan_uri(&mut suffix, true, start)?;
                handle = b"!".to_vec();
                if suffix.is_empty() {
                    std::mem::swap(&mut handle, &mut suffix);
                }
            }
        }
        if !self.text.is_blank_or_end(0) {
            return Err(self.problem(start, "did not find expected whitespace or line break"));
        }
        Ok(Token::new(Kind::Tag { handle, suffix }, start))
    }

    fn scan_handle(&mut self, directive: bool, start: Mark) -> Result<Vec<u8>, Problem> {
        if self.text.byte(0) != b'!' {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        let mut handle = b"!".to_vec();
        self.text.skip();
        handle.append(&mut self.scan_name());
        if self.text.byte(0) == b'!' {
            self.text.read(&mut handle);
        } else if directive && handle != b"!" {
            return Err(self.problem(start, "did not find expected '!'"));
        }
        Ok(handle)
    }

    /// Appends a URI to `uri`, which is an error if it is empty unless it `may_be_empty`.
    fn scan_uri(&mut self, uri: &mut Vec<u8>, may_be_empty: bool, start: Mark) -> Result<(), Problem> {
        let mut found = may_be_empty;
        loop {
            match self.text.byte(0) {
                b'%' => self.scan_uri_escape(uri, start)?,
                byte if is_name(byte) || b";/?:@&=+$,.!~*'()[]".contains(&byte) => self.text.read(uri),
                _ if found => return Ok(()),
                _ => return Err(self.problem(start, "did not find expected tag URI")),
            }
            found = true;
        }
    }

    /// One character, escaped byte by byte.
    fn scan_uri_escape(&mut self, uri: &mut Vec<u8>, start: Mark) -> Result<(), Problem> {
        let mut left = 0;
        loop {
            let digit = |ahead| char::from(self.text.byte(ahead)).to_digit(16);
            let octet = match (self.text.byte(0), digit(1), digit(2)) {
                (b'%', Some(high), Some(low)) => (high << 4 | low) as u8,
                _ => return Err(self.problem(start, "did not find URI escaped octet")),
            };
            left = match (left, octet) {
                (0, 0x00..0x80) => 1,
                (0, 0xC0..0xE0) => 2,
                (0, 0xE0..0xF0) => 3,
                (0, 0xF0..0xF8) => 4,
                (0, _) => return Err(self.problem(start, "found an incorrect leading UTF-8 octet")),
                (left, 0x80..0xC0) => left,
                _ => return Err(self.problem(start, "found an incorrect trailing UTF-8 octet")),
            };
            uri.push(octet);
            self.text.skip_bytes(3);
            left -= 1;
            if left == 0 {
                return Ok(());
            }
        }
    }

    pub(super) fn scan_directive(&mut self) -> Result<Token<'a>, Problem> {
        let start = self.text.mark;
        self.text.skip();
        let name = self.scan_name();
        if name.is_empty() {
            return Err(self.problem(start, "could not find expected directive name"));
        }
        if !self.text.is_blank_or_end(0) {
            return Err(self.problem(start, "found unexpected non-alphabetical character"));
        }
        let kind = match name.as_slice() {
            b"YAML" => self.scan_version(start)?,
            b"TAG" => self.scan_tag_directive(start)?,
            _ => return Err(self.problem(start, "found unknown directive name")),
        };
        self.text.skip_blanks();
        self.text.skip_comment();
        if !self.text.is_break_or_end(0) {
            return Err(self.problem(start, "did not find expected comment or line break"));
        }
        self.text.skip_line();
        Ok(Token::new(kind, start))
    }

    fn scan_version(&mut self, start: Mark) -> Result<Kind<'a>, Problem> {
        self.text.skip_blanks();
        let major = self.scan_version_number(start)?;
        if self.text.byte(0) != b'.' {
            return Err(self.problem(start, "did not find expected digit or '.' character"));
        }
        self.text.skip();
        let minor = self.scan_version_number(start)?;
        Ok(Kind::VersionDirective { major, minor })
    }

    fn scan_version_number(&mut self, start: Mark) -> Result<u8, Problem> {
        let mut digits = 0;
        let mut number = 0;
        while self.text.byte(0).is_ascii_digit() {
            digits += 1;
            if digits > VERSION_DIGITS_MAX {
                return Err(self.problem(start, "found extremely long version number"));
            }
            number = number * 10 + (self.text.byte(0) - b'0');
            self.text.skip();
        }
        match digits {
            0 => Err(self.problem(start, "did not find expected version number")),
            _ => Ok(number),
        }
    }

    fn scan_tag_directive(&mut self, start: Mark) -> Result<Kind<'a>, Problem> {
        self.text.skip_blanks();
        let handle = self.scan_handle(true, start)?;
        if !self.text.is_blank(0) {
            return Err(self.problem(start, "did not find expected whitespace"));
        }
        self.text.skip_blanks();
        let mut prefix = Vec::new();
        self.scan_uri(&mut prefix, false, start)?;
        if !self.text.is_blank_or_end(0) {
            return Err(self.problem(start, "did not find expected whitespace or line break"));
        }
        Ok(Kind::TagDirective { handle, prefix })
    }
}
