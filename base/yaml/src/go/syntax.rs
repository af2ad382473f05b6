//! Values as Go's `%#v` prints them, which is how Go's YAML shows a key that cannot be one.

use serde_json::{Map, Value};

/// How much of a value an error shows. Go shows all of it.
const SHOWN_BYTES_MAX: usize = 4096;

/// A value that is missing.
pub(super) const NIL: &str = "interface {}(nil)";

/// A list of items that are printed already.
pub(super) fn shown_list(items: &[Value]) -> String {
    let items = items.iter().filter_map(Value::as_str);
    shown("[]interface {}{", items.map(|item| ["", "", item]))
}

/// A map of entries that are printed already.
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

/// As much of a printed value as an error shows.
pub(super) fn cut(mut text: String) -> String {
    text.truncate(text.floor_char_boundary(SHOWN_BYTES_MAX));
    text
}
