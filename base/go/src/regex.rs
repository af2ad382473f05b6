//! Regular expressions of Go (`regexp/syntax` of Go 1.26, with its Perl flags) translated for the crate `regex`, with
//! Go's errors. Every piece is written with its flags, so that none depends on the pieces around it. The reader is not
//! recursive.

mod class;
mod counts;

use crate::{RUNE_ERROR, decode_rune};
use counts::counts;

/// Go's bound of a repetition count, and of the product of nested ones.
const REPEAT_MAX: usize = 1000;
/// Nested groups. Go allows about 1,000; the crate that compiles the expression recurses into each.
const GROUPS_MAX: usize = 200;
/// Bytes of an expression. Those of charts have at most a few hundred.
const PATTERN_BYTES_MAX: usize = 64 << 10;

/// An expression in the notation of the crate `regex`.
#[derive(Debug)]
pub struct Pattern {
    /// The expression
    pub text: String,
    /// The names of groups, with that of the whole, which has none, first
    pub names: Vec<Option<Vec<u8>>>,
    /// About how many instructions it takes
    pub size: usize,
}

/// Why an expression is not translated.
#[derive(Debug)]
pub enum ReadError {
    /// Go's error
    Syntax(String),
    /// It is longer or nests deeper than what is read
    Limit,
}

type Outcome<T = ()> = Result<T, ReadError>;

/// Go's error about a part of an expression.
fn wrong(what: &str, part: &[u8]) -> ReadError {
    let part = String::from_utf8_lossy(part);
    ReadError::Syntax(format!("error parsing regexp: {what}: `{part}`"))
}

const INVALID_RANGE: &str = "invalid character class range";
const INVALID_ESCAPE: &str = "invalid escape sequence";
const INVALID_NAME: &str = "invalid named capture";
const INVALID_COUNT: &str = "invalid repeat count";

#[derive(Clone, Copy, Default)]
struct Flags {
    folds_case: bool,
    lines: bool,
    dot_takes_line_ends: bool,
    lazy: bool,
}

/// What a repetition operator can repeat.
#[derive(Clone, Copy)]
struct Atom {
    /// Where it begins in the output
    start: usize,
    /// The greatest product of nested repetition counts in it
    weight: usize,
    /// The same of what is before it in its group
    weight_before: usize,
    size: usize,
    is_repetition: bool,
}

/// A group that has not ended.
struct Group {
    start: usize,
    flags: Flags,
    weight: usize,
    size: usize,
}

struct Reader<'p> {
    pattern: &'p [u8],
    at: usize,
    flags: Flags,
    out: String,
    groups: Vec<Group>,
    last: Option<Atom>,
    weight: usize,
    size: usize,
    names: Vec<Option<Vec<u8>>>,
}

/// Reads an expression.
///
/// # Errors
/// The expression is invalid, with Go's message, or beyond a limit.
pub fn read(pattern: &[u8]) -> Outcome<Pattern> {
    if pattern.len() > PATTERN_BYTES_MAX {
        return Err(ReadError::Limit);
    }
    let mut reader = Reader {
        pattern,
        at: 0,
        flags: Flags::default(),
        out: String::new(),
        groups: Vec::new(),
        last: None,
        weight: 0,
        size: 1,
        names: vec![None],
    };
    // Where the repetition begins that is right before.
    let mut repetition = None;
    while let Some(byte) = reader.peek(0) {
        repetition = reader.piece(byte, repetition)?;
    }
    if !reader.groups.is_empty() {
        return Err(wrong("missing closing )", pattern));
    }
    Ok(Pattern {
        text: reader.out,
        names: reader.names,
        size: reader.size,
    })
}

impl<'p> Reader<'p> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.pattern.get(self.at + ahead).copied()
    }

    fn rest(&self) -> &'p [u8] {
        self.pattern.get(self.at..).unwrap_or_default()
    }

    fn at(&self) -> usize {
        self.at
    }

    fn skip(&mut self, bytes: usize) {
        self.at = self.pattern.len().min(self.at + bytes);
    }

    /// What has been read from `from` on.
    fn since(&self, from: usize) -> &'p [u8] {
        self.pattern.get(from..self.at).unwrap_or_default()
    }

    /// The next rune; U+FFFD at the end.
    fn rune(&mut self) -> Outcome<char> {
        let (rune, width) = decode_rune(self.rest());
        if rune == RUNE_ERROR && width == 1 {
            return Err(wrong("invalid UTF-8", self.rest()));
        }
        self.skip(width);
        Ok(rune)
    }

    /// Reads one piece; returns where it begins if it is a repetition.
    fn piece(&mut self, byte: u8, repetition: Option<usize>) -> Outcome<Option<usize>> {
        match byte {
            b'(' if self.peek(1) == Some(b'?') => self.flagged_group()?,
            b'(' => {
                self.at += 1;
                self.names.push(None);
                self.open("(")?;
            }
            b'|' => {
                self.at += 1;
                self.out.push('|');
                self.size = self.size.saturating_add(1);
                self.last = None;
            }
            b')' => self.close()?,
            b'^' => self.anchor(1, if self.flags.lines { "(?m:^)" } else { r"(?:\A)" }),
            b'$' => self.anchor(1, if self.flags.lines { "(?m:$)" } else { r"(?:\z)" }),
            b'.' => {
                let takes_all = self.flags.dot_takes_line_ends;
                self.anchor(1, if takes_all { "(?s:.)" } else { r"[^\n]" });
            }
            b'[' => {
                let class = class::bracketed(self)?;
                self.class(&class);
            }
            b'*' => return self.repeat(1, 0, None, repetition),
            b'+' => return self.repeat(1, 1, None, repetition),
            b'?' => return self.repeat(1, 0, Some(1), repetition),
            b'{' => return self.counted(repetition),
            b'\\' => self.escaped()?,
            _ => {
                let rune = self.rune()?;
                self.literal(u32::from(rune));
            }
        }
        Ok(None)
    }

    fn anchor(&mut self, bytes: usize, text: &str) {
        self.skip(bytes);
        self.atom(text);
    }

    fn atom(&mut self, text: &str) {
        self.last = Some(Atom {
            start: self.out.len(),
            weight: 0,
            weight_before: self.weight,
            size: 1,
            is_repetition: false,
        });
        self.size = self.size.saturating_add(1);
        self.out.push_str(text);
    }

    fn literal(&mut self, rune: u32) {
        match char::from_u32(rune) {
            // No text has a surrogate.
            None => self.atom(class::NEVER),
            Some(_) if self.flags.folds_case => self.atom(&format!("(?i:\\x{{{rune:X}}})")),
            Some(rune) if rune.is_ascii_alphanumeric() => self.atom(rune.encode_utf8(&mut [0; 4])),
            Some(_) => self.atom(&format!("\\x{{{rune:X}}}")),
        }
    }

    fn class(&mut self, class: &str) {
        if self.flags.folds_case {
            self.atom(&format!("(?i:{class})"));
        } else {
            self.atom(class);
        }
    }

    fn open(&mut self, text: &str) -> Outcome {
        if self.groups.len() >= GROUPS_MAX {
            return Err(ReadError::Limit);
        }
        self.groups.push(Group {
            start: self.out.len(),
            flags: self.flags,
            weight: std::mem::take(&mut self.weight),
            size: std::mem::replace(&mut self.size, 1),
        });
        self.out.push_str(text);
        self.last = None;
        Ok(())
    }

    fn close(&mut self) -> Outcome {
        let Some(group) = self.groups.pop() else {
            return Err(wrong("unexpected )", self.pattern));
        };
        self.at += 1;
        self.out.push(')');
        self.last = Some(Atom {
            start: group.start,
            weight: self.weight,
            weight_before: group.weight,
            size: self.size,
            is_repetition: false,
        });
        self.weight = self.weight.max(group.weight);
        self.size = self.size.saturating_add(group.size);
        self.flags = group.flags;
        Ok(())
    }

    /// `(?...`: a name, flags for what follows, or a group with flags.
    fn flagged_group(&mut self) -> Outcome {
        let start = self.at;
        let rest = self.rest();
        for (begin, length_min) in [(b"(?P<".as_slice(), 5), (b"(?<", 4)] {
            if rest.starts_with(begin) && rest.len() >= length_min {
                return self.named_group(rest, begin.len());
            }
        }
        self.skip(2);
        let mut flags = self.flags;
        let (mut sets, mut has_flag) = (true, false);
        while !self.rest().is_empty() {
            let rune = self.rune()?;
            match rune {
                'i' => flags.folds_case = sets,
                'm' => flags.lines = sets,
                's' => flags.dot_takes_line_ends = sets,
                'U' => flags.lazy = sets,
                '-' if sets => sets = false,
                ':' | ')' if sets || has_flag => {
                    if rune == ':' {
                        self.open("(?:")?;
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            has_flag = rune != '-';
        }
        Err(wrong("invalid or unsupported Perl syntax", self.since(start)))
    }

    fn named_group(&mut self, rest: &[u8], name_at: usize) -> Outcome {
        let Some(end) = rest.iter().position(|byte| *byte == b'>') else {
            check_utf8(rest)?;
            return Err(wrong(INVALID_NAME, rest));
        };
        let name = rest.get(name_at..end).unwrap_or_default();
        check_utf8(name)?;
        let fits = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        if name.is_empty() || !name.iter().all(fits) {
            return Err(wrong(INVALID_NAME, rest.get(..=end).unwrap_or_default()));
        }
        self.skip(end + 1);
        self.names.push(Some(name.to_vec()));
        self.open("(")
    }

    /// `{2,5}`, or the brace itself.
    fn counted(&mut self, repetition: Option<usize>) -> Outcome<Option<usize>> {
        let start = self.at;
        let Some((length, least, most)) = counts(self.rest()) else {
            self.at += 1;
            self.literal(u32::from('{'));
            return Ok(None);
        };
        let fits = |count: usize| count <= REPEAT_MAX;
        if !fits(least) || !most.is_none_or(|most| fits(most) && least <= most) {
            self.skip(length);
            return Err(wrong(INVALID_COUNT, self.since(start)));
        }
        self.repeat(length, least, most, repetition)
    }

    /// Repeats what is before the operator of that length.
    fn repeat(
        &mut self,
        length: usize,
        least: usize,
        most: Option<usize>,
        before: Option<usize>,
    ) -> Outcome<Option<usize>> {
        let start = self.at;
        let is_counted = self.peek(0) == Some(b'{');
        self.skip(length);
        let mut lazy = self.flags.lazy;
        if self.peek(0) == Some(b'?') {
            self.at += 1;
            lazy = !lazy;
        }
        if let Some(before) = before {
            return Err(wrong("invalid nested repetition operator", self.since(before)));
        }
        let Some(mut atom) = self.last else {
            return Err(wrong("missing argument to repetition operator", self.since(start)));
        };
        if is_counted && most != Some(0) {
            let count = most.unwrap_or(least);
            atom.weight = atom.weight.max(1).saturating_mul(count.max(1));
            if (least >= 2 || count >= 2) && atom.weight > REPEAT_MAX {
                return Err(wrong(INVALID_COUNT, self.since(start)));
            }
        } else if is_counted {
            atom.weight = 0;
        }
        if atom.is_repetition {
            self.out.insert_str(atom.start, "(?:");
            self.out.push(')');
        }
        match (least, most) {
            _ if is_counted => {
                let most = most.map(|most| most.to_string()).unwrap_or_default();
                self.out.push_str(&format!("{{{least},{most}}}"));
            }
            (0, None) => self.out.push('*'),
            (0, Some(_)) => self.out.push('?'),
            _ => self.out.push('+'),
        }
        if lazy {
            self.out.push('?');
        }
        let times = most.unwrap_or(least).max(1);
        self.size = self.size.saturating_add(atom.size.saturating_mul(times - 1));
        atom.size = atom.size.saturating_mul(times);
        atom.is_repetition = true;
        self.weight = atom.weight_before.max(atom.weight);
        self.last = Some(atom);
        Ok(Some(start))
    }

    fn escaped(&mut self) -> Outcome {
        match self.peek(1) {
            Some(b'A') => self.anchor(2, r"(?:\A)"),
            Some(b'b') => self.anchor(2, r"(?-u:\b)"),
            Some(b'B') => self.anchor(2, r"(?-u:\B)"),
            Some(b'z') => self.anchor(2, r"(?:\z)"),
            Some(b'C') => return Err(wrong(INVALID_ESCAPE, b"\\C")),
            Some(b'Q') => {
                self.skip(2);
                while !self.rest().is_empty() && !self.rest().starts_with(b"\\E") {
                    let rune = self.rune()?;
                    self.literal(u32::from(rune));
                }
                self.skip(2);
            }
            _ => match class::escaped(self)? {
                Some(class) => self.class(&format!("[{class}]")),
                None => {
                    let rune = self.escape()?;
                    self.literal(rune);
                }
            },
        }
        Ok(())
    }

    /// A rune that is written with a backslash.
    fn escape(&mut self) -> Outcome<u32> {
        let start = self.at;
        self.skip(1);
        if self.rest().is_empty() {
            return Err(wrong("trailing backslash at end of expression", b""));
        }
        let rune = self.rune()?;
        let octal = |byte: Option<u8>| byte.filter(|byte| (b'0'..=b'7').contains(byte));
        let known = match rune {
            '0'..='7' if rune == '0' || octal(self.peek(0)).is_some() => {
                let mut value = u32::from(rune) - u32::from('0');
                for _ in 0..2 {
                    let Some(digit) = octal(self.peek(0)) else { break };
                    value = value * 8 + u32::from(digit - b'0');
                    self.at += 1;
                }
                Some(value)
            }
            'x' => self.hexadecimal()?,
            'a' => Some(7),
            'f' => Some(12),
            'n' => Some(10),
            'r' => Some(13),
            't' => Some(9),
            'v' => Some(11),
            rune if rune.is_ascii() && !rune.is_ascii_alphanumeric() => Some(u32::from(rune)),
            _ => None,
        };
        known.ok_or_else(|| wrong(INVALID_ESCAPE, self.since(start)))
    }

    /// `\x7F` or `\x{10FFFF}`; nothing if it is neither.
    fn hexadecimal(&mut self) -> Outcome<Option<u32>> {
        if self.rest().is_empty() {
            return Ok(None);
        }
        let first = self.rune()?;
        if first != '{' {
            let second = self.rune()?;
            let digits = first.to_digit(16).zip(second.to_digit(16));
            return Ok(digits.map(|(high, low)| high * 16 + low));
        }
        let (mut value, mut digits) = (0_u32, 0);
        while !self.rest().is_empty() {
            match self.rune()? {
                '}' => return Ok((digits > 0).then_some(value)),
                rune => match rune.to_digit(16) {
                    Some(digit) => value = value * 16 + digit,
                    None => return Ok(None),
                },
            }
            if value > u32::from(char::MAX) {
                return Ok(None);
            }
            digits += 1;
        }
        Ok(None)
    }
}

fn check_utf8(text: &[u8]) -> Outcome {
    match std::str::from_utf8(text) {
        Ok(_) => Ok(()),
        Err(at) => {
            let rest = text.get(at.valid_up_to()..).unwrap_or_default();
            Err(wrong("invalid UTF-8", rest))
        }
    }
}
