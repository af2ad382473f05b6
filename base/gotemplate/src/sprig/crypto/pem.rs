//! PEM, as Go's encoding/pem of 1.26 reads and writes it.

use memchr::memmem;

use crate::sprig::encoding::{decode, encode};

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"\n-----END ";
const DASHES: &[u8] = b"-----";
/// Letters of base64 in a line.
const LINE: usize = 64;

/// A block of PEM: its type, and the decoded bytes.
pub(super) struct Block {
    pub(super) kind: Vec<u8>,
    pub(super) bytes: Vec<u8>,
}

/// The first block of a text, nothing if there is none.
pub(super) fn read(text: &[u8]) -> Option<Block> {
    let mut rest = text;
    loop {
        let end = memmem::find(rest, END)?;
        let behind = rest.get(end + END.len()..).unwrap_or_default();
        if let Some(block) = block(rest.get(..=end).unwrap_or_default(), behind) {
            return Some(block);
        }
        rest = behind;
    }
}

/// The block whose begin line is the last in `text`; `behind` begins with the rest of its end line.
fn block(text: &[u8], behind: &[u8]) -> Option<Block> {
    let begin = memmem::rfind(text, BEGIN)?;
    if begin > 0 && text.get(begin - 1) != Some(&b'\n') {
        return None;
    }
    let (kind, mut body) = line(text.get(begin + BEGIN.len()..)?);
    let kind = kind.strip_suffix(DASHES)?;
    loop {
        let (header, next) = line(body);
        if !header.contains(&b':') {
            break;
        }
        body = next;
    }
    let trailer = behind.strip_prefix(kind)?.strip_prefix(DASHES)?;
    if !line(trailer).0.is_empty() {
        return None;
    }
    let letters: Vec<u8> = body
        .iter()
        .copied()
        .filter(|byte| !matches!(byte, b' ' | b'\t'))
        .collect();
    Some(Block {
        kind: kind.to_vec(),
        bytes: decode(&letters).ok()?,
    })
}

/// A line without blanks at its end, and what follows.
fn line(text: &[u8]) -> (&[u8], &[u8]) {
    let (line, rest) = match memchr::memchr(b'\n', text) {
        Some(end) => text.split_at(end),
        None => (text, &[][..]),
    };
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    let blanks = line
        .iter()
        .rev()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count();
    let line = line.get(..line.len() - blanks).unwrap_or_default();
    (line, rest.get(1..).unwrap_or_default())
}

/// A block with its lines.
pub(super) fn write(kind: &str, bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("-----BEGIN {kind}-----\n").into_bytes();
    for line in encode(bytes).chunks(LINE) {
        out.extend_from_slice(line);
        out.push(b'\n');
    }
    out.extend_from_slice(format!("-----END {kind}-----\n").as_bytes());
    out
}
