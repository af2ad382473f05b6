//! Patterns as Go reads them (Go 1.26 `regexp/syntax/parse.go`), spelled for Rust's library where both read the same text
//! otherwise: a class has no classes and no sets of sets in it, and `\<` is a character. It compiles nothing.

use std::iter::Peekable;
use std::str::Chars;

/// What Rust's library reads otherwise in a class than Go does.
const SPECIAL: [char; 6] = ['[', ']', '&', '~', '-', '^'];

/// The pattern for Rust's library. What is no pattern stays none.
pub(crate) fn spelled(source: &str) -> String {
    let mut speller = Speller {
        rest: source.chars().peekable(),
        made: String::with_capacity(source.len() + 8),
    };
    while let Some(c) = speller.rest.next() {
        match c {
            '\\' => {
                speller.escape();
            }
            '[' => speller.class(),
            c => speller.made.push(c),
        }
    }
    speller.made
}

struct Speller<'s> {
    rest: Peekable<Chars<'s>>,
    made: String,
}

impl Speller<'_> {
    fn take_if(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }

    /// What stands behind a backslash; true if that is a single character, which may begin a range.
    fn escape(&mut self) -> bool {
        let Some(c) = self.rest.next() else {
            self.made.push('\\');
            return false;
        };
        if !matches!(c, '<' | '>') {
            self.made.push('\\');
        }
        self.made.push(c);
        if matches!(c, 'p' | 'P' | 'x') && self.take_if('{') {
            self.made.push('{');
            for c in self.rest.by_ref() {
                self.made.push(c);
                if c == '}' {
                    break;
                }
            }
        } else if matches!(c, 'p' | 'P') {
            self.made.extend(self.rest.next());
        } else if c == 'x' {
            for _ in 0..2 {
                self.made.extend(self.rest.next_if(char::is_ascii_hexdigit));
            }
        }
        !matches!(c, 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P')
    }

    /// A class, behind its bracket.
    fn class(&mut self) {
        self.made.push('[');
        if self.take_if('^') {
            self.made.push('^');
        }
        let mut is_first = true;
        while let Some(c) = self.rest.next() {
            if c == ']' && !is_first {
                self.made.push(']');
                return;
            }
            is_first = false;
            if c == '[' && self.named() {
                continue;
            }
            if !self.character(c) {
                continue;
            }
            let mut ahead = self.rest.clone();
            if ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']') {
                self.rest.next();
                self.made.push('-');
                if let Some(c) = self.rest.next() {
                    self.character(c);
                }
            }
        }
    }

    /// A character of a class; false if it stands for several.
    fn character(&mut self, c: char) -> bool {
        if c == '\\' {
            return self.escape();
        }
        if SPECIAL.contains(&c) {
            self.made.push('\\');
        }
        self.made.push(c);
        true
    }

    /// A class like `[:alpha:]`, behind its bracket, if one begins there.
    fn named(&mut self) -> bool {
        let mut ahead = self.rest.clone();
        if ahead.next() != Some(':') {
            return false;
        }
        let mut name = String::new();
        while let Some(c) = ahead.next_if(|c| c.is_ascii_lowercase() || *c == '^') {
            name.push(c);
        }
        if (ahead.next(), ahead.next()) != (Some(':'), Some(']')) {
            return false;
        }
        self.made.push_str(&format!("[:{name}:]"));
        self.rest = ahead;
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::Pattern;

    #[test]
    fn classes_are_read_as_go_reads_them() {
        for (source, good, bad) in [
            (r"^[^[\]]+$", "ab", "a[b"),
            (r"^[a-z0-9._~:/?#[\]@!]+$", "a[b]~", "a b"),
            ("^a[b[c]d$", "a[d", "a]d"),
            ("^[a&&b]$", "&", "c"),
            ("^[a~~b]$", "~", "c"),
            ("^[a&&a-c]$", "b", "d"),
            ("^[+--]$", ",", "."),
            ("^[--/]$", ".", "0"),
            ("^[a-]$", "-", "b"),
            ("^[]a]$", "]", "b"),
            ("^[^]a]$", "b", "]"),
            ("^[a^]$", "^", "b"),
            (r"^[\d-z]$", "-", "a"),
            (r"^[\x41-\x43]$", "B", "D"),
            (r"^[\x{41}-\x{43}\pN]$", "1", "D"),
            (r"^[\p{Greek}-]$", "-", "a"),
            (r"^[\<\>]$", "<", "a"),
            (r"^\<a\>$", "<a>", "a"),
            ("^[[:alpha:]_[]$", "[", "1"),
            ("^[[:^alpha:]]$", "1", "a"),
            ("^[[:a]$", ":", "b"),
            ("^[[:a]]$", ":]", "a"),
            (r"^\[a&&b]$", "[a&&b]", "a"),
        ] {
            let pattern = Pattern::new(source).unwrap_or_else(|why| panic!("{source}: {why}"));
            assert_eq!((pattern.matches(good), pattern.matches(bad)), (true, false), "{source}");
            assert_eq!(pattern.as_str(), source);
        }
        for source in ["[", "[]", "a[b", r"[\", "[z-a]", "[a--b]", r"[a\", "[[:"] {
            assert!(Pattern::new(source).is_err(), "{source}");
        }
    }
}
