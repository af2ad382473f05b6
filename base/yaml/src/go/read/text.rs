//! The characters of a document: which are allowed, where lines break, where the scanner is. It knows no token.
//!
//! What is allowed and what breaks a line are YAML 1.1's, as go.yaml.in/yaml/v2 2.4 (`readerc.go`, `yamlprivateh.go`) has them.

use std::borrow::Cow;
use std::cell::Cell;

use super::super::char_width;
use super::Problem;

/// The place of a character, counted from 0, in characters.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    pub(super) index: usize,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// The text with the place of the scanner in it. Reading past the end finds zeroes, which no text can hold.
pub(super) struct Text<'a> {
    bytes: Cow<'a, [u8]>,
    at: usize,
    pub(super) mark: Mark,
    /// What is wrong with the first character behind `bytes`, when it is not the end that is there.
    broken: Option<&'static str>,
    /// Whether a byte behind the end was requested.
    behind: Cell<bool>,
}

/// Go reads its input in pieces of so many bytes, and reports a bad character when it has read the piece, not when it
/// has come to the character: which of two errors is reported depends on it.
const PIECE_BYTES: usize = 512;

const INCOMPLETE: &str = "incomplete UTF-8 octet sequence";

/// So many bytes are checked together: nearly always all of them are plain.
const PLAIN_BYTES: usize = 32;

impl<'a> Text<'a> {
    /// UTF-8, or UTF-16 that begins with a byte order mark.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let (bytes, first): (Decoded<'_>, usize) = match bytes {
            [0xFF, 0xFE, rest @ ..] => from_utf16(rest, u16::from_le_bytes),
            [0xFE, 0xFF, rest @ ..] => from_utf16(rest, u16::from_be_bytes),
            [0xEF, 0xBB, 0xBF, rest @ ..] => (Ok(Cow::Borrowed(rest)), 3),
            _ => (Ok(Cow::Borrowed(bytes)), 0),
        };
        let (bytes, broken) = match bytes {
            Ok(bytes) => match first_bad(&bytes) {
                None => (bytes, None),
                // Where a text ends within a character, all before that is read first.
                Some((bad, why)) if why == INCOMPLETE => (shortened(bytes, bad), Some(why)),
                Some((bad, why)) => (cut(bytes, bad, first), Some(why)),
            },
            Err((bytes, why)) => (Cow::Owned(bytes), Some(why)),
        };
        Self {
            bytes,
            at: 0,
            mark: Mark::default(),
            broken,
            behind: Cell::new(false),
        }
    }

    /// What is wrong with a character that has been looked at.
    pub(super) fn broken(&self) -> Option<Problem> {
        let why = self.broken.filter(|_| self.behind.get())?;
        Some(Problem::in_the_input(why))
    }

    /// The byte `ahead` of the scanner.
    #[inline]
    pub(super) fn byte(&self, ahead: usize) -> u8 {
        match self.bytes.get(self.at + ahead) {
            Some(byte) => *byte,
            None => {
                self.behind.set(true);
                0
            }
        }
    }

    pub(super) fn starts_with(&self, with: &[u8]) -> bool {
        self.bytes[self.at..].starts_with(with)
    }

    /// The bytes of a line break `ahead` of the scanner, 0 when there is none.
    #[inline]
    pub(super) fn break_width(&self, ahead: usize) -> usize {
        match self.byte(ahead) {
            b'\r' | b'\n' => 1,
            0xC2 if self.byte(ahead + 1) == 0x85 => 2,
            0xE2 if self.byte(ahead + 1) == 0x80 && matches!(self.byte(ahead + 2), 0xA8 | 0xA9) => 3,
            _ => 0,
        }
    }

    pub(super) fn is_break(&self, ahead: usize) -> bool {
        self.break_width(ahead) > 0
    }

    pub(super) fn is_blank(&self, ahead: usize) -> bool {
        matches!(self.byte(ahead), b' ' | b'\t')
    }

    pub(super) fn is_end(&self, ahead: usize) -> bool {
        self.byte(ahead) == 0
    }

    pub(super) fn is_break_or_end(&self, ahead: usize) -> bool {
        self.is_end(ahead) || self.is_break(ahead)
    }

    #[inline]
    pub(super) fn is_blank_or_end(&self, ahead: usize) -> bool {
        match self.byte(ahead) {
            0 | b' ' | b'\t' | b'\r' | b'\n' => true,
            byte if byte < 0x80 => false,
            _ => self.is_break(ahead),
        }
    }

    /// Whether a document indicator (`---` or `...`) stands here, at the beginning of a line.
    pub(super) fn is_document_indicator(&self) -> bool {
        self.mark.column == 0 && (self.starts_with(b"---") || self.starts_with(b"...")) && self.is_blank_or_end(3)
    }

    /// Goes past one character that is no line break.
    #[inline]
    pub(super) fn skip(&mut self) {
        self.at += char_width(self.byte(0));
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Goes past `count` characters of one byte each.
    pub(super) fn skip_bytes(&mut self, count: usize) {
        self.at += count;
        self.mark.index += count;
        self.mark.column += count;
    }

    pub(super) fn skip_while(&mut self, is: impl Fn(&Self) -> bool) {
        while is(self) {
            self.skip();
        }
    }

    pub(super) fn skip_blanks(&mut self) {
        self.skip_while(|text| text.is_blank(0));
    }

    /// Goes past a comment, up to the end of its line.
    pub(super) fn skip_comment(&mut self) {
        if self.byte(0) == b'#' {
            self.skip_while(|text| !text.is_break_or_end(0));
        }
    }

    /// Goes past a line break.
    pub(super) fn skip_line(&mut self) {
        let width = match self.break_width(0) {
            0 => return,
            1 if self.byte(0) == b'\r' && self.byte(1) == b'\n' => 2,
            width => width,
        };
        self.mark.index += if width == 2 && self.byte(0) == b'\r' { 2 } else { 1 };
        self.mark.column = 0;
        self.mark.line += 1;
        self.at += width;
    }

    /// Appends the character here to `to` and goes past it.
    #[inline]
    pub(super) fn read(&mut self, to: &mut Vec<u8>) {
        let width = char_width(self.byte(0));
        to.extend_from_slice(&self.bytes[self.at..(self.at + width).min(self.bytes.len())]);
        self.at += width;
        self.mark.index += 1;
        self.mark.column += 1;
    }

    /// Appends all characters up to the first that is no ASCII or that `stops` names, and goes past them.
    #[inline]
    pub(super) fn read_run(&mut self, to: &mut Vec<u8>, stops: impl Fn(u8) -> bool) {
        let rest = &self.bytes[self.at..];
        let count = rest
            .iter()
            .position(|byte| !byte.is_ascii() || stops(*byte))
            .unwrap_or(rest.len());
        to.extend_from_slice(&rest[..count]);
        self.skip_bytes(count);
    }

    /// Appends a line break as it is read (a line feed, but for U+2028 and U+2029) and goes past it.
    pub(super) fn read_line(&mut self, to: &mut Vec<u8>) {
        match self.break_width(0) {
            0 => return,
            3 => to.extend_from_slice(&self.bytes[self.at..self.at + 3]),
            _ => to.push(b'\n'),
        }
        self.skip_line();
    }
}

/// A scalar without quotes that is borrowed from the text.
pub(super) struct Plain<'a> {
    pub(super) value: &'a [u8],
    /// Whether the next token stands on a line below.
    pub(super) ends_line: bool,
}

/// How nearly all scalars are written: in ASCII, on one line. They are borrowed as they stand. Where anything else is met these
/// return `None`, and skip nothing.
impl<'a> Text<'a> {
    /// What is left of the text, if nothing in it had to be decoded and all of it is allowed.
    fn borrowed(&self) -> Option<&'a [u8]> {
        match self.bytes {
            Cow::Borrowed(bytes) if self.broken.is_none() => bytes.get(self.at..),
            _ => None,
        }
    }

    /// A scalar without quotes in a block whose lines begin at column `indent`: up to the `:` behind a key, or up to a line
    /// that is indented less.
    pub(super) fn take_plain(&mut self, indent: isize) -> Option<Plain<'a>> {
        let rest = self.borrowed()?;
        let (mut at, mut end) = (0, 0);
        let ends_line = loop {
            match *rest.get(at)? {
                b'\n' => break true,
                b':' => match *rest.get(at + 1)? {
                    b' ' | b'\n' => break false,
                    0x21..=0x7E => end = at + 1,
                    _ => return None,
                },
                // Perhaps a comment.
                b'#' if end < at => return None,
                0x21..=0x7E => end = at + 1,
                b' ' => {}
                _ => return None,
            }
            at += 1;
        };
        if ends_line {
            let column = rest.get(at + 1..)?.iter().position(|byte| *byte != b' ')?;
            let is_less = isize::try_from(column).is_ok_and(|column| column < indent);
            if !is_less || !matches!(rest.get(at + 1 + column)?, 0x21..=0x7E) {
                return None;
            }
            self.at += at + 1 + column;
            self.mark.index += at + 1 + column;
            self.mark.line += 1;
            self.mark.column = column;
        } else {
            self.skip_bytes(at);
        }
        let value = &rest[..end];
        Some(Plain { value, ends_line })
    }

    /// A scalar in quotes, with nothing in it that stands for something else.
    pub(super) fn take_quoted(&mut self, quote: u8) -> Option<&'a [u8]> {
        let rest = self.borrowed()?.get(1..)?;
        let stops = |byte: &u8| *byte == quote || *byte == b'\\' || !matches!(byte, b' '..=b'~');
        let end = rest.iter().position(stops)?;
        let is_doubled = quote == b'\'' && rest.get(end + 1) == Some(&quote);
        if rest[end] != quote || is_doubled {
            return None;
        }
        self.skip_bytes(end + 2);
        Some(&rest[..end])
    }
}

/// The first byte of the first character that YAML does not allow, and why not.
fn first_bad(bytes: &[u8]) -> Option<(usize, &'static str)> {
    let is_plain = |byte: &u8| matches!(byte, 0x20..=0x7E | b'\n' | b'\t' | b'\r');
    let mut at = 0;
    while let Some(first) = bytes.get(at) {
        // All of a piece, so that it is done many bytes at a time.
        if let Some(piece) = bytes.get(at..at + PLAIN_BYTES)
            && piece.iter().fold(true, |all, byte| all & is_plain(byte))
        {
            at += PLAIN_BYTES;
            continue;
        }
        if is_plain(first) {
            at += 1;
            continue;
        }
        match character(&bytes[at..]) {
            Ok(width) => at += width,
            Err(why) => return Some((at, why)),
        }
    }
    None
}

/// How many bytes the first character of `bytes` has.
fn character(bytes: &[u8]) -> Result<usize, &'static str> {
    let first = bytes[0];
    let (width, bits, least) = match first {
        0x00..0x80 => (1, first, 0),
        0xC0..0xE0 => (2, first & 0x1F, 0x80),
        0xE0..0xF0 => (3, first & 0x0F, 0x800),
        0xF0..0xF8 => (4, first & 0x07, 0x1_0000),
        _ => return Err("invalid leading UTF-8 octet"),
    };
    if width > bytes.len() {
        return Err(INCOMPLETE);
    }
    let mut value = u32::from(bits);
    for byte in &bytes[1..width] {
        if byte & 0xC0 != 0x80 {
            return Err("invalid trailing UTF-8 octet");
        }
        value = value << 6 | u32::from(byte & 0x3F);
    }
    match value {
        _ if value < least => Err("invalid length of a UTF-8 sequence"),
        0xD800..=0xDFFF | 0x11_0000.. => Err("invalid Unicode character"),
        0x09 | 0x0A | 0x0D | 0x20..=0x7E | 0x85 | 0xA0..=0xD7FF | 0xE000..=0xFFFD | 0x1_0000.. => Ok(width),
        _ => Err("control characters are not allowed"),
    }
}

/// What Go has read before the piece in which the bad character stands. `first` bytes were a byte order mark.
fn cut(bytes: Cow<'_, [u8]>, bad: usize, first: usize) -> Cow<'_, [u8]> {
    let mut start = 0;
    let mut end = PIECE_BYTES - first;
    while end <= bad {
        // A character that does not end in the piece waits for the next, which is so much shorter.
        let mut whole = end;
        while whole > start && bytes[whole] & 0xC0 == 0x80 {
            whole -= 1;
        }
        start = whole;
        end = start + PIECE_BYTES;
    }
    shortened(bytes, start)
}

fn shortened(bytes: Cow<'_, [u8]>, end: usize) -> Cow<'_, [u8]> {
    match bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..end]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(end);
            Cow::Owned(bytes)
        }
    }
}

type Decoded<'a> = Result<Cow<'a, [u8]>, (Vec<u8>, &'static str)>;

fn from_utf16<'a>(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> (Decoded<'a>, usize) {
    let pairs = bytes.chunks_exact(2);
    let odd = !pairs.remainder().is_empty();
    let mut decoded = String::with_capacity(bytes.len() / 2);
    for character in char::decode_utf16(pairs.map(|pair| unit([pair[0], pair[1]]))) {
        match character {
            Ok(character) => decoded.push(character),
            Err(why) => {
                let why = match why.unpaired_surrogate() {
                    0xDC00.. => "unexpected low surrogate area",
                    _ => "expected low surrogate area",
                };
                return (Err((decoded.into_bytes(), why)), 2);
            }
        }
    }
    let decoded = decoded.into_bytes();
    match odd {
        true => (Err((decoded, "incomplete UTF-16 character")), 2),
        false => (Ok(Cow::Owned(decoded)), 2),
    }
}
