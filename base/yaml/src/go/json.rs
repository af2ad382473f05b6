//! JSON as Go's encoding/json writes it: sorted keys, HTML's special characters escaped, floats in its own form.

use std::fmt::Write as _;

use serde_json::Value;

use super::number::Decimal;

/// `json.Marshal` of `value`.
pub fn to_json(value: &Value) -> String {
    let mut text = String::new();
    write_value(value, &mut text);
    text
}

fn write_value(value: &Value, to: &mut String) {
    match value {
        Value::Null => to.push_str("null"),
        Value::Bool(truth) => to.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
            Some(float) => write_float(float, to),
            None => to.push_str(&number.to_string()),
        },
        Value::String(text) => write_text(text, to),
        Value::Array(items) => {
            let mut before = '[';
            for item in items {
                to.push(before);
                write_value(item, to);
                before = ',';
            }
            to.push_str(if items.is_empty() { "[]" } else { "]" });
        }
        Value::Object(items) => {
            let mut before = '{';
            for (key, item) in items {
                to.push(before);
                write_text(key, to);
                to.push(':');
                write_value(item, to);
                before = ',';
            }
            to.push_str(if items.is_empty() { "{}" } else { "}" });
        }
    }
}

fn write_float(number: f64, to: &mut String) {
    let size = number.abs();
    let decimal = Decimal::of(number);
    to.push_str(&match size == 0.0 || (1e-6..1e21).contains(&size) {
        true => decimal.plain(),
        false => decimal.scientific(1),
    });
}

fn write_text(text: &str, to: &mut String) {
    to.push('"');
    for character in text.chars() {
        // Writing to a string cannot fail.
        let _ = match character {
            '"' | '\\' => write!(to, "\\{character}"),
            '\n' => write!(to, "\\n"),
            '\r' => write!(to, "\\r"),
            '\t' => write!(to, "\\t"),
            '\x08' => write!(to, "\\b"),
            '\x0C' => write!(to, "\\f"),
            '\0'..' ' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => write!(to, "\\u{:04x}", u32::from(character)),
            _ => {
                to.push(character);
                Ok(())
            }
        };
    }
    to.push('"');
}
