//! Texts: plain, in quotes, or line by line, as go-yaml 2.4 chooses and writes them.

use super::resolve::is_string;
use crate::error::Fault;
use crate::text::{RUNE_ERROR, Str, push_rune, runes};

/// A text, and in which ways it could be written.
pub(super) struct Scalar<'t> {
    text: &'t [u8],
    pub(super) has_breaks: bool,
    is_plain_fine: bool,
    is_single_fine: bool,
    is_block_fine: bool,
    is_string: bool,
}

/// What a text is after it has been JSON: what is no UTF-8 has been replaced.
///
/// # Errors
/// It holds a character that YAML does not take as it is: go-yaml does not read its own JSON then.
pub(super) fn through_json(text: &[u8]) -> Result<Str, Fault> {
    let mut out = Vec::with_capacity(text.len());
    for (_, rune, width) in runes(text) {
        match rune {
            '\x7f'..='\u{84}' | '\u{86}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                return Err(Fault::from("yaml: control characters are not allowed"));
            }
            RUNE_ERROR if width == 1 => push_rune(&mut out, RUNE_ERROR),
            rune => push_rune(&mut out, rune),
        }
    }
    Ok(out.into())
}

fn is_break(rune: char) -> bool {
    matches!(rune, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

fn is_printable(rune: char) -> bool {
    matches!(rune, '\n' | ' '..='~' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fefe}' | '\u{ff00}'..='\u{fffd}')
}

impl<'t> Scalar<'t> {
    /// Looks at a text: `yaml_emitter_analyze_scalar`.
    pub(super) fn new(text: &'t [u8]) -> Self {
        let mut scalar = Self {
            text,
            has_breaks: false,
            is_plain_fine: true,
            is_single_fine: true,
            is_block_fine: !text.is_empty(),
            is_string: std::str::from_utf8(text).is_ok_and(is_string),
        };
        scalar.is_plain_fine = !(text.starts_with(b"---") || text.starts_with(b"..."));
        let all: Vec<char> = runes(text).map(|(_, rune, _)| rune).collect();
        let (mut was_space, mut was_break, mut was_blank) = (false, false, true);
        for (at, rune) in all.iter().enumerate() {
            let next = all.get(at + 1);
            let is_last = next.is_none();
            let is_before_blank = next.is_none_or(|next| matches!(next, ' ' | '\t'));
            if is_indicator(*rune, at == 0, was_blank, is_before_blank) {
                scalar.is_plain_fine = false;
            }
            if !is_printable(*rune) {
                scalar.only_double();
            }
            if *rune == ' ' {
                scalar.is_plain_fine &= at > 0 && !is_last;
                scalar.is_block_fine &= !is_last;
                if was_break {
                    scalar.is_plain_fine = false;
                    scalar.is_single_fine = false;
                }
            } else if is_break(*rune) {
                scalar.has_breaks = true;
                scalar.is_plain_fine = false;
                if was_space {
                    scalar.only_double();
                }
            }
            was_space = *rune == ' ';
            was_break = is_break(*rune);
            was_blank = matches!(rune, ' ' | '\t' | '\0') || is_break(*rune);
        }
        scalar
    }

    fn only_double(&mut self) {
        self.is_plain_fine = false;
        self.is_single_fine = false;
        self.is_block_fine = false;
    }

    /// How many bytes.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// Writes a key of one line.
    pub(super) fn write_key(&self, out: &mut Vec<u8>) {
        if !self.is_string {
            self.double(out);
        } else if self.is_plain_fine {
            out.extend_from_slice(self.text);
        } else if self.is_single_fine {
            self.single(out);
        } else {
            self.double(out);
        }
    }

    /// Writes a text whose lines, if it has several, stand at that column.
    pub(super) fn write(&self, out: &mut Vec<u8>, column: usize) {
        if !self.text.contains(&b'\n') {
            self.write_key(out);
        } else if self.is_block_fine {
            self.literal(out, column);
        } else {
            self.double(out);
        }
    }

    fn single(&self, out: &mut Vec<u8>) {
        out.push(b'\'');
        for byte in self.text {
            out.push(*byte);
            if *byte == b'\'' {
                out.push(b'\'');
            }
        }
        out.push(b'\'');
    }

    fn double(&self, out: &mut Vec<u8>) {
        out.push(b'"');
        for (_, rune, _) in runes(self.text) {
            if is_printable(rune) && !is_break(rune) && !matches!(rune, '"' | '\\') {
                push_rune(out, rune);
                continue;
            }
            let code = u32::from(rune);
            let escape = match rune {
                '\0' => "\\0".to_owned(),
                '\x07' => "\\a".to_owned(),
                '\x08' => "\\b".to_owned(),
                '\t' => "\\t".to_owned(),
                '\n' => "\\n".to_owned(),
                '\x0b' => "\\v".to_owned(),
                '\x0c' => "\\f".to_owned(),
                '\r' => "\\r".to_owned(),
                '\x1b' => "\\e".to_owned(),
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\u{85}' => "\\N".to_owned(),
                '\u{a0}' => "\\_".to_owned(),
                '\u{2028}' => "\\L".to_owned(),
                '\u{2029}' => "\\P".to_owned(),
                _ if code <= 0xFF => format!("\\x{code:02X}"),
                _ if code <= 0xFFFF => format!("\\u{code:04X}"),
                _ => format!("\\U{code:08X}"),
            };
            out.extend_from_slice(escape.as_bytes());
        }
        out.push(b'"');
    }

    fn literal(&self, out: &mut Vec<u8>, column: usize) {
        out.push(b'|');
        let first = runes(self.text).next().map_or(' ', |(_, rune, _)| rune);
        if first == ' ' || is_break(first) {
            out.push(b'2');
        }
        let mut last = runes(self.text)
            .map(|(_, rune, _)| rune)
            .collect::<Vec<_>>()
            .into_iter()
            .rev();
        match (last.next().is_some_and(is_break), last.next().map(is_break)) {
            (false, _) => out.push(b'-'),
            (true, None | Some(true)) => out.push(b'+'),
            (true, Some(false)) => {}
        }
        out.push(b'\n');
        let mut begins = true;
        for (_, rune, _) in runes(self.text) {
            if is_break(rune) {
                push_rune(out, rune);
                begins = true;
            } else {
                if std::mem::take(&mut begins) {
                    out.resize(out.len() + column, b' ');
                }
                push_rune(out, rune);
            }
        }
    }
}

/// Whether a rune means something to YAML where it stands.
fn is_indicator(rune: char, is_first: bool, is_after_blank: bool, is_before_blank: bool) -> bool {
    if is_first {
        return match rune {
            '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' => true,
            '?' | ':' | '-' => is_before_blank,
            _ => false,
        };
    }
    match rune {
        ':' => is_before_blank,
        '#' => is_after_blank,
        _ => false,
    }
}
