//! In which style a text is written, and whether it must be quoted: `encode.go` and `emitterc.go` of go.yaml.in/yaml/v2 2.4
//! and v3 3.0.

use super::super::char_width;
use super::super::resolve::{Dialect, Resolved, is_base_60, old_bool, resolve};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    SingleQuoted,
    DoubleQuoted,
    Literal,
}

/// What the characters of a text allow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Analysis {
    pub(super) multiline: bool,
    plain_allowed: bool,
    single_quoted_allowed: bool,
    literal_allowed: bool,
}

/// The bytes of a line break at the beginning of `text`, 0 when there is none.
pub(super) fn break_width(text: &[u8]) -> usize {
    match text {
        [b'\r' | b'\n', ..] => 1,
        [0xC2, 0x85, ..] => 2,
        [0xE2, 0x80, 0xA8 | 0xA9, ..] => 3,
        _ => 0,
    }
}

/// What Go's emitter writes as it is. It escapes whatever needs four bytes.
pub(super) fn is_printable(text: &[u8]) -> bool {
    match text {
        [b'\n' | 0x20..=0x7E, ..] => true,
        [0xC2, second, ..] => *second >= 0xA0,
        [0xC3..=0xEC | 0xEE, ..] => true,
        [0xED, second, ..] => *second < 0xA0,
        [0xEF, 0xBB, 0xBF, ..] | [0xEF, 0xBF, 0xBE | 0xBF, ..] => false,
        [0xEF, ..] => true,
        _ => false,
    }
}

/// The indicators and blanks that are found in a text.
#[derive(Default)]
struct Found {
    indicators: bool,
    breaks: bool,
    special: bool,
    tabs: bool,
    /// At the beginning or the end of the text
    blank_edge: bool,
    break_edge: bool,
    trailing_space: bool,
    space_after_break: bool,
    break_after_space: bool,
}

pub(super) fn analyse(text: &str, dialect: Dialect) -> Analysis {
    let bytes = text.as_bytes();
    let mut found = Found {
        indicators: text.starts_with("---") || text.starts_with("..."),
        ..Found::default()
    };
    let mut at = 0;
    let (mut after_space, mut after_break, mut after_blank) = (false, false, true);
    while at < bytes.len() {
        let width = char_width(bytes[at]);
        let next = at + width;
        let before_blank = matches!(bytes.get(next), None | Some(b' ' | b'\t'));
        found.indicators |= is_indicator(bytes[at], at == 0, after_blank, before_blank);
        let tab = dialect == Dialect::V3 && bytes[at] == b'\t';
        found.tabs |= tab;
        found.special |= !tab && !is_printable(&bytes[at..]);
        let edge = at == 0 || next == bytes.len();
        let is_break = break_width(&bytes[at..]) > 0;
        let is_space = bytes[at] == b' ';
        if is_space {
            found.blank_edge |= edge;
            found.trailing_space |= next == bytes.len();
            found.space_after_break |= after_break;
        } else if is_break {
            found.breaks = true;
            found.break_edge |= edge;
            found.break_after_space |= after_space;
        }
        (after_space, after_break) = (is_space, is_break);
        after_blank = is_break || matches!(bytes[at], 0 | b' ' | b'\t');
        at = next;
    }
    let quotable = !found.space_after_break && !found.break_after_space && !found.special && !found.tabs;
    Analysis {
        multiline: found.breaks,
        plain_allowed: quotable && !found.blank_edge && !found.break_edge && !found.breaks && !found.indicators,
        single_quoted_allowed: quotable,
        literal_allowed: !bytes.is_empty() && !found.trailing_space && !found.break_after_space && !found.special,
    }
}

/// Whether a character means something else in a block than itself.
fn is_indicator(byte: u8, first: bool, after_blank: bool, before_blank: bool) -> bool {
    match byte {
        b',' | b'[' | b']' | b'{' | b'}' | b'&' | b'*' | b'!' | b'|' | b'>' | b'\'' | b'"' | b'%' | b'@' | b'`' => {
            first
        }
        b'#' => first || after_blank,
        b'?' | b'-' => first && before_blank,
        b':' => before_blank,
        _ => false,
    }
}

/// Whether `text`, written without quotes or a tag, would be read as something else than a text.
pub(super) fn is_taken_for_other(text: &str, dialect: Dialect) -> bool {
    resolve(text, dialect) != Resolved::Text || is_base_60(text) || dialect == Dialect::V3 && old_bool(text).is_some()
}

/// The style for a text, as a key on its own line (`simple_key`) or elsewhere.
pub(super) fn style(text: &str, dialect: Dialect, analysis: Analysis, simple_key: bool) -> Style {
    let wanted = if text.contains('\n') {
        Style::Literal
    } else if is_taken_for_other(text, dialect) {
        Style::DoubleQuoted
    } else {
        Style::Plain
    };
    select(wanted, analysis, simple_key)
}

/// What becomes of the style that is wanted: `yaml_emitter_select_scalar_style`.
pub(super) fn select(wanted: Style, analysis: Analysis, simple_key: bool) -> Style {
    if simple_key && analysis.multiline {
        return Style::DoubleQuoted;
    }
    match wanted {
        Style::Plain if analysis.plain_allowed => Style::Plain,
        Style::Plain | Style::SingleQuoted if analysis.single_quoted_allowed => Style::SingleQuoted,
        Style::Literal if analysis.literal_allowed && !simple_key => Style::Literal,
        _ => Style::DoubleQuoted,
    }
}
