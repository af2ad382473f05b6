//! Strings of TOML: where they end, and their content without escapes.

use super::lex::{END, Lexer, Step, is_line_end};
use crate::text::quote::quoted;
use crate::text::{push_rune, runes};

/// A string as it stands in the text.
pub(super) struct Raw<'t> {
    pub(super) text: &'t [u8],
    /// The line in which it ends
    pub(super) line: i64,
    /// Whether something is escaped in it
    pub(super) is_escaped: bool,
}

impl<'t> Lexer<'t> {
    fn raw(&mut self, is_escaped: bool) -> Raw<'t> {
        Raw {
            line: self.line,
            text: self.piece(),
            is_escaped,
        }
    }

    /// What has been read up to the mark that ends it, which is left out.
    fn closed(&mut self, marks: usize, is_escaped: bool) -> Step<Raw<'t>> {
        for _ in 0..marks {
            self.back();
        }
        let raw = self.raw(is_escaped);
        for _ in 0..marks {
            self.next()?;
        }
        self.ignore();
        Ok(raw)
    }

    /// A string of one line whose mark has been read.
    pub(super) fn line_string(&mut self, mark: char) -> Step<Raw<'t>> {
        self.ignore();
        let mut is_escaped = false;
        loop {
            match self.next()? {
                END if mark == '"' => return Err(self.unfit("unexpected EOF; expected '\"'")),
                END => return Err(self.unfit("unexpected EOF; expected \"'\"")),
                letter if is_line_end(letter) => {
                    return Err(self.wrong_before("strings cannot contain newlines"));
                }
                '\\' if mark == '"' => {
                    is_escaped = true;
                    self.escape()?;
                }
                letter if letter == mark => return self.closed(1, is_escaped),
                _ => {}
            }
        }
    }

    /// A string of many lines whose marks have been read.
    pub(super) fn long_string(&mut self, mark: char) -> Step<Raw<'t>> {
        self.ignore();
        let five = [mark as u8; 5];
        loop {
            match self.next()? {
                END if mark == '"' => return Err(self.unfit("unexpected EOF; expected '\"\"\"'")),
                END => return Err(self.unfit("unexpected EOF; expected \"'''\"")),
                '\\' if mark == '"' && !is_line_end(self.next()?) => {
                    self.back();
                    self.escape()?;
                }
                letter if letter == mark && self.accept(mark)? => {
                    if !self.accept(mark)? {
                        self.back();
                        // The second mark is read again.
                        continue;
                    }
                    if self.peek()? != mark {
                        return self.closed(3, true);
                    }
                    // One or two marks may stand before those that end it.
                    let before = self.current().strip_suffix(&five);
                    let is_escaped = mark == '"' && before.is_some_and(|before| before.ends_with(b"\\"));
                    if before.is_some() && !is_escaped {
                        return Err(self.unfit(match mark {
                            '"' => "unexpected '\"\"\"\"\"\"'",
                            _ => "unexpected \"''''''\"",
                        }));
                    }
                    self.back();
                    self.back();
                }
                _ => {}
            }
        }
    }

    /// What follows a backslash.
    fn escape(&mut self) -> Step {
        let (count, name, letter) = match self.next()? {
            'e' | 'b' | 't' | 'n' | 'f' | 'r' | '"' | ' ' | '\t' | '\\' => return Ok(()),
            'x' => (2, "two", 'x'),
            'u' => (4, "four", 'u'),
            'U' => (8, "eight", 'U'),
            other => return Err(self.wrong(format!("invalid escape in string '\\{other}'"))),
        };
        for _ in 0..count {
            if !self.next()?.is_ascii_hexdigit() {
                let current = quoted(self.current());
                let what = format!("expected {name} hexadecimal digits after '\\{letter}', but got {current} instead");
                return Err(self.unfit(what));
            }
        }
        Ok(())
    }
}

/// Without a line end at the beginning.
pub(super) fn without_first_line_end(text: &[u8]) -> &[u8] {
    let rest = text.strip_prefix(b"\n").or_else(|| text.strip_prefix(b"\r\n"));
    rest.unwrap_or(text)
}

/// Without backslashes at the end of lines, and what is blank behind them.
pub(super) fn without_escaped_line_ends(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let behind = rest.get(at + 1..).unwrap_or_default();
        let blank = behind
            .iter()
            .take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r' | b'\n'))
            .count();
        let is_line_end = behind.iter().take(blank).any(|byte| *byte == b'\n');
        let (copied, skipped) = match behind.first() {
            Some(b'\\') => (at + 2, 0),
            _ if is_line_end => (at, 1 + blank),
            _ => (at + 1, 0),
        };
        out.extend_from_slice(rest.get(..copied).unwrap_or_default());
        rest = rest.get(copied + skipped..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// A text with its escapes replaced.
///
/// # Errors
/// An escape is no valid rune.
pub(super) fn unescaped(text: &[u8]) -> Result<Vec<u8>, String> {
    let mut out = Vec::with_capacity(text.len());
    let mut letters = runes(text);
    while let Some((at, letter, _)) = letters.next() {
        if letter != '\\' {
            push_rune(&mut out, letter);
            continue;
        }
        let digits = match letters.next().map_or(END, |(_, letter, _)| letter) {
            'b' => Err('\x08'),
            't' => Err('\t'),
            'n' => Err('\n'),
            'f' => Err('\x0c'),
            'r' => Err('\r'),
            'e' => Err('\x1b'),
            other @ ('"' | '\\') => Err(other),
            'x' => Ok(2),
            'u' => Ok(4),
            'U' => Ok(8),
            other => return Err(format!("invalid escape: '\\{other}'")),
        };
        let count = match digits {
            Err(letter) => {
                push_rune(&mut out, letter);
                continue;
            }
            Ok(count) => count,
        };
        let digits = text.get(at + 2..at + 2 + count).unwrap_or_default();
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        let code = u32::from_str_radix(digits, 16).ok().and_then(char::from_u32);
        let letter = code.ok_or_else(|| format!("Escaped character '\\u{digits}' is not valid UTF-8."))?;
        push_rune(&mut out, letter);
        letters.nth(count - 1);
    }
    Ok(out)
}
