//! Words joined by capitals, underscores or dashes, as huandu/xstrings 1.5 takes strings apart into words.

use super::args::text;
use super::words::{lower, upper};
use crate::text::{RUNE_ERROR, decode_rune, is_letter, is_number, is_punctuation, is_upper, push_rune};
use crate::value::function::Function;
use crate::value::{Type, Value};

pub(super) fn functions() -> Vec<Function> {
    let joined = |name: &str, connector: char| {
        Function::new(name, [Type::Str], move |scope, args| {
            scope.check_length(text(args, 0).len().saturating_mul(3))?;
            Ok(Value::string(lower_words(text(args, 0), connector)))
        })
    };
    vec![
        joined("snakecase", '_'),
        joined("kebabcase", '-'),
        Function::new("camelcase", [Type::Str], |scope, args| {
            scope.check_length(text(args, 0).len().saturating_mul(3))?;
            Ok(Value::string(pascal(text(args, 0))))
        }),
    ]
}

fn is_connector(rune: char) -> bool {
    matches!(rune, '-' | '_') || rune.is_whitespace()
}

/// A letter, but for Chinese, Japanese and Korean ones, which have no cases.
fn is_alphabet(rune: char) -> bool {
    let is_cjk = matches!(u32::from(rune), 0x3400..=0x4D85 | 0x4E00..=0x9FCC | 0x20000..=0x2B81D);
    is_letter(rune) && !is_cjk
}

/// `ToPascalCase`: connectors at the beginning stay, others go, and the letters behind them become capitals.
fn pascal(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    let mut next = || {
        let (rune, width) = decode_rune(rest);
        rest = rest.get(width..).unwrap_or_default();
        (width > 0).then_some(rune)
    };
    let mut connector = None;
    let mut before = loop {
        match next() {
            // Where there is nothing else, the last connector comes twice.
            None => {
                connector.into_iter().for_each(|rune| push_rune(&mut out, rune));
                return out;
            }
            Some(rune) if is_connector(rune) => {
                push_rune(&mut out, rune);
                connector = Some(rune);
            }
            Some(rune) => break rune,
        }
    };
    // Where all letters are capitals, only the first remains one.
    let mut in_capitals = is_upper(before);
    before = upper(before);
    while let Some(mut rune) = next() {
        match (is_connector(before), is_connector(rune)) {
            (true, true) => push_rune(&mut out, before),
            (true, false) => {
                in_capitals = is_upper(rune);
                rune = upper(rune);
            }
            (false, _) => {
                if in_capitals && is_upper(rune) {
                    rune = lower(rune);
                } else {
                    in_capitals = false;
                }
                push_rune(&mut out, before);
            }
        }
        before = rune;
    }
    push_rune(&mut out, before);
    out
}

/// What a word is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Invalid,
    Number,
    Upper,
    Alphabet,
    Connector,
    Punctuation,
    Other,
}

/// The next valid rune, with its length and that of the invalid bytes before it; `before` if there is none.
fn next_valid(text: &[u8], before: char) -> (char, usize) {
    let mut at = 0;
    while at < text.len() {
        let (rune, width) = decode_rune(text.get(at..).unwrap_or_default());
        at += width;
        if rune != RUNE_ERROR {
            return (rune, at);
        }
    }
    (before, at)
}

/// Where a run of runes ends that `belongs` accepts, and the last rune that was read.
fn run(text: &[u8], mut at: usize, first: char, belongs: impl Fn(char) -> bool) -> (usize, char) {
    let mut rune = first;
    while at < text.len() {
        let (next, width) = next_valid(text.get(at..).unwrap_or_default(), rune);
        rune = next;
        if !belongs(rune) {
            break;
        }
        at += width;
    }
    (at, rune)
}

/// The kind and the length of the word that a text begins with.
fn word(text: &[u8]) -> (Kind, usize) {
    let (rune, width) = next_valid(text, RUNE_ERROR);
    let is_small = |rune: char| is_alphabet(rune) && !is_upper(rune);
    let all = |kind, belongs: &dyn Fn(char) -> bool| (kind, run(text, width, rune, belongs).0);
    match rune {
        RUNE_ERROR => (Kind::Invalid, width),
        rune if is_connector(rune) => all(Kind::Connector, &is_connector),
        rune if is_punctuation(rune) => all(Kind::Punctuation, &is_punctuation),
        rune if is_upper(rune) => (Kind::Upper, capitals(text, rune, width)),
        rune if is_alphabet(rune) => all(Kind::Alphabet, &is_small),
        rune if is_number(rune) => all(Kind::Number, &is_number),
        _ => all(Kind::Other, &|rune| {
            !is_connector(rune) && !is_alphabet(rune) && !is_number(rune) && !is_punctuation(rune)
        }),
    }
}

/// The length of a word that begins with a capital: of `HTTPStatus` it is `HTTP`, of `Status` the whole.
fn capitals(text: &[u8], first: char, width: usize) -> usize {
    if width >= text.len() {
        return width;
    }
    let (second, _) = next_valid(text.get(width..).unwrap_or_default(), first);
    if !is_upper(second) {
        let is_small = |rune: char| is_alphabet(rune) && !is_upper(rune);
        return run(text, width, first, is_small).0;
    }
    let (end, rune) = run(text, width, first, is_upper);
    if end >= text.len() || !is_alphabet(rune) {
        return end;
    }
    // The last capital begins the next word.
    let mut at = width;
    loop {
        let (_, width) = next_valid(text.get(at..).unwrap_or_default(), first);
        if at + width >= end {
            return at;
        }
        at += width;
    }
}

/// `ToSnakeCase` and `ToKebabCase`.
fn lower_words(text: &[u8], connector: char) -> Vec<u8> {
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (kind, length) = word(rest);
        let (word, behind) = rest.split_at(length);
        words.push((kind, word));
        rest = behind;
    }
    let mut joiner = Joiner {
        words,
        at: 0,
        connector,
        out: Vec::new(),
    };
    while joiner.at + 1 < joiner.words.len() {
        joiner.step();
    }
    joiner.write(joiner.at);
    joiner.out
}

struct Joiner<'t> {
    words: Vec<(Kind, &'t [u8])>,
    at: usize,
    connector: char,
    out: Vec<u8>,
}

impl Joiner<'_> {
    fn kind(&self) -> Kind {
        self.words.get(self.at).map_or(Kind::Invalid, |(kind, _)| *kind)
    }

    fn write(&mut self, at: usize) {
        let Some((kind, word)) = self.words.get(at).copied() else {
            return;
        };
        if !matches!(kind, Kind::Upper | Kind::Connector) {
            return self.out.extend_from_slice(word);
        }
        for (_, rune, _) in crate::text::runes(word) {
            let rune = if is_connector(rune) { self.connector } else { rune };
            push_rune(&mut self.out, if is_upper(rune) { lower(rune) } else { rune });
        }
    }

    /// A connector before a word that is neither one itself nor punctuation.
    fn connect(&mut self, even_if_invalid: bool) {
        let kind = self.kind();
        let joins = !matches!(kind, Kind::Connector | Kind::Punctuation);
        if joins && (even_if_invalid || kind != Kind::Invalid) {
            push_rune(&mut self.out, self.connector);
        }
    }

    /// Numbers and small letters belong to the number before them.
    fn write_number_tail(&mut self) {
        while matches!(self.kind(), Kind::Alphabet | Kind::Number) {
            self.write(self.at);
            self.at += 1;
        }
        self.connect(false);
    }

    fn step(&mut self) {
        let (kind, word) = (self.kind(), self.at);
        self.write(word);
        self.at += 1;
        match kind {
            Kind::Number => self.write_number_tail(),
            Kind::Connector | Kind::Punctuation => {}
            _ if self.kind() != Kind::Number => self.connect(true),
            _ if self.at + 1 >= self.words.len() => {}
            _ => {
                let number = self.at;
                self.at += 1;
                // `Bld4Floor` is `bld4_floor`, but `HTTP2xx` is `http_2xx`.
                if self.kind() == Kind::Alphabet {
                    push_rune(&mut self.out, self.connector);
                    self.write(number);
                    self.write_number_tail();
                } else {
                    self.write(number);
                    self.connect(true);
                }
            }
        }
    }
}
