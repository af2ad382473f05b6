//! Percent encoding of paths and queries, as Go reads and writes it.

/// Decodes `%xx` and, in queries, `+`. Invalid UTF-8 becomes the replacement character, which no name has.
pub(crate) fn decode_percent(text: &str, plus_is_space: bool) -> Result<String, PathError> {
    let encoded = text.contains('%') || (plus_is_space && text.contains('+'));
    if !encoded {
        return Ok(text.to_owned());
    }
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let mut digit = || bytes.next().and_then(|b| char::from(b).to_digit(16));
                let (Some(high), Some(low)) = (digit(), digit()) else {
                    return Err(PathError::Encoding);
                };
                out.push(u8::try_from(high * 16 + low).map_err(|_| PathError::Encoding)?);
            }
            b'+' if plus_is_space => out.push(b' '),
            byte => out.push(byte),
        }
    }
    Ok(String::from_utf8(out).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

/// Escapes each byte except the literal ones.
pub(crate) fn encode_percent(text: &str, is_literal: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match is_literal(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What stands for itself everywhere in a URL (RFC 3986, 2.3).
pub(crate) fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~')
}

/// Why a path is refused outright.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathError {
    TooLong,
    Encoding,
    Proxy,
}
