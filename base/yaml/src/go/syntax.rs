//! Values as Go's `%#v` prints them, which is how Go's YAML shows a key that cannot be one.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::number::format_float;

/// How much of a value an error shows. Go shows all of it.
const SHOWN_BYTES_MAX: usize = 4096;

/// `value` in the types that Go's YAML decodes into.
pub(super) fn shown(value: &Value) -> String {
    let mut text = String::new();
    show(value, &mut text);
    if text.len() > SHOWN_BYTES_MAX {
        let mut end = SHOWN_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
    text
}

fn show(value: &Value, to: &mut String) {
    if to.len() > SHOWN_BYTES_MAX {
        return;
    }
    match value {
        Value::Null => to.push_str("interface {}(nil)"),
        Value::Bool(truth) => {
            let _ = write!(to, "{truth}");
        }
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => {
                let _ = write!(to, "{number}");
            }
            (None, Some(number)) => {
                let _ = write!(to, "{number:#x}");
            }
            _ => to.push_str(&format_float(number.as_f64().unwrap_or(f64::NAN))),
        },
        Value::String(text) => to.push_str(&quoted(text)),
        Value::Array(items) => show_all(to, "[]interface {}{", items, show),
        Value::Object(items) => show_all(to, "map[interface {}]interface {}{", items, |(key, value), to| {
            to.push_str(&quoted(key));
            to.push(':');
            show(value, to);
        }),
    }
}

fn show_all<I: IntoIterator>(to: &mut String, open: &str, items: I, show: impl Fn(I::Item, &mut String)) {
    to.push_str(open);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            to.push_str(", ");
        }
        show(item, to);
    }
    to.push('}');
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
