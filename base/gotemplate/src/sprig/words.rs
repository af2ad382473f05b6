//! Letters and words: cases, initials, wrapping. Some functions take each byte for a letter, as goutils does.

use super::args::{find, int, text};
use crate::text::{is_letter_or_digit, is_lower, is_upper, push_rune, runes};
use crate::value::function::Function;
use crate::value::{Type, Value};

pub(super) fn functions() -> Vec<Function> {
    use Type::Str;
    let mapped = |name: &str, map: fn(&[u8]) -> Vec<u8>| {
        Function::new(name, [Str], move |_, args| Ok(Value::string(map(text(args, 0)))))
    };
    vec![
        mapped("upper", |text| match text.is_ascii() {
            true => text.to_ascii_uppercase(),
            false => each_rune(text, upper),
        }),
        mapped("lower", |text| match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => each_rune(text, lower),
        }),
        mapped("title", title),
        mapped("untitle", untitle),
        mapped("swapcase", swap_case),
        mapped("initials", initials),
        mapped("nospace", no_space),
        Function::new("wrap", [Type::INT, Str], |scope, args| {
            scope.check_length(text(args, 1).len().saturating_mul(2))?;
            Ok(Value::string(wrap(text(args, 1), int(args, 0), b"", false)))
        }),
        Function::new("wrapWith", [Type::INT, Str, Str], |scope, args| {
            let added = text(args, 2).len().saturating_mul(text(args, 1).len() + 1);
            scope.check_length(added.saturating_add(text(args, 2).len()))?;
            Ok(Value::string(wrap(text(args, 2), int(args, 0), text(args, 1), true)))
        }),
    ]
}

/// `unicode.ToUpper`, which maps a rune to one rune; full Unicode maps some to several.
pub(super) fn upper(rune: char) -> char {
    let mut full = rune.to_uppercase();
    match (full.next(), full.next()) {
        (Some(upper), None) => upper,
        _ => rune,
    }
}

/// `unicode.ToTitle`: upper case, but for letters that stand for two and for Georgian, which has no capitals in titles.
fn title_case(rune: char) -> char {
    match rune {
        'Ǆ'..='ǆ' => 'ǅ',
        'Ǉ'..='ǉ' => 'ǈ',
        'Ǌ'..='ǌ' => 'ǋ',
        'Ǳ'..='ǳ' => 'ǲ',
        'ა'..='ჿ' => rune,
        rune => upper(rune),
    }
}

/// `unicode.ToLower`.
pub(super) fn lower(rune: char) -> char {
    rune.to_lowercase().next().unwrap_or(rune)
}

fn each_rune(text: &[u8], mut map: impl FnMut(char) -> char) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    for (_, rune, _) in runes(text) {
        push_rune(&mut out, map(rune));
    }
    out
}

/// `strings.Title`.
fn title(text: &[u8]) -> Vec<u8> {
    let mut before = ' ';
    each_rune(text, |rune| {
        let begins = match before {
            '_' => false,
            before if before.is_ascii() => !before.is_ascii_alphanumeric(),
            before => !is_letter_or_digit(before) && before.is_whitespace(),
        };
        before = rune;
        if begins { title_case(rune) } else { rune }
    })
}

fn untitle(text: &[u8]) -> Vec<u8> {
    let mut begins = true;
    each_rune(text, |rune| {
        if rune.is_whitespace() {
            begins = true;
        } else if std::mem::take(&mut begins) {
            return lower(rune);
        }
        rune
    })
}

fn swap_case(text: &[u8]) -> Vec<u8> {
    let mut begins = true;
    each_rune(text, |rune| {
        let is_title = matches!(rune, 'ǅ' | 'ǈ' | 'ǋ' | 'ǲ');
        if is_upper(rune) || is_title {
            begins = false;
            lower(rune)
        } else if is_lower(rune) {
            match std::mem::take(&mut begins) {
                true => title_case(rune),
                false => upper(rune),
            }
        } else {
            begins = rune.is_whitespace();
            rune
        }
    })
}

/// Whether a byte is a space for goutils, which takes it for the rune with that number.
fn is_space(byte: u8) -> bool {
    char::from(byte).is_whitespace()
}

fn initials(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut begins = true;
    for byte in text {
        if is_space(*byte) {
            begins = true;
        } else if std::mem::take(&mut begins) {
            push_rune(&mut out, char::from(*byte));
        }
    }
    out
}

fn no_space(text: &[u8]) -> Vec<u8> {
    if !text.iter().any(|byte| is_space(*byte)) {
        return text.to_vec();
    }
    let mut out = Vec::new();
    for byte in text.iter().filter(|byte| !is_space(**byte)) {
        push_rune(&mut out, char::from(*byte));
    }
    out
}

/// goutils 1.1.1's `WrapCustom`.
fn wrap(text: &[u8], width: i64, line_end: &[u8], cuts_words: bool) -> Vec<u8> {
    let line_end = if line_end.is_empty() { b"\n" } else { line_end };
    let width = usize::try_from(width).unwrap_or(0).max(1);
    let mut out = Vec::new();
    let mut at = 0;
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    while text.len() - at > width {
        if text.get(at) == Some(&b' ') {
            at += 1;
            continue;
        }
        let space = part(at, at + width + 1).iter().rposition(|byte| *byte == b' ');
        let (to, next) = match space {
            Some(space) => (at + space, at + space + 1),
            None if cuts_words => (at + width, at + width),
            None => match find(text, b" ", at + width) {
                Some(space) => (space, space + 1),
                None => break,
            },
        };
        out.extend_from_slice(part(at, to));
        out.extend_from_slice(line_end);
        at = next;
    }
    out.extend_from_slice(part(at, text.len()));
    out
}
