//! The words of an expression (google/cel-go v0.26 `parser/gen/CEL.g4`). It reports what it cannot read, and goes on.

use crate::syntax::faults::Faults;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An operator, a bracket, or one of the words `in`, `true`, `false`, `null`.
    Sign(&'static str),
    Identifier,
    /// An identifier between back quotes.
    Escaped,
    Int,
    Uint,
    Float,
    Text,
    Bytes,
    End,
}

/// One token; places are counted in characters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// Longer ones first.
const SIGNS: [&str; 24] = [
    "==", "!=", "<=", ">=", "&&", "||", "<", ">", "[", "]", "{", "}", "(", ")", ".", ",", "-", "!", "?", ":", "+", "*",
    "/", "%",
];
const WORDS: [&str; 4] = ["in", "true", "false", "null"];

/// All tokens; the last one is the end.
pub(crate) fn read(chars: &[char], faults: &mut Faults) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut reader = Reader { chars, at: 0 };
    loop {
        reader.skip_blanks();
        let start = reader.at;
        if start >= chars.len() {
            break;
        }
        match reader.token() {
            Some(kind) => tokens.push(Token {
                kind,
                start,
                end: reader.at,
            }),
            None => {
                // The characters that were read in vain are skipped.
                reader.at = (reader.at + 1).min(chars.len());
                let text: String = chars[start..reader.at].iter().collect();
                faults.add(
                    Some(start),
                    format!("Syntax error: token recognition error at: '{text}'"),
                );
            }
        }
    }
    tokens.push(Token {
        kind: Kind::End,
        start: chars.len(),
        end: chars.len(),
    });
    tokens
}

struct Reader<'c> {
    chars: &'c [char],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn starts_with(&self, text: &str) -> bool {
        text.chars().enumerate().all(|(ahead, c)| self.peek(ahead) == Some(c))
    }

    fn skip_while(&mut self, fits: impl Fn(char) -> bool) -> usize {
        let start = self.at;
        while self.peek(0).is_some_and(&fits) {
            self.at += 1;
        }
        self.at - start
    }

    fn skip_blanks(&mut self) {
        loop {
            self.skip_while(|c| matches!(c, '\t' | ' ' | '\r' | '\n' | '\u{c}'));
            if !self.starts_with("//") {
                return;
            }
            self.skip_while(|c| c != '\n');
        }
    }

    /// Where there is none, it stops at the character that fits nothing.
    fn token(&mut self) -> Option<Kind> {
        let first = self.peek(0)?;
        let dot_number = first == '.' && self.peek(1).is_some_and(|c| c.is_ascii_digit());
        if first.is_ascii_digit() || dot_number {
            return Some(self.number());
        }
        if let Some((length, is_raw, is_bytes)) = self.text_prefix() {
            let before = self.at;
            self.at += length;
            if self.text(is_raw) {
                return Some(if is_bytes { Kind::Bytes } else { Kind::Text });
            }
            if length == 0 {
                return None;
            }
            // The prefix is a word of its own.
            self.at = before;
        }
        if first == '_' || first.is_ascii_alphabetic() {
            let start = self.at;
            self.skip_while(|c| c == '_' || c.is_ascii_alphanumeric());
            let word: String = self.chars[start..self.at].iter().collect();
            let sign = WORDS.into_iter().find(|known| *known == word);
            return Some(sign.map_or(Kind::Identifier, Kind::Sign));
        }
        if first == '`' {
            self.at += 1;
            let inside = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '/' | ' ');
            let length = self.skip_while(inside);
            let closed = length > 0 && self.peek(0) == Some('`');
            self.at += usize::from(closed);
            return closed.then_some(Kind::Escaped);
        }
        if let Some(sign) = SIGNS.into_iter().find(|sign| self.starts_with(sign)) {
            self.at += sign.len();
            return Some(Kind::Sign(sign));
        }
        // The first half of a sign is read before it is clear that there is no second one.
        self.at += usize::from(matches!(first, '=' | '&' | '|'));
        None
    }

    /// How many letters stand before a quote, and whether they mark a raw text, or bytes.
    fn text_prefix(&self) -> Option<(usize, bool, bool)> {
        let is_bytes = matches!(self.peek(0)?, 'b' | 'B');
        let raw_at = usize::from(is_bytes);
        let is_raw = matches!(self.peek(raw_at)?, 'r' | 'R');
        let length = raw_at + usize::from(is_raw);
        matches!(self.peek(length)?, '"' | '\'').then_some((length, is_raw, is_bytes))
    }

    /// From the first quote on; false where it does not end.
    fn text(&mut self, is_raw: bool) -> bool {
        let Some(quote) = self.peek(0) else { return false };
        let is_long = self.peek(1) == Some(quote) && self.peek(2) == Some(quote);
        self.at += if is_long { 3 } else { 1 };
        loop {
            match self.peek(0) {
                None => return false,
                Some('\\') if !is_raw => {
                    if !self.escape() {
                        return false;
                    }
                }
                Some(c) if c == quote && !is_long => {
                    self.at += 1;
                    return true;
                }
                Some(c) if c == quote && self.peek(1) == Some(quote) && self.peek(2) == Some(quote) => {
                    self.at += 3;
                    return true;
                }
                Some('\n' | '\r') if !is_long => return false,
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> bool {
        self.at += 1;
        let digits = match self.peek(0) {
            Some('a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '"' | '\'' | '\\' | '?' | '`') => 0,
            Some('x' | 'X') => 2,
            Some('u') => 4,
            Some('U') => 8,
            Some('0'..='3') => {
                let octal = |c: Option<char>| c.is_some_and(|c| ('0'..='7').contains(&c));
                let whole = octal(self.peek(1)) && octal(self.peek(2));
                self.at += if whole { 3 } else { 0 };
                return whole;
            }
            _ => return false,
        };
        let whole = (1..=digits).all(|ahead| self.peek(ahead).is_some_and(|c| c.is_ascii_hexdigit()));
        self.at += if whole { digits + 1 } else { 0 };
        whole
    }

    fn number(&mut self) -> Kind {
        let is_hex = self.starts_with("0x") && self.peek(2).is_some_and(|c| c.is_ascii_hexdigit());
        if is_hex {
            self.at += 2;
            self.skip_while(|c| c.is_ascii_hexdigit());
        } else {
            self.skip_while(|c| c.is_ascii_digit());
            let has_fraction = self.peek(0) == Some('.') && self.peek(1).is_some_and(|c| c.is_ascii_digit());
            if has_fraction {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit());
            }
            let sign = usize::from(matches!(self.peek(1), Some('+' | '-')));
            let has_exponent =
                matches!(self.peek(0), Some('e' | 'E')) && self.peek(1 + sign).is_some_and(|c| c.is_ascii_digit());
            if has_exponent {
                self.at += 1 + sign;
                self.skip_while(|c| c.is_ascii_digit());
            }
            if has_fraction || has_exponent {
                return Kind::Float;
            }
        }
        match self.peek(0) {
            Some('u' | 'U') => {
                self.at += 1;
                Kind::Uint
            }
            _ => Kind::Int,
        }
    }
}
