//! Go's strings: bytes that are UTF-8 as a rule, read rune by rune as Go reads them. Nothing here refuses bytes that are
//! no UTF-8: `b64dec` and `slice` make such strings, and they have to come out as they are.

pub(crate) mod quote;

use std::borrow::Borrow;
use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, LazyLock};

pub(crate) use base_go::{RUNE_ERROR, decode_rune, is_print, push_rune, runes};
use regex::Regex;

/// A string of Go: cheap to clone, compared and ordered by its bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Str(Arc<[u8]>);

impl Str {
    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The text, with U+FFFD for what is no UTF-8.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Deref for Str {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl Borrow<[u8]> for Str {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl Default for Str {
    fn default() -> Self {
        Self::from("")
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}

impl From<&str> for Str {
    fn from(text: &str) -> Self {
        Self(Arc::from(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Self {
        Self(Arc::from(text.into_bytes()))
    }
}

impl From<&[u8]> for Str {
    fn from(bytes: &[u8]) -> Self {
        Self(Arc::from(bytes))
    }
}

impl From<Arc<[u8]>> for Str {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(bytes)
    }
}

impl From<Vec<u8>> for Str {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Arc::from(bytes))
    }
}

/// How many runes: `utf8.RuneCount`.
pub(crate) fn rune_count(bytes: &[u8]) -> usize {
    if bytes.is_ascii() {
        bytes.len()
    } else {
        runes(bytes).count()
    }
}

/// Classes of runes. The tables are those of the `regex` crate, at times a version of Unicode ahead of Go's.
fn is_of_class(class: &LazyLock<Option<Regex>>, rune: char) -> bool {
    class
        .as_ref()
        .is_some_and(|class| class.is_match(rune.encode_utf8(&mut [0; 4])))
}

/// `unicode.IsLetter` or `unicode.IsDigit`.
pub(crate) fn is_letter_or_digit(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{Nd}]$").ok());
    if rune.is_ascii() {
        return rune.is_ascii_alphanumeric();
    }
    is_of_class(&CLASS, rune)
}

/// `unicode.IsLetter`.
pub(crate) fn is_letter(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{L}$").ok());
    if rune.is_ascii() {
        return rune.is_ascii_alphabetic();
    }
    is_of_class(&CLASS, rune)
}

/// `unicode.IsUpper`.
pub(crate) fn is_upper(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Lu}$").ok());
    if rune.is_ascii() {
        return rune.is_ascii_uppercase();
    }
    is_of_class(&CLASS, rune)
}

/// `unicode.IsLower`.
pub(crate) fn is_lower(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Ll}$").ok());
    if rune.is_ascii() {
        return rune.is_ascii_lowercase();
    }
    is_of_class(&CLASS, rune)
}

/// `unicode.IsNumber`.
pub(crate) fn is_number(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{N}$").ok());
    is_of_class(&CLASS, rune)
}

/// `unicode.IsPunct`.
pub(crate) fn is_punctuation(rune: char) -> bool {
    static CLASS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{P}$").ok());
    is_of_class(&CLASS, rune)
}

#[cfg(test)]
mod tests {
    use super::{is_letter_or_digit, is_print, rune_count};

    #[test]
    fn a_surrogate_is_no_rune() {
        assert_eq!(rune_count(b"\xed\xa0\x80"), 3);
    }

    #[test]
    fn classes_are_those_of_go() {
        assert!(is_letter_or_digit('ß') && is_letter_or_digit('٣'));
        // A Roman numeral is a number, no digit and no letter.
        assert!(!is_letter_or_digit('Ⅷ') && is_print('Ⅷ'));
    }
}
