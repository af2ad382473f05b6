//! Literals (google/cel-go v0.26 `parser/unescape.go`, `parser/parser.go`).

use kube_cel::cel::common::ast::LiteralValue;

use crate::syntax::tokens::Kind;

/// A number as its token has it.
///
/// # Errors
/// It is too large.
pub(crate) fn number(text: &str, kind: Kind, is_negative: bool) -> Result<LiteralValue, &'static str> {
    let sign = if is_negative { "-" } else { "" };
    match kind {
        Kind::Float => {
            let parsed = format!("{sign}{text}").parse::<f64>().ok();
            let number = parsed
                .filter(|number| number.is_finite())
                .ok_or("invalid double literal")?;
            Ok(LiteralValue::Double(number.into()))
        }
        Kind::Uint => {
            let text = text.trim_end_matches(['u', 'U']);
            let parsed = match text.strip_prefix("0x") {
                Some(hex) => u64::from_str_radix(hex, 16),
                None => text.parse(),
            };
            Ok(LiteralValue::UInt(parsed.map_err(|_| "invalid uint literal")?.into()))
        }
        _ => {
            let parsed = match text.strip_prefix("0x") {
                Some(hex) => i64::from_str_radix(&format!("{sign}{hex}"), 16),
                None => format!("{sign}{text}").parse(),
            };
            Ok(LiteralValue::Int(parsed.map_err(|_| "invalid int literal")?.into()))
        }
    }
}

/// A text or bytes, with its quotes and what stands before them.
///
/// # Errors
/// An escape is unknown, or no code point.
pub(crate) fn text(token: &str, is_bytes: bool) -> Result<LiteralValue, &'static str> {
    let token = if is_bytes { &token[1..] } else { token };
    let raw = token.strip_prefix(['r', 'R']);
    let quoted = raw.unwrap_or(token);
    let quotes = match quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) {
        true => 3,
        false => 1,
    };
    let inner = quoted[quotes..quoted.len() - quotes]
        .replace("\r\n", "\n")
        .replace('\r', "\n");
    let bytes = match raw {
        Some(_) => inner.into_bytes(),
        None => unescape(&inner, is_bytes)?,
    };
    if is_bytes {
        return Ok(LiteralValue::Bytes(bytes.into()));
    }
    let text = String::from_utf8(bytes).map_err(|_| "invalid unicode code point")?;
    Ok(LiteralValue::String(text.as_str().into()))
}

fn unescape(text: &str, is_bytes: bool) -> Result<Vec<u8>, &'static str> {
    const BROKEN: &str = "unable to unescape string";
    let mut bytes = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut push = |code: u32, as_byte: bool| -> Result<(), &'static str> {
        if as_byte {
            bytes.push(u8::try_from(code).map_err(|_| BROKEN)?);
            return Ok(());
        }
        let c = char::from_u32(code).ok_or("invalid unicode code point")?;
        bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    };
    while let Some(c) = chars.next() {
        if c != '\\' {
            push(c.into(), false)?;
            continue;
        }
        let escape = chars.next().ok_or(BROKEN)?;
        let mut digits = |count: usize, base: u32, start: u32| {
            (0..count).try_fold(start, |code, _| {
                let digit = chars.next().and_then(|c| c.to_digit(base)).ok_or(BROKEN)?;
                code.checked_mul(base).map(|code| code + digit).ok_or(BROKEN)
            })
        };
        match escape {
            'a' => push(7, false)?,
            'b' => push(8, false)?,
            'f' => push(12, false)?,
            'n' => push(10, false)?,
            'r' => push(13, false)?,
            't' => push(9, false)?,
            'v' => push(11, false)?,
            '\\' | '\'' | '"' | '`' | '?' => push(escape.into(), false)?,
            'x' | 'X' => push(digits(2, 16, 0)?, is_bytes)?,
            'u' if !is_bytes => push(digits(4, 16, 0)?, false)?,
            'U' if !is_bytes => push(digits(8, 16, 0)?, false)?,
            '0'..='3' => push(digits(2, 8, u32::from(escape) - u32::from('0'))?, is_bytes)?,
            _ => return Err(BROKEN),
        }
    }
    Ok(bytes)
}
