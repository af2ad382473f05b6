//! Strings of bytes that are UTF-8 as a rule, read rune by rune as Go reads them. Nothing here refuses bytes that are no
//! UTF-8.

use std::sync::LazyLock;

use regex::Regex;

/// What Go reads in place of bytes that are no UTF-8.
pub const RUNE_ERROR: char = '\u{FFFD}';

/// The first rune and how many bytes it takes, as `utf8.DecodeRune` of Go 1.26: U+FFFD of one byte where there is no
/// UTF-8, and of none where there is nothing.
pub fn decode_rune(bytes: &[u8]) -> (char, usize) {
    let Some(first) = bytes.first() else {
        return (RUNE_ERROR, 0);
    };
    if first.is_ascii() {
        return (char::from(*first), 1);
    }
    let width = match first {
        0xC2..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF4 => 4,
        _ => return (RUNE_ERROR, 1),
    };
    let rune = bytes.get(..width).and_then(|bytes| std::str::from_utf8(bytes).ok());
    match rune.and_then(|text| text.chars().next()) {
        Some(rune) => (rune, width),
        None => (RUNE_ERROR, 1),
    }
}

/// The runes with where each begins and how many bytes it takes, as Go's `range` over a string.
pub fn runes(bytes: &[u8]) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let mut at = 0;
    std::iter::from_fn(move || {
        let rest = bytes.get(at..).filter(|rest| !rest.is_empty())?;
        let (rune, width) = decode_rune(rest);
        let here = at;
        at += width;
        Some((here, rune, width))
    })
}

/// Appends a rune in UTF-8.
pub fn push_rune(out: &mut Vec<u8>, rune: char) {
    out.extend_from_slice(rune.encode_utf8(&mut [0; 4]).as_bytes());
}

/// `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the ASCII space. The tables are those of the crate
/// `regex`, at times a version of Unicode ahead of Go's.
pub fn is_print(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S}]$").ok());
    if rune.is_ascii() {
        return (' '..='~').contains(&rune);
    }
    let class = CLASS.as_ref();
    class.is_some_and(|class| class.is_match(rune.encode_utf8(&mut [0; 4])))
}

#[cfg(test)]
mod tests {
    use super::{decode_rune, is_print};

    #[test]
    fn bytes_that_are_no_utf8_are_runes_of_one_byte() {
        assert_eq!(decode_rune(b"\xff\xff"), ('\u{FFFD}', 1));
        assert_eq!(decode_rune("é".as_bytes()), ('é', 2));
        assert_eq!(decode_rune(&"é".as_bytes()[..1]), ('\u{FFFD}', 1));
        assert_eq!(decode_rune(b""), ('\u{FFFD}', 0));
    }

    #[test]
    fn is_print_matches_go() {
        assert!(is_print('Ⅷ') && is_print(' ') && is_print('~'));
        assert!(!is_print('\u{00AD}') && !is_print('\u{00A0}') && !is_print('\u{7F}'));
    }
}
