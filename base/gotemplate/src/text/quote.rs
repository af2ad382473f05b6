//! Go's quoted strings: `strconv.Quote`, `Unquote` and their kin of Go 1.26.

use std::fmt::Write as _;

use base_go::push_quoted;

use crate::text::{RUNE_ERROR, decode_rune, push_rune, runes};

/// Go's error for an invalid literal.
pub(crate) const SYNTAX: &str = "invalid syntax";

/// A string in double quotes.
pub(crate) fn quote(text: &[u8]) -> Vec<u8> {
    quote_with(text, '"', false)
}

/// A string in double quotes as text: all that is no UTF-8 is escaped.
pub(crate) fn quoted(text: &[u8]) -> String {
    quoted_with(text, '"', false)
}

/// A string in quotes; `is_ascii_only` escapes all that is not ASCII.
pub(crate) fn quote_with(text: &[u8], mark: char, is_ascii_only: bool) -> Vec<u8> {
    quoted_with(text, mark, is_ascii_only).into_bytes()
}

fn quoted_with(text: &[u8], mark: char, is_ascii_only: bool) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(mark);
    for chunk in text.utf8_chunks() {
        for rune in chunk.valid().chars() {
            push_quoted(&mut out, rune, mark, is_ascii_only);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push(mark);
    out
}

/// A rune in single quotes.
pub(crate) fn quote_rune(rune: char, is_ascii_only: bool) -> Vec<u8> {
    let mut out = "'".to_owned();
    push_quoted(&mut out, rune, '\'', is_ascii_only);
    out.push('\'');
    out.into_bytes()
}

/// Whether the string can stand between backquotes as it is.
pub(crate) fn can_backquote(text: &[u8]) -> bool {
    runes(text).all(|(_, rune, width)| match rune {
        '\u{feff}' | '`' | '\x7f' => false,
        RUNE_ERROR => width > 1,
        rune => rune >= ' ' || rune == '\t',
    })
}

/// The value of a literal in double quotes or backquotes.
pub(crate) fn unquote(literal: &[u8]) -> Option<Vec<u8>> {
    let (mark, rest) = literal.split_first()?;
    let (last, inner) = rest.split_last()?;
    if last != mark {
        return None;
    }
    match mark {
        b'`' => (!inner.contains(&b'`')).then(|| inner.iter().copied().filter(|byte| *byte != b'\r').collect()),
        b'"' => unquote_inner(inner),
        _ => None,
    }
}

fn unquote_inner(mut inner: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(inner.len());
    while let Some(first) = inner.first() {
        if *first == b'\n' {
            return None;
        }
        let read = unquote_char(inner, b'"')?;
        match read.rune {
            Unquoted::Byte(byte) => out.push(byte),
            Unquoted::Rune(rune) => push_rune(&mut out, rune),
        }
        inner = read.rest;
    }
    Some(out)
}

/// One character of a literal.
pub(crate) struct UnquotedChar<'a> {
    pub(crate) rune: Unquoted,
    pub(crate) rest: &'a [u8],
}

/// What a character of a literal stands for.
pub(crate) enum Unquoted {
    /// A byte: what is plain ASCII, `\x` and octal escapes
    Byte(u8),
    /// A rune
    Rune(char),
}

impl Unquoted {
    /// The number that a character constant has.
    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::Byte(byte) => u32::from(*byte),
            Self::Rune(rune) => u32::from(*rune),
        }
    }
}

/// `strconv.UnquoteChar`: the first character of what stands between quotes.
pub(crate) fn unquote_char(text: &[u8], mark: u8) -> Option<UnquotedChar<'_>> {
    let (first, rest) = text.split_first()?;
    if *first == mark {
        return None;
    }
    if !first.is_ascii() {
        let (rune, width) = decode_rune(text);
        return Some(UnquotedChar {
            rune: Unquoted::Rune(rune),
            rest: text.get(width..)?,
        });
    }
    if *first != b'\\' {
        return Some(UnquotedChar {
            rune: Unquoted::Byte(*first),
            rest,
        });
    }
    let (kind, rest) = rest.split_first()?;
    let byte = |byte| {
        Some(UnquotedChar {
            rune: Unquoted::Byte(byte),
            rest,
        })
    };
    match kind {
        b'a' => byte(0x07),
        b'b' => byte(0x08),
        b'f' => byte(0x0c),
        b'n' => byte(b'\n'),
        b'r' => byte(b'\r'),
        b't' => byte(b'\t'),
        b'v' => byte(0x0b),
        b'\\' => byte(b'\\'),
        b'\'' | b'"' => (*kind == mark).then(|| byte(*kind))?,
        b'x' => coded(rest, 2, 16).map(|(code, rest)| UnquotedChar {
            rune: Unquoted::Byte(code as u8),
            rest,
        }),
        b'u' => unicode(rest, 4),
        b'U' => unicode(rest, 8),
        b'0'..=b'7' => octal(text.get(1..)?),
        _ => None,
    }
}

fn coded(text: &[u8], digits: usize, base: u32) -> Option<(u32, &[u8])> {
    let (code, rest) = text.split_at_checked(digits)?;
    let mut value: u32 = 0;
    for byte in code {
        value = value
            .checked_mul(base)?
            .checked_add(char::from(*byte).to_digit(base)?)?;
    }
    Some((value, rest))
}

fn unicode(text: &[u8], digits: usize) -> Option<UnquotedChar<'_>> {
    let (code, rest) = coded(text, digits, 16)?;
    Some(UnquotedChar {
        rune: Unquoted::Rune(char::from_u32(code)?),
        rest,
    })
}

fn octal(text: &[u8]) -> Option<UnquotedChar<'_>> {
    let (code, rest) = coded(text, 3, 8)?;
    Some(UnquotedChar {
        rune: Unquoted::Byte(u8::try_from(code).ok()?),
        rest,
    })
}

#[cfg(test)]
mod tests {
    use super::{can_backquote, quote_with, quoted, unquote};

    #[test]
    fn unquote_reverses_quote() {
        for text in [&b"a\"\\\n\x01\xff"[..], "é\u{00AD}😀\u{7f}".as_bytes()] {
            for is_ascii_only in [false, true] {
                assert_eq!(unquote(&quote_with(text, '"', is_ascii_only)).as_deref(), Some(text));
            }
        }
        assert_eq!(quoted(b"a\x00\xffb\xc2\xad"), r#""a\x00\xffb\u00ad""#);
    }

    #[test]
    fn invalid_literals_are_refused() {
        for text in [r#""\q""#, r#""\u12""#, r#""\400""#, "\"a\nb\"", r#""\ud800""#, "`a`b`"] {
            assert_eq!(unquote(text.as_bytes()), None, "{text}");
        }
        assert_eq!(unquote(b"`a\r\nb\\`").as_deref(), Some(&b"a\nb\\"[..]));
        assert_eq!(unquote(br#""\101\x41\u0041""#).as_deref(), Some(&b"AAA"[..]));
        assert!(can_backquote(b"a\tb") && !can_backquote(b"a`b"));
    }
}
