//! The parts of DER that keys and certificates need.

/// Lengths up to this take one byte.
const SHORT_MAX: usize = 0x7f;

pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;
pub(super) const OCTETS: u8 = 0x04;
pub(super) const PRINTABLE: u8 = 0x13;
pub(super) const UTF8: u8 = 0x0c;
pub(super) const UTC_TIME: u8 = 0x17;
pub(super) const GENERAL_TIME: u8 = 0x18;

/// Bytes with a tag.
pub(super) fn tagged(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length <= SHORT_MAX {
        out.push(length.to_le_bytes()[0]);
    } else {
        let bytes = length.to_be_bytes();
        let bytes = trimmed(&bytes);
        out.push(0x80 | bytes.len().to_le_bytes()[0]);
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(content);
    out
}

/// Without zeros at the beginning.
fn trimmed(bytes: &[u8]) -> &[u8] {
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.get(zeros..).unwrap_or_default()
}

/// Parts in their order.
pub(super) fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tagged(SEQUENCE, &parts.concat())
}

/// A number that is not negative, its highest byte first.
pub(super) fn integer(bytes: &[u8]) -> Vec<u8> {
    let bytes = trimmed(bytes);
    let is_padded = bytes.first().is_none_or(|first| first & 0x80 != 0);
    let padding: &[u8] = if is_padded { &[0] } else { &[] };
    tagged(0x02, &[padding, bytes].concat())
}

/// Whole bytes of bits.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    tagged(0x03, &[&[0], bytes].concat())
}

/// An object identifier, as it is encoded.
pub(super) fn oid(encoded: &[u8]) -> Vec<u8> {
    tagged(0x06, encoded)
}
