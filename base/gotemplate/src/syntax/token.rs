//! Tokens: what the lexer hands to the parser.

use crate::text::quote::quoted;
use crate::text::runes;

/// How much of a token an error shows.
const SHOWN: usize = 10;

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Error,
    Bool,
    /// Some other printable character
    Char,
    CharConstant,
    Complex,
    Assign,
    Declare,
    Eof,
    /// An identifier after a point
    Field,
    Identifier,
    LeftDelim,
    LeftParen,
    Number,
    Pipe,
    RawString,
    RightDelim,
    RightParen,
    Space,
    String,
    Text,
    Variable,
    // Keywords
    Block,
    Break,
    Continue,
    Dot,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl Kind {
    fn is_keyword(self) -> bool {
        matches!(
            self,
            Self::Block
                | Self::Break
                | Self::Continue
                | Self::Dot
                | Self::Define
                | Self::Else
                | Self::End
                | Self::If
                | Self::Nil
                | Self::Range
                | Self::Template
                | Self::With
        )
    }

    pub(super) fn of_word(word: &[u8]) -> Option<Self> {
        Some(match word {
            b"." => Self::Dot,
            b"block" => Self::Block,
            b"break" => Self::Break,
            b"continue" => Self::Continue,
            b"define" => Self::Define,
            b"else" => Self::Else,
            b"end" => Self::End,
            b"if" => Self::If,
            b"range" => Self::Range,
            b"nil" => Self::Nil,
            b"template" => Self::Template,
            b"with" => Self::With,
            _ => return None,
        })
    }
}

/// A token: what it is, where it begins, its text, and the line it begins on. The lexer has the message of an error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item<'t> {
    pub(super) kind: Kind,
    pub(super) at: usize,
    pub(super) text: &'t [u8],
    pub(super) line: usize,
}

impl Item<'_> {
    /// How an error shows the token.
    pub(super) fn shown(&self) -> String {
        match self.kind {
            Kind::Eof => "EOF".to_owned(),
            kind if kind.is_keyword() => format!("<{}>", self.word()),
            _ if self.text.len() > SHOWN => {
                let end = runes(self.text).nth(SHOWN).map_or(self.text.len(), |(at, ..)| at);
                format!("{}...", quoted(self.text.get(..end).unwrap_or_default()))
            }
            _ => quoted(self.text),
        }
    }

    /// The name of a field, which stands behind a point.
    pub(super) fn field_name(&self) -> String {
        let name = self.text.strip_prefix(b".").unwrap_or(self.text);
        String::from_utf8_lossy(name).into_owned()
    }

    /// The text.
    pub(super) fn word(&self) -> String {
        String::from_utf8_lossy(self.text).into_owned()
    }
}
