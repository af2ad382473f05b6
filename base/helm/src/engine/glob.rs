//! Patterns for file names, as gobwas/glob 0.2.3 reads them with the separator `/`, for Helm's `.Files.Glob`.

use std::iter::Peekable;
use std::str::Chars;

use regex::Regex;

/// Whether `pattern` matches a name; an invalid pattern matches all.
pub(super) fn matcher(pattern: &str) -> impl Fn(&str) -> bool + use<> {
    let regex = Reader::new(pattern).read().and_then(|regex| Regex::new(&regex).ok());
    move |name| regex.as_ref().is_none_or(|regex| regex.is_match(name))
}

/// Makes a regular expression of a pattern.
struct Reader<'p> {
    rest: Peekable<Chars<'p>>,
    regex: String,
    /// How many braces are open
    open: usize,
}

impl<'p> Reader<'p> {
    fn new(pattern: &'p str) -> Self {
        Self {
            rest: pattern.chars().peekable(),
            regex: r"(?s)\A".to_owned(),
            open: 0,
        }
    }

    fn read(mut self) -> Option<String> {
        while let Some(character) = self.rest.next() {
            match character {
                '*' if self.rest.next_if_eq(&'*').is_some() => self.regex.push_str(".*"),
                '*' => self.regex.push_str("[^/]*"),
                '?' => self.regex.push_str("[^/]"),
                '[' => self.class()?,
                '{' => {
                    self.open += 1;
                    self.regex.push_str("(?:");
                }
                ',' if self.open > 0 => self.regex.push('|'),
                '}' if self.open > 0 => {
                    self.open -= 1;
                    self.regex.push(')');
                }
                '\\' => {
                    if let Some(escaped) = self.rest.next() {
                        self.literal(escaped);
                    }
                }
                other => self.literal(other),
            }
        }
        // An open brace ends with the pattern.
        self.regex.push_str(&")".repeat(self.open));
        self.regex.push_str(r"\z");
        Some(self.regex)
    }

    fn literal(&mut self, character: char) {
        self.regex.push_str(&regex::escape(character.encode_utf8(&mut [0; 4])));
    }

    /// `[abc]`, `[!abc]`, `[a-z]`: one range or some characters, never both.
    fn class(&mut self) -> Option<()> {
        let is_not = self.rest.next_if_eq(&'!').is_some();
        let first = self.rest.next()?;
        let mut members = String::new();
        if self.rest.next_if_eq(&'-').is_some() {
            let last = self.rest.next()?;
            if last < first || self.rest.next()? != ']' {
                return None;
            }
            members = format!("{}-{}", in_class(first), in_class(last));
        } else {
            let mut next = first;
            while next != ']' {
                let member = if next == '\\' { self.rest.next()? } else { next };
                members.push_str(&in_class(member));
                next = self.rest.next()?;
            }
        }
        if members.is_empty() {
            return None;
        }
        let not = if is_not { "^" } else { "" };
        self.regex.push_str(&format!("[{not}{members}]"));
        Some(())
    }
}

fn in_class(character: char) -> String {
    format!("\\x{{{:X}}}", u32::from(character))
}

#[cfg(test)]
mod tests {
    use super::matcher;

    #[test]
    fn a_pattern_matches_names_and_an_invalid_one_matches_all() {
        for (pattern, name, is_matched) in [
            ("a/*", "a/b", true),
            ("a/*", "a/b/c", false),
            ("a/**", "a/b/c", true),
            ("a/?", "a//", false),
            ("{a,b}.{yaml,json}", "b.json", true),
            ("{a,b", "b", true),
            ("[a-c]", "b", true),
            ("[!a-c]", "b", false),
            ("[^]", "^", true),
            (r"\*", "x", false),
            (r"a\", "a", true),
            ("a]}", "a]}", true),
            ("[", "anything", true),
            ("[]", "anything", true),
            ("[z-a]", "anything", true),
        ] {
            assert_eq!(matcher(pattern)(name), is_matched, "{pattern} {name}");
        }
    }

    #[test]
    fn deeply_nested_globs_terminate() {
        let nested = "{".repeat(100_000);
        assert!(matcher(&nested)("a"));
        assert!(!matcher(&"*a".repeat(5_000))(&"b".repeat(10_000)));
    }
}
