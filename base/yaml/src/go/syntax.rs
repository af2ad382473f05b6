//! Values as Go's `%#v` prints them, which is how Go's YAML shows a key that cannot be one.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

/// How much of a value an error shows. Go shows all of it.
const SHOWN_BYTES_MAX: usize = 4096;

/// What is not there.
pub(super) const NIL: &str = "interface {}(nil)";

/// A list of what is shown already.
pub(super) fn shown_list(items: &[Value]) -> String {
    let items = items.iter().filter_map(Value::as_str);
    shown("[]interface {}{", items.map(|item| ["", "", item]))
}

/// A map of what is shown already.
pub(super) fn shown_map(entries: &Map<String, Value>) -> String {
    let entries = entries
        .iter()
        .filter_map(|(key, value)| Some([key, ":", value.as_str()?]));
    shown("map[interface {}]interface {}{", entries)
}

fn shown<'v>(open: &str, items: impl Iterator<Item = [&'v str; 3]>) -> String {
    let mut text = open.to_owned();
    for (at, parts) in items.enumerate() {
        if text.len() > SHOWN_BYTES_MAX {
            break;
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.extend(parts);
    }
    text.push('}');
    cut(text)
}

/// As much of what is shown as an error shows.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
    text
}

/// `strconv.Quote`.
pub fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        let _ = match character {
            '"' | '\\' => write!(quoted, "\\{character}"),
            '\x07' => write!(quoted, "\\a"),
            '\x08' => write!(quoted, "\\b"),
            '\x0C' => write!(quoted, "\\f"),
            '\n' => write!(quoted, "\\n"),
            '\r' => write!(quoted, "\\r"),
            '\t' => write!(quoted, "\\t"),
            '\x0B' => write!(quoted, "\\v"),
            '\0'..' ' | '\x7F' => write!(quoted, "\\x{:02x}", u32::from(character)),
            _ if is_print(character) => write!(quoted, "{character}"),
            '\0'..='\u{FFFF}' => write!(quoted, "\\u{:04x}", u32::from(character)),
            _ => write!(quoted, "\\U{:08x}", u32::from(character)),
        };
    }
    quoted.push('"');
    quoted
}

/// `unicode.IsPrint`: letters, marks, numbers, punctuation, symbols and the space.
pub fn is_print(character: char) -> bool {
    static PRINTS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{M}\p{N}\p{P}\p{S} ]$").ok());
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    let mut bytes = [0; 4];
    let text = &*character.encode_utf8(&mut bytes);
    PRINTS.as_ref().is_some_and(|prints| prints.is_match(text))
}
