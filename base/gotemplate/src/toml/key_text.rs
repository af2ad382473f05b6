//! Writing of keys, alone and as paths, and how deep they may nest.

use crate::text::{Str, runes};

/// How deep tables and arrays may be nested: reading and writing call themselves for each level.
pub(super) const DEPTH_MAX: usize = 200;

/// A letter that needs no quotes in a key.
pub(super) fn is_bare(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || letter == '_' || letter == '-'
}

/// Appends a text in double quotes.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', *byte]),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 | 0x7f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            byte => out.push(*byte),
        }
    }
    out.push(b'"');
}

/// Appends a part of a key, in quotes where it needs them.
pub(super) fn push_key(out: &mut Vec<u8>, part: &[u8]) {
    let needs_none = runes(part).all(|(_, letter, _)| is_bare(letter));
    if needs_none && !part.is_empty() {
        out.extend_from_slice(part);
    } else {
        push_quoted(out, part);
    }
}

/// Appends a key of several parts.
pub(super) fn push_path(out: &mut Vec<u8>, path: &[Str]) {
    for (at, part) in path.iter().enumerate() {
        if at > 0 {
            out.push(b'.');
        }
        push_key(out, part);
    }
}
