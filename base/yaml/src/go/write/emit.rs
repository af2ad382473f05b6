//! Puts scalars and indicators on lines as Go's emitter does (`emitterc.go` of go.yaml.in/yaml/v2 2.4 and v3 3.0): it
//! remembers the column, and whether what is written last is a blank.

use std::fmt::Write as _;

use super::super::resolve::Dialect;
use super::scalar::{Style, analyse, break_width, is_printable, select, style};

/// v2 breaks lines behind this column; v3 does not break them.
const V2_WIDTH: usize = 80;
/// Both indent by two.
const INDENT: isize = 2;
/// A key of more bytes gets a line of its own.
const SIMPLE_KEY_BYTES_MAX: usize = 128;
/// The tag of texts that are not UTF-8.
const BINARY_TAG: &str = "!!binary";

/// What the emitter knows of what it wrote last.
#[derive(Clone, Copy, Debug)]
pub(super) struct State {
    /// In characters
    pub(super) column: usize,
    whitespace: bool,
    /// Only indentation and indicators are in the line
    pub(super) indention: bool,
}

pub(super) struct Emitter {
    pub(super) out: String,
    pub(super) state: State,
    pub(super) dialect: Dialect,
    width: usize,
}

impl Emitter {
    pub(super) fn new(dialect: Dialect) -> Self {
        Self {
            out: String::new(),
            state: State {
                column: 0,
                whitespace: true,
                indention: true,
            },
            dialect,
            width: match dialect {
                Dialect::V2 => V2_WIDTH,
                Dialect::V3 => usize::MAX,
            },
        }
    }

    fn put(&mut self, character: char) {
        self.out.push(character);
        self.state.column += 1;
    }

    fn put_ascii(&mut self, text: &str) {
        self.out.push_str(text);
        self.state.column += text.len();
    }

    fn put_break(&mut self) {
        self.out.push('\n');
        self.state.column = 0;
        self.state.indention = true;
    }

    /// Goes to column `indent`, on a new line if something is there.
    pub(super) fn write_indent(&mut self, indent: isize) {
        let indent = indent.max(0) as usize;
        let State {
            column,
            whitespace,
            indention,
        } = self.state;
        if !indention || column > indent || column == indent && !whitespace {
            self.put_break();
        }
        let missing = indent.saturating_sub(self.state.column);
        self.out.extend(std::iter::repeat_n(' ', missing));
        self.state.column += missing;
        self.state.whitespace = true;
        self.state.indention = true;
    }

    pub(super) fn write_indicator(&mut self, indicator: &str, need_whitespace: bool, is_indention: bool) {
        if need_whitespace && !self.state.whitespace {
            self.put(' ');
        }
        self.put_ascii(indicator);
        self.state.whitespace = false;
        self.state.indention &= is_indention;
    }

    /// Whether a key is before its `:` on one line.
    pub(super) fn is_simple_key(&self, key: &str) -> bool {
        key.len() <= SIMPLE_KEY_BYTES_MAX && !analyse(key, self.dialect).multiline
    }

    /// A number, a boolean, null: what needs no quotes.
    pub(super) fn write_word(&mut self, word: &str) {
        if !self.state.whitespace {
            self.put(' ');
        }
        self.put_ascii(word);
        self.state.whitespace = false;
        self.state.indention = false;
    }

    /// A text. `indent` is that of the collection it lies in, -1 for none.
    pub(super) fn write_text(&mut self, text: &str, indent: isize, simple_key: bool) {
        let analysis = analyse(text, self.dialect);
        let style = style(text, self.dialect, analysis, simple_key);
        self.write_scalar(text, style, indent, simple_key);
    }

    /// A text that is not UTF-8, as base64.
    pub(super) fn write_binary(&mut self, base64: &str, indent: isize, simple_key: bool) {
        let analysis = analyse(base64, self.dialect);
        let wanted = if base64.contains('\n') {
            Style::Literal
        } else {
            Style::Plain
        };
        self.write_word(BINARY_TAG);
        let style = select(wanted, analysis, simple_key);
        self.write_scalar(base64, style, indent, simple_key);
    }

    fn write_scalar(&mut self, text: &str, style: Style, indent: isize, simple_key: bool) {
        let indent = if indent < 0 { INDENT } else { indent + INDENT };
        match style {
            Style::Plain => self.write_plain(text, indent, !simple_key),
            Style::SingleQuoted => self.write_single_quoted(text, indent, !simple_key),
            Style::DoubleQuoted => self.write_double_quoted(text, indent, !simple_key),
            Style::Literal => self.write_literal(text, indent),
        }
    }

    fn write_plain(&mut self, text: &str, indent: isize, may_break: bool) {
        if !self.state.whitespace {
            self.put(' ');
        }
        if !may_break || self.state.column.saturating_add(text.len()) <= self.width {
            self.out.push_str(text);
            self.state.column += text.chars().count();
        } else {
            self.write_flowing(text, indent, may_break, false);
        }
        self.state.whitespace = false;
        self.state.indention = false;
    }

    fn write_single_quoted(&mut self, text: &str, indent: isize, may_break: bool) {
        self.write_indicator("'", true, false);
        self.write_flowing(text, indent, may_break, true);
        self.write_indicator("'", false, false);
    }

    /// Writes a text without escapes and breaks it at single blanks behind the width.
    fn write_flowing(&mut self, text: &str, indent: isize, may_break: bool, quoted: bool) {
        let bytes = text.as_bytes();
        let mut after_space = false;
        let mut after_break = false;
        for (at, character) in text.char_indices() {
            if character == ' ' {
                let inside = !quoted || at > 0 && at + 1 < bytes.len();
                let single = !after_space && bytes.get(at + 1) != Some(&b' ');
                if may_break && inside && single && self.state.column > self.width {
                    self.write_indent(indent);
                } else {
                    self.put(character);
                }
                after_space = true;
                continue;
            }
            if break_width(&bytes[at..]) > 0 {
                self.out.push(character);
                self.state.column = 0;
                self.state.indention = true;
                after_break = true;
                continue;
            }
            if after_break {
                self.write_indent(indent);
            }
            if quoted && character == '\'' {
                self.put(character);
            }
            self.put(character);
            self.state.indention = false;
            (after_space, after_break) = (false, false);
        }
    }

    fn write_double_quoted(&mut self, text: &str, indent: isize, may_break: bool) {
        self.write_indicator("\"", true, false);
        let bytes = text.as_bytes();
        // Go checks for each character whether the text begins with a byte order mark, and escapes them all if it does.
        let all = text.starts_with('\u{FEFF}');
        let mut after_space = false;
        for (at, character) in text.char_indices() {
            let rest = &bytes[at..];
            if all || !is_printable(rest) || break_width(rest) > 0 || matches!(character, '"' | '\\') {
                self.write_escaped(character);
                after_space = false;
            } else if character == ' ' {
                let inside = at > 0 && at + 1 < bytes.len();
                if may_break && inside && !after_space && self.state.column > self.width {
                    self.write_indent(indent);
                    if rest[1] == b' ' {
                        self.put('\\');
                    }
                } else {
                    self.put(character);
                }
                after_space = true;
            } else {
                self.put(character);
                after_space = false;
            }
        }
        self.write_indicator("\"", false, false);
    }

    fn write_escaped(&mut self, character: char) {
        let start = self.out.len();
        let code = u32::from(character);
        let short = match character {
            '\0' => '0',
            '\x07' => 'a',
            '\x08' => 'b',
            '\t' => 't',
            '\n' => 'n',
            '\x0B' => 'v',
            '\x0C' => 'f',
            '\r' => 'r',
            '\x1B' => 'e',
            '"' | '\\' => character,
            '\u{85}' => 'N',
            '\u{A0}' => '_',
            '\u{2028}' => 'L',
            '\u{2029}' => 'P',
            _ => {
                // Writing to a string cannot fail.
                let _ = match code {
                    ..=0xFF => write!(self.out, "\\x{code:02X}"),
                    0x100..=0xFFFF => write!(self.out, "\\u{code:04X}"),
                    _ => write!(self.out, "\\U{code:08X}"),
                };
                self.state.column += self.out.len() - start;
                return;
            }
        };
        self.put('\\');
        self.put(short);
    }

    fn write_literal(&mut self, text: &str, indent: isize) {
        self.write_indicator("|", true, false);
        let first = text.as_bytes();
        if text.starts_with(' ') || break_width(first) > 0 {
            self.write_indicator("2", false, false);
        }
        if let Some(hint) = chomping_hint(text) {
            self.write_indicator(hint, false, false);
        }
        self.put_break();
        self.state.whitespace = true;
        let mut line_start = true;
        let mut rest = text;
        while !rest.is_empty() {
            let end = rest.find(['\n', '\u{2028}', '\u{2029}']).unwrap_or(rest.len());
            let (line, after) = rest.split_at(end);
            if !line.is_empty() {
                if line_start {
                    self.write_indent(indent);
                }
                self.out.push_str(line);
                self.state.column += line.chars().count();
                self.state.indention = false;
            }
            let width = break_width(after.as_bytes());
            if width > 0 {
                self.out.push_str(&after[..width]);
                self.state.column = 0;
                self.state.indention = true;
            }
            line_start = true;
            rest = &after[width..];
        }
    }
}

/// The indicator of the number of line breaks at the end of a literal text, where it is not one.
fn chomping_hint(text: &str) -> Option<&'static str> {
    let mut last = text.chars().rev();
    let is_break = |character: char| break_width(character.encode_utf8(&mut [0; 4]).as_bytes()) > 0;
    match (last.next().is_some_and(is_break), last.next()) {
        (false, _) => Some("-"),
        (true, None) => Some("+"),
        (true, Some(before)) if is_break(before) => Some("+"),
        (true, Some(_)) => None,
    }
}
