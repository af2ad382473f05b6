//! From text to tokens. Spaces inside actions are tokens, since they separate arguments; comments are left out.

use memchr::{memchr_iter, memmem};

use super::token::{Item, Kind};
use crate::text::quote::quoted;
use crate::text::{decode_rune, is_letter_or_digit, is_print};

const LEFT: &[u8] = b"{{";
const RIGHT: &[u8] = b"}}";
const LEFT_COMMENT: &[u8] = b"/*";
const RIGHT_COMMENT: &[u8] = b"*/";
/// A minus and the space beside it.
const TRIM_MARKER: usize = 2;

/// Reads tokens one after the other.
pub(super) struct Lexer<'t> {
    input: &'t [u8],
    at: usize,
    start: usize,
    line: usize,
    start_line: usize,
    paren_depth: usize,
    is_inside_action: bool,
    /// What is wrong, once something is
    failure: Option<String>,
    /// Finds [`LEFT`]
    left: memmem::Finder<'static>,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(input: &'t [u8]) -> Self {
        Self {
            input,
            at: 0,
            start: 0,
            line: 1,
            start_line: 1,
            paren_depth: 0,
            is_inside_action: false,
            failure: None,
            left: memmem::Finder::new(LEFT),
        }
    }

    /// The next token. After an error, as after the end, there is nothing but the end.
    pub(super) fn next_item(&mut self) -> Item<'t> {
        if self.failure.is_some() {
            return self.item(Kind::Eof);
        }
        if self.is_inside_action {
            self.inside_action()
        } else {
            self.text()
        }
    }

    fn rest(&self) -> &'t [u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    fn item(&mut self, kind: Kind) -> Item<'t> {
        let item = Item {
            kind,
            at: self.start,
            text: self.input.get(self.start..self.at).unwrap_or_default(),
            line: self.start_line,
        };
        self.start = self.at;
        self.start_line = self.line;
        item
    }

    fn error(&mut self, text: String) -> Item<'t> {
        let item = Item {
            kind: Kind::Error,
            at: self.start,
            text: &[],
            line: self.start_line,
        };
        self.input = &[];
        self.at = 0;
        self.start = 0;
        self.failure = Some(text);
        item
    }

    /// The message of a token that is an error.
    pub(super) fn failure(&self) -> &str {
        self.failure.as_deref().unwrap_or_default()
    }

    /// The rune here, none at the end.
    fn peek(&self) -> Option<char> {
        let rest = self.rest();
        (!rest.is_empty()).then(|| decode_rune(rest).0)
    }

    fn next(&mut self) -> Option<char> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let (rune, width) = decode_rune(rest);
        self.at += width;
        if rune == '\n' {
            self.line += 1;
        }
        Some(rune)
    }

    fn accept(&mut self, wanted: &str) -> bool {
        let is_wanted = self.peek().is_some_and(|rune| wanted.contains(rune));
        if is_wanted {
            self.next();
        }
        is_wanted
    }

    fn accept_run(&mut self, wanted: &str) {
        while self.accept(wanted) {}
    }

    /// Leaves out what was skipped without `next`.
    fn ignore(&mut self) {
        self.count_lines();
        self.start = self.at;
        self.start_line = self.line;
    }

    fn count_lines(&mut self) {
        let passed = self.input.get(self.start..self.at).unwrap_or_default();
        self.line += memchr_iter(b'\n', passed).count();
    }

    /// Text up to the next action.
    fn text(&mut self) -> Item<'t> {
        loop {
            let Some(length) = self.left.find(self.rest()) else {
                self.at = self.input.len();
                if self.at > self.start {
                    self.count_lines();
                    return self.item(Kind::Text);
                }
                return self.item(Kind::Eof);
            };
            if length > 0 {
                self.at += length;
                let after = self.input.get(self.at + LEFT.len()..).unwrap_or_default();
                let passed = self.input.get(self.start..self.at).unwrap_or_default();
                let trimmed = if has_left_trim(after) {
                    passed.len() - without_spaces_at_end(passed).len()
                } else {
                    0
                };
                self.at -= trimmed;
                self.count_lines();
                let item = self.item(Kind::Text);
                self.at += trimmed;
                self.ignore();
                if !item.text.is_empty() {
                    return item;
                }
            }
            if let Some(item) = self.left_delim() {
                return item;
            }
        }
    }

    /// The beginning of an action, or nothing if it was a comment.
    fn left_delim(&mut self) -> Option<Item<'t>> {
        self.at += LEFT.len();
        let marker = if has_left_trim(self.rest()) { TRIM_MARKER } else { 0 };
        if self
            .rest()
            .get(marker..)
            .is_some_and(|rest| rest.starts_with(LEFT_COMMENT))
        {
            self.at += marker;
            self.ignore();
            return self.comment();
        }
        let item = self.item(Kind::LeftDelim);
        self.is_inside_action = true;
        self.at += marker;
        self.ignore();
        self.paren_depth = 0;
        Some(item)
    }

    fn comment(&mut self) -> Option<Item<'t>> {
        self.at += LEFT_COMMENT.len();
        let Some(length) = memmem::find(self.rest(), RIGHT_COMMENT) else {
            return Some(self.error("unclosed comment".to_owned()));
        };
        self.at += length + RIGHT_COMMENT.len();
        let Some(trims) = self.at_right_delim() else {
            return Some(self.error("comment ends before closing delimiter".to_owned()));
        };
        if trims {
            self.at += TRIM_MARKER;
        }
        self.at += RIGHT.len();
        if trims {
            self.at += leading_spaces(self.rest());
        }
        self.ignore();
        None
    }

    /// Whether here is the end of an action, and whether it trims.
    fn at_right_delim(&self) -> Option<bool> {
        let rest = self.rest();
        if has_right_trim(rest) && rest.get(TRIM_MARKER..).is_some_and(|rest| rest.starts_with(RIGHT)) {
            return Some(true);
        }
        rest.starts_with(RIGHT).then_some(false)
    }

    fn right_delim(&mut self) -> Item<'t> {
        let trims = self.at_right_delim() == Some(true);
        if trims {
            self.at += TRIM_MARKER;
            self.ignore();
        }
        self.at += RIGHT.len();
        let item = self.item(Kind::RightDelim);
        if trims {
            self.at += leading_spaces(self.rest());
            self.ignore();
        }
        self.is_inside_action = false;
        item
    }

    fn inside_action(&mut self) -> Item<'t> {
        if self.at_right_delim().is_some() {
            if self.paren_depth == 0 {
                return self.right_delim();
            }
            return self.error("unclosed left paren".to_owned());
        }
        let Some(rune) = self.peek() else {
            return self.error("unclosed action".to_owned());
        };
        if is_space(rune) {
            return self.space();
        }
        if matches!(rune, '+' | '-' | '0'..='9') || rune == '.' && self.rest().get(1).is_none_or(u8::is_ascii_digit) {
            return self.number();
        }
        if is_alphanumeric(rune) {
            return self.identifier();
        }
        self.next();
        match rune {
            '=' => self.item(Kind::Assign),
            ':' => match self.next() {
                Some('=') => self.item(Kind::Declare),
                _ => self.error("expected :=".to_owned()),
            },
            '|' => self.item(Kind::Pipe),
            '"' => self.quoted('"', "unterminated quoted string", Kind::String),
            '\'' => self.quoted('\'', "unterminated character constant", Kind::CharConstant),
            '`' => self.raw_quoted(),
            '$' => self.field_or_variable(Kind::Variable),
            '.' => self.field_or_variable(Kind::Field),
            '(' => {
                self.paren_depth += 1;
                self.item(Kind::LeftParen)
            }
            ')' if self.paren_depth == 0 => self.error("unexpected right paren".to_owned()),
            ')' => {
                self.paren_depth -= 1;
                self.item(Kind::RightParen)
            }
            rune if rune.is_ascii() && is_print(rune) => self.item(Kind::Char),
            rune => self.error(format!("unrecognized character in action: {}", unicode(Some(rune)))),
        }
    }

    /// Spaces. The one before a trim marker belongs to the marker.
    fn space(&mut self) -> Item<'t> {
        let mut count = 0;
        while self.peek().is_some_and(is_space) {
            self.next();
            count += 1;
        }
        let from_last = self.input.get(self.at - 1..).unwrap_or_default();
        if has_right_trim(from_last) && from_last.get(TRIM_MARKER..).is_some_and(|rest| rest.starts_with(RIGHT)) {
            self.at -= 1;
            if from_last.first() == Some(&b'\n') {
                self.line -= 1;
            }
            if count == 1 {
                return self.right_delim();
            }
        }
        self.item(Kind::Space)
    }

    fn identifier(&mut self) -> Item<'t> {
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        let word = self.input.get(self.start..self.at).unwrap_or_default();
        let kind = match word {
            b"true" | b"false" => Kind::Bool,
            word => Kind::of_word(word).unwrap_or(Kind::Identifier),
        };
        self.item(kind)
    }

    fn bad_character(&mut self) -> Item<'t> {
        let rune = self.peek();
        self.error(format!("bad character {}", unicode(rune)))
    }

    fn field_or_variable(&mut self, kind: Kind) -> Item<'t> {
        if self.at_terminator() {
            let alone = if kind == Kind::Variable { kind } else { Kind::Dot };
            return self.item(alone);
        }
        while self.peek().is_some_and(is_alphanumeric) {
            self.next();
        }
        if !self.at_terminator() {
            return self.bad_character();
        }
        self.item(kind)
    }

    /// Whether an identifier can end here.
    fn at_terminator(&self) -> bool {
        match self.peek() {
            None | Some('.' | ',' | '|' | ':' | ')' | '(') => true,
            Some(rune) => is_space(rune) || self.rest().starts_with(RIGHT),
        }
    }

    fn quoted(&mut self, mark: char, unterminated: &str, kind: Kind) -> Item<'t> {
        loop {
            match self.next() {
                Some('\\') => {
                    if matches!(self.next(), None | Some('\n')) {
                        return self.error(unterminated.to_owned());
                    }
                }
                None | Some('\n') => return self.error(unterminated.to_owned()),
                Some(rune) if rune == mark => return self.item(kind),
                Some(_) => {}
            }
        }
    }

    fn raw_quoted(&mut self) -> Item<'t> {
        loop {
            match self.next() {
                None => return self.error("unterminated raw quoted string".to_owned()),
                Some('`') => return self.item(Kind::RawString),
                Some(_) => {}
            }
        }
    }

    fn number(&mut self) -> Item<'t> {
        if !self.scan_number() {
            return self.bad_number();
        }
        if matches!(self.peek(), Some('+' | '-')) {
            if !self.scan_number() || self.input.get(self.at - 1) != Some(&b'i') {
                return self.bad_number();
            }
            return self.item(Kind::Complex);
        }
        self.item(Kind::Number)
    }

    fn bad_number(&mut self) -> Item<'t> {
        let text = self.input.get(self.start..self.at).unwrap_or_default();
        self.error(format!("bad number syntax: {}", quoted(text)))
    }

    /// Accepts more than numbers: `Number::read` refuses the rest.
    fn scan_number(&mut self) -> bool {
        const DECIMAL: &str = "0123456789_";
        const HEX: &str = "0123456789abcdefABCDEF_";
        self.accept("+-");
        let mut digits = DECIMAL;
        if self.accept("0") {
            if self.accept("xX") {
                digits = HEX;
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        self.accept_run(digits);
        if self.accept(".") {
            self.accept_run(digits);
        }
        if digits == DECIMAL && self.accept("eE") || digits == HEX && self.accept("pP") {
            self.accept("+-");
            self.accept_run(DECIMAL);
        }
        self.accept("i");
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return false;
        }
        true
    }
}

fn is_space(rune: char) -> bool {
    matches!(rune, ' ' | '\t' | '\r' | '\n')
}

fn is_space_byte(byte: &u8) -> bool {
    is_space(char::from(*byte))
}

fn is_alphanumeric(rune: char) -> bool {
    rune == '_' || is_letter_or_digit(rune)
}

fn has_left_trim(text: &[u8]) -> bool {
    matches!(text, [b'-', space, ..] if is_space_byte(space))
}

fn has_right_trim(text: &[u8]) -> bool {
    matches!(text, [space, b'-', ..] if is_space_byte(space))
}

fn leading_spaces(text: &[u8]) -> usize {
    text.iter().take_while(|byte| is_space_byte(byte)).count()
}

fn without_spaces_at_end(text: &[u8]) -> &[u8] {
    let end = text
        .iter()
        .rposition(|byte| !is_space_byte(byte))
        .map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}

/// `%#U` of a rune. At the end of the text Go's rune is -1.
fn unicode(rune: Option<char>) -> String {
    let Some(rune) = rune else {
        return "U+FFFFFFFFFFFFFFFF".to_owned();
    };
    let code = u32::from(rune);
    if is_print(rune) {
        format!("U+{code:04X} '{rune}'")
    } else {
        format!("U+{code:04X}")
    }
}
