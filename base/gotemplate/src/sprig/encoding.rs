//! Base64, base32 and sums.

use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA256, SHA512, digest};

use super::args::text;
use crate::value::function::Function;
use crate::value::{Type, Value};

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const ALPHABET_32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const PADDING: u8 = b'=';
/// The modulus of Adler-32.
const ADLER: u32 = 65_521;

pub(super) fn functions() -> Vec<Function> {
    let sum = |name: &str, algorithm: &'static Algorithm| {
        Function::new(name, [Type::Str], move |_, args| {
            let sum = digest(algorithm, text(args, 0));
            Ok(Value::from(
                sum.as_ref()
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>(),
            ))
        })
    };
    vec![
        Function::new("b64enc", [Type::Str], |scope, args| {
            scope.check_length(text(args, 0).len() / 3 * 4)?;
            Ok(Value::string(encode(text(args, 0))))
        }),
        Function::new("b64dec", [Type::Str], |_, args| {
            Ok(match decode(text(args, 0)) {
                Ok(bytes) => Value::string(bytes),
                // The error is the value.
                Err(at) => Value::from(format!("illegal base64 data at input byte {at}")),
            })
        }),
        Function::new("b32enc", [Type::Str], |scope, args| {
            scope.check_length(text(args, 0).len() / 5 * 8)?;
            Ok(Value::string(encode32(text(args, 0))))
        }),
        Function::new("b32dec", [Type::Str], |_, args| {
            Ok(match decode32(text(args, 0)) {
                Ok(bytes) => Value::string(bytes),
                Err(at) => Value::from(format!("illegal base32 data at input byte {at}")),
            })
        }),
        sum("sha1sum", &SHA1_FOR_LEGACY_USE_ONLY),
        sum("sha256sum", &SHA256),
        sum("sha512sum", &SHA512),
        Function::new("adler32sum", [Type::Str], |_, args| {
            Ok(Value::from(adler32(text(args, 0)).to_string()))
        }),
    ]
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % ADLER;
        (low, (high + low) % ADLER)
    });
    high << 16 | low
}

/// `base64.StdEncoding`.
pub(crate) fn encode(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = 0u32;
        for place in 0..3 {
            bits = bits << 8 | u32::from(chunk.get(place).copied().unwrap_or(0));
        }
        for place in 0..4 {
            let digit = ALPHABET[(bits >> (18 - 6 * place) & 0x3F) as usize];
            out.push(if place > chunk.len() { PADDING } else { digit });
        }
    }
    out
}

fn is_line_end(byte: Option<&u8>) -> bool {
    matches!(byte, Some(b'\n' | b'\r'))
}

/// `base64.StdEncoding` of Go 1.26: line ends do not count, padding does. The error is the byte at fault.
pub(super) fn decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let mut at = 0;
    loop {
        let (mut bits, mut count) = (0u32, 0);
        while count < 4 {
            let Some(byte) = text.get(at) else {
                // A whole group is missing, or a part of one.
                return if count == 0 { Ok(out) } else { Err(at - count) };
            };
            at += 1;
            if is_line_end(Some(byte)) {
                continue;
            }
            match ALPHABET.iter().position(|digit| digit == byte) {
                Some(digit) => {
                    bits = bits << 6 | u32::try_from(digit).unwrap_or(0);
                    count += 1;
                }
                None if *byte == PADDING => {
                    let end = padded(text, at, count)?;
                    bits <<= 6 * (4 - count);
                    out.extend(bits.to_be_bytes().into_iter().skip(1).take(count - 1));
                    return if end < text.len() { Err(end) } else { Ok(out) };
                }
                None => return Err(at - 1),
            }
        }
        out.extend(bits.to_be_bytes().into_iter().skip(1));
    }
}

/// Where the text continues behind the padding, whose first character has been read after so many digits.
fn padded(text: &[u8], mut at: usize, digits: usize) -> Result<usize, usize> {
    let skip = |mut at: usize| {
        while is_line_end(text.get(at)) {
            at += 1;
        }
        at
    };
    match digits {
        0 | 1 => return Err(at - 1),
        2 => {
            at = skip(at);
            match text.get(at) {
                None => return Err(text.len()),
                Some(&PADDING) => at += 1,
                Some(_) => return Err(at - 1),
            }
        }
        _ => {}
    }
    Ok(skip(at))
}

/// `base32.StdEncoding`.
fn encode32(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len().div_ceil(5) * 8);
    for chunk in bytes.chunks(5) {
        let mut bits = 0u64;
        for place in 0..5 {
            bits = bits << 8 | u64::from(chunk.get(place).copied().unwrap_or(0));
        }
        let digits = (chunk.len() * 8).div_ceil(5);
        for place in 0..8 {
            let digit = ALPHABET_32[(bits >> (35 - 5 * place) & 0x1F) as usize];
            out.push(if place >= digits { PADDING } else { digit });
        }
    }
    out
}

/// `base32.StdEncoding` of Go 1.26: line ends do not count, and the error is the byte at fault without them.
fn decode32(text: &[u8]) -> Result<Vec<u8>, usize> {
    let text: Vec<u8> = text.iter().copied().filter(|byte| !is_line_end(Some(byte))).collect();
    let mut out = Vec::with_capacity(text.len() / 8 * 5);
    let mut at = 0;
    while at < text.len() {
        let (mut bits, mut count) = (0u64, 0);
        while count < 8 {
            let byte = *text.get(at).ok_or(at - count)?;
            at += 1;
            let left = text.len() - at;
            if byte == PADDING && count >= 2 && left < 8 {
                check_padding(&text, at, count)?;
                bits <<= 5 * (8 - count);
                out.extend(bits.to_be_bytes().into_iter().skip(3).take(count * 5 / 8));
                return Ok(out);
            }
            let digit = ALPHABET_32.iter().position(|digit| *digit == byte).ok_or(at - 1)?;
            bits = bits << 5 | u64::try_from(digit).unwrap_or(0);
            count += 1;
        }
        out.extend(bits.to_be_bytes().into_iter().skip(3));
    }
    Ok(out)
}

/// The padding behind so many digits, the first character of which has been read.
fn check_padding(text: &[u8], at: usize, digits: usize) -> Result<(), usize> {
    let rest = text.get(at..).unwrap_or_default();
    if rest.len() + digits < 7 {
        return Err(text.len());
    }
    if let Some(other) = rest.iter().take(7 - digits).position(|byte| *byte != PADDING) {
        return Err(at + other - 1);
    }
    match digits {
        3 | 6 => Err(at - 1),
        _ => Ok(()),
    }
}
