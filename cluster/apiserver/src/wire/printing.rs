//! JSON for people: with line breaks, or as YAML. It changes no value.

use std::fmt::Write;

use bytes::{BufMut, Bytes, BytesMut};
use serde_json::{Map, Value};

/// Words that some parsers of YAML do not read as text.
const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nil"];

/// Compact JSON with line breaks and two blanks per level, its keys in their order.
pub(crate) fn pretty(json: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(json.len() * 2);
    let (mut depth, mut in_text, mut escaped) = (0_usize, false, false);
    let line = |out: &mut BytesMut, depth: usize| {
        out.put_u8(b'\n');
        out.put_bytes(b' ', depth * 2);
    };
    for (at, byte) in json.iter().copied().enumerate() {
        if in_text {
            out.put_u8(byte);
            in_text = escaped || byte != b'"';
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'{' | b'[' => {
                out.put_u8(byte);
                depth += 1;
                if !matches!(json.get(at + 1), Some(b'}' | b']')) {
                    line(&mut out, depth);
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if !matches!(out.last(), Some(b'{' | b'[')) {
                    line(&mut out, depth);
                }
                out.put_u8(byte);
            }
            b',' => {
                out.put_u8(byte);
                line(&mut out, depth);
            }
            b':' => out.put_slice(b": "),
            b' ' | b'\n' | b'\t' | b'\r' => {}
            _ => {
                in_text = byte == b'"';
                out.put_u8(byte);
            }
        }
    }
    out.freeze()
}

/// JSON as YAML that parsers of all YAML versions read alike; none if it is no JSON.
pub(crate) fn yaml(json: &[u8]) -> Option<Bytes> {
    let value: Value = serde_json::from_slice(json).ok()?;
    let mut out = String::with_capacity(json.len());
    match &value {
        Value::Object(fields) if !fields.is_empty() => map(&mut out, fields, 0, false),
        Value::Array(items) if !items.is_empty() => list(&mut out, items, 0, false),
        other => scalar(&mut out, other),
    }
    Some(Bytes::from(out))
}

fn begin(out: &mut String, depth: usize, after_dash: bool) {
    if !after_dash {
        out.extend(std::iter::repeat_n("  ", depth));
    }
}

/// `after_dash`: the first key stands behind a dash.
fn map(out: &mut String, fields: &Map<String, Value>, depth: usize, after_dash: bool) {
    for (position, (key, value)) in fields.iter().enumerate() {
        begin(out, depth, after_dash && position == 0);
        text(out, key);
        out.push(':');
        match value {
            Value::Object(fields) if !fields.is_empty() => {
                out.push('\n');
                map(out, fields, depth + 1, false);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                list(out, items, depth, false);
            }
            other => {
                out.push(' ');
                scalar(out, other);
            }
        }
    }
}

fn list(out: &mut String, items: &[Value], depth: usize, after_dash: bool) {
    for (position, item) in items.iter().enumerate() {
        begin(out, depth, after_dash && position == 0);
        out.push_str("- ");
        match item {
            Value::Object(fields) if !fields.is_empty() => map(out, fields, depth + 1, true),
            Value::Array(items) if !items.is_empty() => list(out, items, depth + 1, true),
            other => scalar(out, other),
        }
    }
}

fn scalar(out: &mut String, value: &Value) {
    match value {
        Value::String(string) => text(out, string),
        other => {
            let _ = write!(out, "{other}");
        }
    }
    out.push('\n');
}

/// A text without quotes where it is unambiguous, else quoted as in JSON.
fn text(out: &mut String, text: &str) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    let clear = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/') && text.chars().all(plain);
    if clear && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word)) {
        out.push_str(text);
        return;
    }
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}') => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn line_breaks_change_no_value() {
        let json = r#"{"b":[1,{"c":"x, \"y\": {"},[]],"a":{},"d":"\\"}"#;
        let lines = pretty(json.as_bytes());
        let text = std::str::from_utf8(&lines).unwrap();
        assert_eq!(
            text,
            "{\n  \"b\": [\n    1,\n    {\n      \"c\": \"x, \\\"y\\\": {\"\n    },\n    []\n  ],\n  \"a\": {},\n  \"d\": \"\\\\\"\n}"
        );
    }

    #[test]
    fn yaml_reads_back_as_the_same_value() {
        let value = json!({
            "a": {"y": "y", "on": "off", "1": "1e3", "": "", "plain": "v1.2-x/y", "null": null, "t": true, "n": -1.5},
            "list": [1, "two", {"a": [[], [1, [2]]], "b": {}}, [{"k": "v"}, "z"], []],
            "text": "a\nb: \t\"c\" \\ # \u{7f}\u{85}\u{feff}é",
            "- x": "- y", "k: v": "{a}", "~": "~", "0o7": "0x1f", "=": "<<",
        });
        let bytes = yaml(value.to_string().as_bytes()).unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        let read: Value = serde_saphyr::from_str(text).unwrap();
        assert_eq!(read, value, "{text}");
        assert!(text.starts_with("\"- x\": \"- y\"\n"), "{text}");
        assert_eq!(&yaml(b"{}").unwrap()[..], b"{}\n");
    }
}
