//! From a TOML text to its pieces: the lexer of github.com/BurntSushi/toml 1.6, whose errors depend on the order in which it
//! reads.

use super::key_text::is_bare;
use crate::text::quote::{quote_rune, quoted};
use crate::text::{RUNE_ERROR, decode_rune, is_letter};

/// The end of the text: in a text itself this character is an error.
pub(super) const END: char = '\0';

/// A value's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Integer,
    Float,
    DateTime,
}

/// An error, and its line.
#[derive(Debug)]
pub(super) struct Wrong {
    pub(super) line: i64,
    pub(super) what: String,
}

pub(super) type Step<T = ()> = Result<T, Wrong>;

/// Where in a text the reader is.
pub(super) struct Lexer<'t> {
    pub(super) text: &'t [u8],
    /// Where the piece begins
    pub(super) start: usize,
    pub(super) at: usize,
    pub(super) line: i64,
    is_at_end: bool,
}

pub(super) fn is_space(letter: char) -> bool {
    matches!(letter, ' ' | '\t')
}

pub(super) fn is_line_end(letter: char) -> bool {
    matches!(letter, '\n' | '\r')
}

fn is_control(letter: char) -> bool {
    letter.is_ascii_control() && !matches!(letter, '\t' | '\n' | '\r')
}

/// A letter as errors show it.
pub(super) fn shown(letter: char) -> String {
    String::from_utf8_lossy(&quote_rune(letter, false)).into_owned()
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self {
            text,
            start: 0,
            at: 0,
            line: 1,
            is_at_end: false,
        }
    }

    /// The next letter, [`END`] at the end.
    pub(super) fn next(&mut self) -> Step<char> {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let Some(first) = rest.first() else {
            self.is_at_end = true;
            return Ok(END);
        };
        if *first == b'\n' {
            self.line += 1;
        }
        let (letter, width) = decode_rune(rest);
        if letter == RUNE_ERROR && width == 1 {
            return Err(self.wrong(format!("invalid UTF-8 byte: 0x{first:02x}")));
        }
        if is_control(letter) || (letter == '\r' && rest.get(1) != Some(&b'\n')) {
            let what = format!(
                "TOML files cannot contain control characters: '0x{:02x}'",
                u32::from(letter)
            );
            return Err(self.wrong(what));
        }
        self.at += width;
        Ok(letter)
    }

    /// One letter back.
    pub(super) fn back(&mut self) {
        if self.is_at_end {
            self.is_at_end = false;
            return;
        }
        let is_inside = |byte: &u8| byte & 0xC0 == 0x80;
        self.at = self.at.saturating_sub(1);
        while self.at > 0 && self.text.get(self.at).is_some_and(is_inside) {
            self.at -= 1;
        }
        if self.text.get(self.at) == Some(&b'\n') {
            self.line -= 1;
        }
    }

    pub(super) fn peek(&mut self) -> Step<char> {
        let letter = self.next()?;
        self.back();
        Ok(letter)
    }

    pub(super) fn accept(&mut self, wanted: char) -> Step<bool> {
        let is_there = self.next()? == wanted;
        if !is_there {
            self.back();
        }
        Ok(is_there)
    }

    /// Leaves out what has been read.
    pub(super) fn ignore(&mut self) {
        self.start = self.at;
    }

    pub(super) fn skip(&mut self, is_skipped: fn(char) -> bool) -> Step {
        while is_skipped(self.next()?) {}
        self.back();
        self.ignore();
        Ok(())
    }

    /// What has been read of the piece.
    pub(super) fn current(&self) -> &'t [u8] {
        self.text.get(self.start..self.at).unwrap_or_default()
    }

    /// The piece that ends here.
    pub(super) fn piece(&mut self) -> &'t [u8] {
        let piece = self.current();
        self.start = self.at;
        piece
    }

    /// An error here; at the end of the text, a line earlier.
    pub(super) fn wrong(&self, what: String) -> Wrong {
        let line = self.line - i64::from(self.is_at_end);
        Wrong { line, what }
    }

    /// An error here; at the end of the text behind a line feed, in the line that it ends.
    pub(super) fn unfit(&self, what: impl Into<String>) -> Wrong {
        let before = self.at.checked_sub(1).and_then(|at| self.text.get(at));
        let line = self.line - i64::from(self.is_at_end && before == Some(&b'\n'));
        Wrong {
            line,
            what: what.into(),
        }
    }

    /// An error in the line that has just ended.
    pub(super) fn wrong_before(&self, what: impl Into<String>) -> Wrong {
        Wrong {
            line: self.line - 1,
            what: what.into(),
        }
    }

    /// A key without quotes, or nothing.
    pub(super) fn bare(&mut self) -> Step<&'t [u8]> {
        while is_bare(self.next()?) {}
        self.back();
        Ok(self.piece())
    }

    /// A comment, of which the first letter has been read.
    pub(super) fn comment(&mut self) -> Step {
        self.ignore();
        loop {
            let letter = self.next()?;
            if is_line_end(letter) || letter == END {
                self.back();
                self.ignore();
                return Ok(());
            }
        }
    }

    /// A boolean, number or date, whose first letter comes next.
    pub(super) fn scalar(&mut self) -> Step<Kind> {
        let first = self.next()?;
        match first {
            '0' => return self.zero(),
            '1'..='9' => return self.number_or_date(),
            '.' => return Err(self.unfit("floats must start with a digit, not '.'")),
            'i' | 'n' => {
                let is_inf = self.accept('n')? && self.accept('f')?;
                if is_inf || (self.accept('a')? && self.accept('n')?) {
                    return Ok(Kind::Float);
                }
            }
            '-' | '+' => return self.signed(),
            _ => {}
        }
        if is_letter(first) {
            self.back();
            return self.word();
        }
        if first == END {
            return Err(self.unfit("unexpected EOF; expected value"));
        }
        let what = format!("expected value but found {} instead", shown(first));
        Err(match first {
            '\n' => self.wrong_before(what),
            _ => self.unfit(what),
        })
    }

    fn word(&mut self) -> Step<Kind> {
        let from = self.at;
        while is_letter(self.next()?) {}
        self.back();
        let word = self.text.get(from..self.at).unwrap_or_default();
        match word {
            b"true" | b"false" => Ok(Kind::Bool),
            word => Err(self.unfit(format!("expected value but found {} instead", quoted(word)))),
        }
    }

    /// Letters of some kind; the one behind them has been read.
    fn run(&mut self, is_part: impl Fn(char) -> bool) -> Step<char> {
        loop {
            let letter = self.next()?;
            if !is_part(letter) {
                return Ok(letter);
            }
        }
    }

    fn all(&mut self, is_part: impl Fn(char) -> bool, kind: Kind) -> Step<Kind> {
        self.run(is_part)?;
        self.back();
        Ok(kind)
    }

    fn number_or_date(&mut self) -> Step<Kind> {
        match self.run(|letter| letter.is_ascii_digit())? {
            '-' | ':' => self.all(
                |letter| {
                    letter.is_ascii_digit() || matches!(letter, '-' | ':' | 'T' | 't' | ' ' | '.' | 'Z' | 'z' | '+')
                },
                Kind::DateTime,
            ),
            '_' => self.decimal(),
            '.' | 'e' | 'E' => self.float(),
            _ => {
                self.back();
                Ok(Kind::Integer)
            }
        }
    }

    fn decimal(&mut self) -> Step<Kind> {
        match self.run(|letter| letter.is_ascii_digit() || letter == '_')? {
            '.' | 'e' | 'E' => self.float(),
            _ => {
                self.back();
                Ok(Kind::Integer)
            }
        }
    }

    fn float(&mut self) -> Step<Kind> {
        self.all(
            |letter| letter.is_ascii_digit() || matches!(letter, '_' | '.' | '-' | '+' | 'e' | 'E'),
            Kind::Float,
        )
    }

    fn lossy(&self) -> String {
        String::from_utf8_lossy(self.current()).into_owned()
    }

    /// A number behind its sign.
    fn signed(&mut self) -> Step<Kind> {
        let first = self.next()?;
        match first {
            'i' | 'n' => {
                let [second, third] = if first == 'i' { ['n', 'f'] } else { ['a', 'n'] };
                if !self.accept(second)? || !self.accept(third)? {
                    return Err(self.unfit(format!("invalid float: '{}'", self.lossy())));
                }
                return Ok(Kind::Float);
            }
            '0' => {
                let base = self.peek()?;
                if matches!(base, 'b' | 'o' | 'x') {
                    let what = format!("cannot use sign with non-decimal numbers: '{}{base}'", self.lossy());
                    return Err(self.unfit(what));
                }
            }
            '.' => return Err(self.unfit("floats must start with a digit, not '.'")),
            _ => {}
        }
        if first.is_ascii_digit() {
            return self.decimal();
        }
        Err(self.unfit(format!("expected a digit but got {}", shown(first))))
    }

    /// What begins with a zero.
    fn zero(&mut self) -> Step<Kind> {
        let (radix, name) = match self.next()? {
            letter if letter.is_ascii_digit() => return self.number_or_date(),
            '_' => return self.decimal(),
            '.' | 'e' | 'E' => return self.float(),
            'b' => (2, "a binary"),
            'o' => (8, "an octal"),
            'x' => (16, "a hexadecimal"),
            _ => {
                self.back();
                return Ok(Kind::Integer);
            }
        };
        let first = self.peek()?;
        if !first.is_digit(radix) {
            return Err(self.unfit(format!("not {name} number: '{}{first}'", self.lossy())));
        }
        self.all(|letter| letter.is_digit(radix) || letter == '_', Kind::Integer)
    }
}
