//! Reading of table names and keys.

use super::lex::{END, Wrong, is_space, shown};
use super::read::{Reader, Step};
use super::strings::{self, Raw};
use crate::text::Str;

impl Reader<'_> {
    /// `[table]` or `[[tables]]`, of which the first letter has been read.
    pub(super) fn header(&mut self) -> Step {
        let is_array = self.lexer.accept('[')?;
        self.lexer.ignore();
        let mut path: Vec<Str> = Vec::new();
        loop {
            self.lexer.skip(is_space)?;
            let what = match self.lexer.peek()? {
                ']' | END => Some("unexpected end of table name (table names cannot be empty)"),
                '.' => Some("unexpected table separator (table names cannot be empty)"),
                _ => None,
            };
            if let Some(what) = what {
                return Err(self.lexer.unfit(what).into());
            }
            let part = self.key_part(path.is_empty())?;
            path.push(part);
            self.check_depth(path.len())?;
            self.lexer.skip(is_space)?;
            match self.lexer.next()? {
                '.' => self.lexer.ignore(),
                ']' => break,
                other => {
                    let what = format!(
                        "expected '.' or ']' to end table name, but got {} instead",
                        shown(other)
                    );
                    return Err(self.lexer.unfit(what).into());
                }
            }
        }
        if is_array && !self.lexer.accept(']')? {
            let other = shown(self.lexer.next()?);
            let what = format!("expected end of table array name delimiter ']', but got {other} instead");
            return Err(self.lexer.unfit(what).into());
        }
        self.lexer.ignore();
        self.enter(&path, is_array)?;
        let path = self.path(&self.context, None)?;
        self.arrays.insert(path, false);
        Ok(())
    }

    /// A part of a key, with quotes or without.
    fn key_part(&mut self, is_first: bool) -> Step<Str> {
        let mark = self.lexer.peek()?;
        let (text, line): (Str, i64) = match mark {
            '"' | '\'' => {
                self.lexer.next()?;
                let raw = self.lexer.line_string(mark)?;
                (self.unescaped(&raw, raw.text)?, raw.line)
            }
            _ => (self.lexer.bare()?.into(), self.lexer.line),
        };
        if is_first {
            self.key_line = line;
        }
        Ok(text)
    }

    pub(super) fn unescaped(&self, raw: &Raw<'_>, text: &[u8]) -> Step<Str> {
        if !raw.is_escaped {
            return Ok(text.into());
        }
        let line = raw.line;
        let text = strings::unescaped(text).map_err(|what| Wrong { line, what })?;
        Ok(text.into())
    }

    /// A key up to its equals sign.
    pub(super) fn read_key(&mut self) -> Step<Vec<Str>> {
        self.lexer.skip(is_space)?;
        let what = match self.lexer.peek()? {
            '=' | END => Some("unexpected '=': key name appears blank"),
            '.' => Some("unexpected '.': keys cannot start with a '.'"),
            _ => None,
        };
        if let Some(what) = what {
            return Err(self.lexer.unfit(what).into());
        }
        let mut path = Vec::new();
        loop {
            path.push(self.key_part(path.is_empty())?);
            self.check_depth(path.len())?;
            self.lexer.skip(is_space)?;
            match self.lexer.next()? {
                '=' => break,
                '.' => self.lexer.ignore(),
                END => return Err(self.lexer.unfit("unexpected EOF; expected key separator '='").into()),
                other => {
                    let what = format!("expected '.' or '=', but got {} instead", shown(other));
                    return Err(match other {
                        '\n' => self.lexer.wrong_before(what).into(),
                        _ => self.lexer.unfit(what).into(),
                    });
                }
            }
            self.lexer.skip(is_space)?;
            let what = match self.lexer.peek()? {
                '=' | END => "unexpected '='",
                '.' => "unexpected '.'",
                _ => continue,
            };
            return Err(self.lexer.unfit(what).into());
        }
        self.lexer.ignore();
        Ok(path)
    }
}
