//! Quoted strings: `strconv.Quote` and its relatives of Go 1.26.

use std::fmt::Write as _;

use crate::is_print;

/// A text in double quotes: `strconv.Quote`.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for rune in text.chars() {
        push_quoted(&mut out, rune, '"', false);
    }
    out.push('"');
    out
}

/// Appends a rune as it is written between quotation marks `mark`: `appendEscapedRune`.
pub fn push_quoted(out: &mut String, rune: char, mark: char, is_ascii_only: bool) {
    // Writing to a string cannot fail.
    let _ = match rune {
        _ if rune == mark || rune == '\\' => write!(out, "\\{rune}"),
        _ if is_print(rune) && (rune.is_ascii() || !is_ascii_only) => {
            out.push(rune);
            Ok(())
        }
        '\x07' => out.write_str("\\a"),
        '\x08' => out.write_str("\\b"),
        '\x0C' => out.write_str("\\f"),
        '\n' => out.write_str("\\n"),
        '\r' => out.write_str("\\r"),
        '\t' => out.write_str("\\t"),
        '\x0B' => out.write_str("\\v"),
        '\0'..' ' | '\x7F' => write!(out, "\\x{:02x}", u32::from(rune)),
        '\0'..='\u{FFFF}' => write!(out, "\\u{:04x}", u32::from(rune)),
        _ => write!(out, "\\U{:08x}", u32::from(rune)),
    };
}

#[cfg(test)]
mod tests {
    use super::{push_quoted, quoted};

    #[test]
    fn what_does_not_print_is_escaped() {
        assert_eq!(
            quoted("a\"'\\\n\x07\x01\x7fé\u{ad}\u{e0001}"),
            r#""a\"'\\\n\a\x01\x7fé\u00ad\U000e0001""#
        );
        let mut ascii = String::new();
        for rune in "'\"é😀".chars() {
            push_quoted(&mut ascii, rune, '\'', true);
        }
        assert_eq!(ascii, r#"\'"\u00e9\U0001f600"#);
    }
}
