//! Strings as bytes: cutting, joining, finding, quoting.

use super::args::{Answer, at, find, int, printed, split, string_list, string_of, text};
use std::collections::HashSet;

use memchr::{memchr_iter, memmem};

use crate::environment::error::Fault;
use crate::text::quote::quote;
use crate::text::runes;
use crate::value::function::{Function, Scope};
use crate::value::{Map, Type, Value};

/// What is abbreviated at both ends has at least so many bytes.
const BOTH_WIDTH_MIN: i64 = 7;
/// Steps of a part in a dictionary beside that of the part itself: with its key it takes some 150 bytes.
const ENTRY_STEPS: usize = 4;
const NEGATIVE_REPEAT: &str = "strings: negative Repeat count";

pub(super) fn functions() -> Vec<Function> {
    cuts().into_iter().chain(parts()).collect()
}

/// Those that look into strings and cut them.
fn cuts() -> Vec<Function> {
    use Type::Str;
    const INT: Type = Type::INT;
    let test = |name: &str, what: fn(&[u8], &[u8]) -> bool| {
        Function::new(name, [Str, Str], move |_, args| {
            Ok(Value::Bool(what(text(args, 1), text(args, 0))))
        })
    };
    let cut = |name: &str, what: fn(&[u8], &[u8]) -> Vec<u8>| {
        Function::new(name, [Str, Str], move |_, args| {
            Ok(Value::string(what(text(args, 1), text(args, 0))))
        })
    };
    vec![
        test("contains", |text, part| find(text, part, 0).is_some()),
        test("hasPrefix", |text, part| text.starts_with(part)),
        test("hasSuffix", |text, part| text.ends_with(part)),
        cut("trimPrefix", |text, part| {
            text.strip_prefix(part).unwrap_or(text).to_vec()
        }),
        cut("trimSuffix", |text, part| {
            text.strip_suffix(part).unwrap_or(text).to_vec()
        }),
        cut("trimall", trim_all),
        cut("trimAll", trim_all),
        Function::new("trim", [Str], |_, args| {
            Ok(Value::string(trim(text(args, 0), char::is_whitespace)))
        }),
        Function::new("trunc", [INT, Str], |_, args| {
            Ok(Value::string(trunc(int(args, 0), text(args, 1))))
        }),
        Function::new("substr", [INT, INT, Str], substr),
        Function::new("abbrev", [INT, Str], |_, args| {
            Ok(Value::string(abbreviated(text(args, 1), 0, int(args, 0), 4)))
        }),
        Function::new("abbrevboth", [INT, INT, Str], |_, args| {
            let (left, right) = (int(args, 0), int(args, 1));
            let least = if left > 0 { BOTH_WIDTH_MIN } else { 4 };
            Ok(Value::string(abbreviated(text(args, 2), left, right, least)))
        }),
        Function::new("repeat", [INT, Str], |scope, args| {
            let count = usize::try_from(int(args, 0)).map_err(|_| Fault::from(NEGATIVE_REPEAT))?;
            scope.check_length(text(args, 1).len().saturating_mul(count))?;
            Ok(Value::string(text(args, 1).repeat(count)))
        }),
        Function::new("replace", [Str, Str, Str], |scope, args| {
            replace(text(args, 2), text(args, 0), text(args, 1), scope)
        }),
        Function::new("indent", [INT, Str], |scope, args| {
            indent("", int(args, 0), text(args, 1), scope)
        }),
        Function::new("nindent", [INT, Str], |scope, args| {
            indent("\n", int(args, 0), text(args, 1), scope)
        }),
    ]
}

/// Those that put strings together and take them apart.
fn parts() -> Vec<Function> {
    use Type::{Any, Str};
    const INT: Type = Type::INT;
    vec![
        Function::variadic("quote", [], Any, |scope, args| {
            each(scope, args, |value, scope| Ok(quote(&string_of(value, scope)?)))
        }),
        Function::variadic("squote", [], Any, |scope, args| {
            each(scope, args, |value, scope| {
                Ok([b"'", printed(value, scope)?.as_slice(), b"'"].concat())
            })
        }),
        Function::variadic("cat", [], Any, |scope, args| each(scope, args, printed)),
        Function::new("plural", [Str, Str, INT], |_, args| {
            Ok(at(args, if int(args, 2) == 1 { 0 } else { 1 }).clone())
        }),
        Function::new("splitList", [Str, Str], |scope, args| {
            Ok(string_list(split(text(args, 1), text(args, 0), None, scope)?))
        }),
        Function::new("split", [Str, Str], |scope, args| {
            numbered(text(args, 1), text(args, 0), -1, scope)
        }),
        Function::new("splitn", [Str, INT, Str], |scope, args| {
            numbered(text(args, 2), text(args, 0), int(args, 1), scope)
        }),
    ]
}

/// The values that are not nil, separated by spaces.
fn each(scope: &mut Scope<'_>, args: &[Value], shown: impl Fn(&Value, &Scope<'_>) -> Result<Vec<u8>, Fault>) -> Answer {
    let mut out = Vec::new();
    for (place, value) in args.iter().filter(|value| !value.is_nil()).enumerate() {
        if place > 0 {
            out.push(b' ');
        }
        out.extend(shown(value, scope)?);
        scope.check_length(out.len())?;
    }
    Ok(Value::string(out))
}

/// The parts by `_0`, `_1` and so on.
fn numbered(text: &[u8], separator: &[u8], parts_max: i64, scope: &Scope<'_>) -> Answer {
    let parts = match usize::try_from(parts_max) {
        Ok(0) => Vec::new(),
        Ok(max) => split(text, separator, Some(max), scope)?,
        Err(_) => split(text, separator, None, scope)?,
    };
    scope.spend(parts.len().saturating_mul(ENTRY_STEPS))?;
    let parts = parts.into_iter().enumerate();
    Ok(Value::Map(Map::new(
        Type::Str,
        parts.map(|(place, part)| (format!("_{place}"), Value::Str(part))),
    )))
}

fn trim(text: &[u8], is_cut: impl Fn(char) -> bool) -> &[u8] {
    let Some((start, ..)) = runes(text).find(|(_, rune, _)| !is_cut(*rune)) else {
        return b"";
    };
    let rest = text.get(start..).unwrap_or_default();
    // ASCII at the end is never part of another rune.
    let ascii = rest.iter().rev();
    let cut = ascii.take_while(|byte| byte.is_ascii() && is_cut(char::from(**byte)));
    let rest = rest.get(..rest.len() - cut.count()).unwrap_or_default();
    if rest.last().is_none_or(u8::is_ascii) {
        return rest;
    }
    let remaining = runes(rest).filter(|(_, rune, _)| !is_cut(*rune));
    let end = remaining.last().map_or(0, |(at, _, width)| at + width);
    rest.get(..end).unwrap_or_default()
}

fn trim_all(text: &[u8], cut: &[u8]) -> Vec<u8> {
    let cut: HashSet<char> = runes(cut).map(|(_, rune, _)| rune).collect();
    trim(text, |rune| cut.contains(&rune)).to_vec()
}

fn trunc(length: i64, text: &[u8]) -> &[u8] {
    let count = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let bound = |at: i64| usize::try_from(at).unwrap_or(0);
    if length < 0 && count + length > 0 {
        return text.get(bound(count + length)..).unwrap_or_default();
    }
    if length >= 0 && count > length {
        return text.get(..bound(length)).unwrap_or_default();
    }
    text
}

fn substr(_: &mut Scope<'_>, args: &[Value]) -> Answer {
    let (start, end, text) = (int(args, 0), int(args, 1), text(args, 2));
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let (from, to, bounds) = if start < 0 {
        let bounds = if end < 0 {
            format!("[:{end}]")
        } else {
            format!("[:{end}] with length {length}")
        };
        (0, end, bounds)
    } else if end < 0 || end > length {
        (start, length, format!("[{start}:{length}]"))
    } else {
        (start, end, format!("[{start}:{end}]"))
    };
    let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
    match range.and_then(|(from, to)| text.get(from..to)) {
        Some(part) => Ok(Value::string(part)),
        None => Err(Fault::Message(format!(
            "runtime error: slice bounds out of range {bounds}"
        ))),
    }
}

/// goutils 1.1.1's `AbbreviateFull`, of texts with room for the dots.
fn abbreviated(text: &[u8], offset: i64, width: i64, width_min: i64) -> Vec<u8> {
    const DOTS: &[u8] = b"...";
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    if width < width_min || length <= width {
        return text.to_vec();
    }
    let part = |from: i64, to: i64| {
        let range = usize::try_from(from).ok().zip(usize::try_from(to).ok());
        range.and_then(|(from, to)| text.get(from..to)).unwrap_or_default()
    };
    let mut offset = offset.min(length);
    // With the smallest offsets the difference overflows, as in Go.
    if length.wrapping_sub(offset) < width - 3 {
        offset = length - (width - 3);
    }
    if offset <= 4 {
        return [part(0, width - 3), DOTS].concat();
    }
    if width < BOTH_WIDTH_MIN {
        return Vec::new();
    }
    if offset + width - 3 < length {
        // What is left for the inside may be too little for dots of its own.
        let inside = abbreviated_end(part(offset, length), width - 3);
        return [DOTS, &inside].concat();
    }
    [DOTS, part(length - (width - 3), length)].concat()
}

fn abbreviated_end(text: &[u8], width: i64) -> Vec<u8> {
    if width < 4 {
        return Vec::new();
    }
    abbreviated(text, 0, width, 4)
}

/// `strings.ReplaceAll`, which puts the new before every rune and at the end if the old is empty.
fn replace(text: &[u8], old: &[u8], new: &[u8], scope: &Scope<'_>) -> Answer {
    let mut out = Vec::new();
    let mut from = 0;
    if old.is_empty() {
        for (at, _, width) in runes(text) {
            out.extend_from_slice(new);
            out.extend_from_slice(text.get(at..at + width).unwrap_or_default());
            scope.check_length(out.len())?;
        }
        out.extend_from_slice(new);
        return Ok(Value::string(out));
    }
    for found in memmem::find_iter(text, old) {
        out.extend_from_slice(text.get(from..found).unwrap_or_default());
        out.extend_from_slice(new);
        from = found + old.len();
        scope.check_length(out.len())?;
    }
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(Value::string(out))
}

fn indent(first: &str, spaces: i64, text: &[u8], scope: &Scope<'_>) -> Answer {
    let spaces = usize::try_from(spaces).map_err(|_| Fault::from(NEGATIVE_REPEAT))?;
    let lines = memchr_iter(b'\n', text).count() + 1;
    scope.check_length(lines.saturating_mul(spaces).saturating_add(text.len()))?;
    let pad = vec![b' '; spaces];
    let mut out = Vec::with_capacity(first.len() + text.len() + lines * spaces);
    out.extend_from_slice(first.as_bytes());
    let mut from = 0;
    for feed in memchr_iter(b'\n', text) {
        out.extend_from_slice(&pad);
        out.extend_from_slice(text.get(from..=feed).unwrap_or_default());
        from = feed + 1;
    }
    out.extend_from_slice(&pad);
    out.extend_from_slice(text.get(from..).unwrap_or_default());
    Ok(Value::string(out))
}
