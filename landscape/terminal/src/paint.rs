//! Lines with meaning and, only at the very end, colour.

use std::fmt::Write;

use super::text::{columns, cut};

/// What a piece of a line means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Paint {
    /// Nothing special.
    Normal,
    /// What matters most.
    Strong,
    /// What matters least.
    Faint,
    /// Work under way.
    Active,
    /// Done.
    Good,
    /// Wrong, but it may pass.
    Uneasy,
    /// Wrong.
    Bad,
}

impl Paint {
    /// The escape sequence's parameter; colours of the terminal's own palette.
    fn parameter(self) -> Option<&'static str> {
        match self {
            Self::Normal => None,
            Self::Strong => Some("1"),
            Self::Faint => Some("2"),
            Self::Active => Some("36"),
            Self::Good => Some("32"),
            Self::Uneasy => Some("33"),
            Self::Bad => Some("31"),
        }
    }
}

/// One line: pieces from left to right.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Line(Vec<(Paint, String)>);

impl Line {
    /// The same line with a piece at its end.
    #[must_use]
    pub fn with(mut self, paint: Paint, text: impl Into<String>) -> Self {
        self.0.push((paint, text.into()));
        self
    }

    /// The columns it takes.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.0.iter().map(|(_, text)| columns(text)).sum()
    }

    /// As plain text.
    #[must_use]
    pub fn text(&self) -> String {
        self.0.iter().map(|(_, text)| text.as_str()).collect()
    }

    /// At most `room` columns of it.
    #[must_use]
    pub(crate) fn cut(self, room: usize, mark: &str) -> Self {
        if self.columns() <= room {
            return self;
        }
        let mut left = room;
        let mut line = Self::default();
        for (paint, text) in self.0 {
            let whole = columns(&text);
            if whole < left {
                left -= whole;
                line = line.with(paint, text);
            } else {
                // Something follows or does not fit: what is left of this piece ends in the mark.
                return line.with(paint, cut(&format!("{text}  "), left, mark));
            }
        }
        line
    }

    /// For a terminal.
    #[must_use]
    pub fn ansi(&self, colour: bool) -> String {
        if !colour {
            return self.text();
        }
        let mut out = String::new();
        for (paint, text) in &self.0 {
            match paint.parameter() {
                Some(parameter) => {
                    let _ = write!(out, "\x1b[{parameter}m{text}\x1b[0m");
                }
                None => out.push_str(text),
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_within_the_piece_that_is_too_long() {
        let line = Line::default().with(Paint::Good, "abc").with(Paint::Bad, "defg");
        assert_eq!(line.clone().cut(7, "…"), line);
        assert_eq!(line.clone().cut(5, "…").text(), "abcd…");
        assert_eq!(line.cut(3, "…").text(), "ab…");
    }

    #[test]
    fn without_colour_nothing_but_text_is_written() {
        let line = Line::default().with(Paint::Normal, "a").with(Paint::Bad, "b");
        assert_eq!(line.ansi(false), "ab");
        assert_eq!(line.ansi(true), "a\x1b[31mb\x1b[0m");
    }
}
