//! Text that fits: columns counted as terminals count them, cut or broken where there is no room. Pure.

use std::time::Duration;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// The columns that `text` takes.
#[must_use]
pub(crate) fn columns(text: &str) -> usize {
    text.width()
}

/// Without anything that a terminal would obey: names and errors come from elsewhere.
#[must_use]
pub(crate) fn tame(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|letter: char| letter.is_control() || letter.is_whitespace())
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}

/// At most `room` columns of `text`; where something had to go, it ends in `mark`.
#[must_use]
pub(crate) fn cut(text: &str, room: usize, mark: &str) -> String {
    if columns(text) <= room {
        return text.to_owned();
    }
    let mark = if columns(mark) <= room { mark } else { "" };
    let (head, _) = split_at_columns(text, room - columns(mark));
    format!("{}{mark}", head.trim_end())
}

/// `text` in lines of at most `room` columns, broken at spaces; no more than `lines_max`, the last one cut.
#[must_use]
pub(crate) fn broken(text: &str, room: usize, lines_max: usize, mark: &str) -> Vec<String> {
    let room = room.max(1);
    let mut lines = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if lines.len() + 1 >= lines_max || columns(rest) <= room {
            lines.push(cut(rest, room, mark));
            break;
        }
        let (line, _) = split_at_columns(rest, room.saturating_add(1));
        let at = match line.rfind(' ') {
            Some(at) if at > 0 => at,
            _ => split_at_columns(rest, room).0.len().max(first_len(rest)),
        };
        lines.push(rest[..at].trim_end().to_owned());
        rest = rest[at..].trim_start();
    }
    lines
}

fn first_len(text: &str) -> usize {
    text.chars().next().map_or(0, char::len_utf8)
}

fn split_at_columns(text: &str, room: usize) -> (&str, &str) {
    let mut taken = 0;
    for (at, letter) in text.char_indices() {
        taken += letter.width().unwrap_or_default();
        if taken > room {
            return text.split_at(at);
        }
    }
    (text, "")
}

/// A time as people read it: `0.42 s`, `12.3 s`, `4 min 05 s`.
#[must_use]
pub(crate) fn seconds(time: Duration) -> String {
    let whole = time.as_secs();
    // Rounded as it will be printed, so that 9.996 s does not become "10.00 s".
    let hundredths = (time.as_millis() + 5) / 10;
    let tenths = (time.as_millis() + 50) / 100;
    if hundredths < 1000 {
        format!("{}.{:02} s", hundredths / 100, hundredths % 100)
    } else if tenths < 600 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_count_twice_and_are_never_halved() {
        assert_eq!(columns("日本"), 4);
        assert_eq!(cut("日本語", 5, "…"), "日本…");
        assert_eq!(cut("日本語", 4, "…"), "日…");
        assert_eq!(cut("abc", 3, "…"), "abc");
        assert_eq!(cut("abcd", 2, "..."), "ab");
        assert_eq!(cut("abcd", 0, "…"), "");
    }

    #[test]
    fn lines_break_at_spaces_and_long_words_anywhere() {
        assert_eq!(broken("one two three", 7, 9, "…"), ["one two", "three"]);
        assert_eq!(broken("abcdefgh ij", 4, 9, "…"), ["abcd", "efgh", "ij"]);
        assert_eq!(broken("one two three four", 7, 2, "…"), ["one two", "three…"]);
        assert_eq!(broken("日本", 1, 9, "…"), ["日", "本"]);
        assert!(broken("  ", 7, 2, "…").is_empty());
    }

    #[test]
    fn what_a_terminal_would_obey_is_taken_out() {
        assert_eq!(tame("a\u{1b}[2Jb\r\n  c\u{9b}1m"), "a [2Jb c 1m");
    }

    #[test]
    fn times_are_rounded_before_their_form_is_chosen() {
        let printed = |millis| seconds(Duration::from_millis(millis));
        assert_eq!(
            [
                printed(0),
                printed(424),
                printed(9_994),
                printed(9_996),
                printed(59_949),
                printed(59_951),
                printed(245_000)
            ],
            [
                "0.00 s",
                "0.42 s",
                "9.99 s",
                "10.0 s",
                "59.9 s",
                "0 min 59 s",
                "4 min 05 s"
            ]
        );
    }
}
