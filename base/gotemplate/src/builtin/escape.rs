//! `html`, `js` and `urlquery`.

use crate::environment::error::Fault;
use crate::print::sprint;
use crate::text::{decode_rune, is_print};
use crate::value::Value;

/// What values print as, escaped.
pub(super) fn all(bytes_max: usize, args: &[Value], escape: fn(&[u8]) -> Vec<u8>) -> Result<Value, Fault> {
    let printable: Vec<Value> = args
        .iter()
        .map(|arg| match arg {
            // Text, and not the nil that `print` would show.
            Value::Absent | Value::Nil => Value::string("<no value>"),
            arg => arg.clone(),
        })
        .collect();
    Ok(Value::string(escape(&sprint(&printable, bytes_max)?)))
}

/// `HTMLEscape`.
pub(super) fn html(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        let escaped = match byte {
            0 => "\u{FFFD}",
            b'"' => "&#34;",
            b'\'' => "&#39;",
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            byte => {
                out.push(*byte);
                continue;
            }
        };
        out.extend_from_slice(escaped.as_bytes());
    }
    out
}

/// `JSEscape`.
pub(super) fn js(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let (rune, width) = decode_rune(rest);
        at += width;
        match rune {
            '\\' => out.extend_from_slice(b"\\\\"),
            '\'' => out.extend_from_slice(b"\\'"),
            '"' => out.extend_from_slice(b"\\\""),
            '<' | '>' | '&' | '=' | '\0'..=' ' if rune != ' ' => {
                out.extend_from_slice(format!("\\u{:04X}", u32::from(rune)).as_bytes());
            }
            rune if rune.is_ascii() || is_print(rune) => out.extend_from_slice(rest.get(..width).unwrap_or_default()),
            rune => out.extend_from_slice(format!("\\u{:04X}", u32::from(rune)).as_bytes()),
        }
    }
    out
}

/// `url.QueryEscape`.
pub(super) fn url_query(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for byte in text {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(*byte),
            b' ' => out.push(b'+'),
            byte => out.extend_from_slice(format!("%{byte:02X}").as_bytes()),
        }
    }
    out
}
