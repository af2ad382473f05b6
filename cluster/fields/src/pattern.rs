//! Regular expressions as Go reads them, compiled within limits on memory and time, for they come from hostile schemas. Nothing
//! here reads an object.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use base_go::regex::ReadError;
use regex::{Regex, RegexBuilder};

/// Memory that one compiled pattern may take, in bytes. Regexes that need more are repetitions of repetitions.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Memory that all patterns of one schema may take, in bytes, so that compiling them takes no longer than reading the
/// rest. The published CRDs with most patterns have some hundred different ones of a few kilobytes.
const PATTERNS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a pattern that is refused as too large counts as, in bytes: more than it can have taken, as the schema is refused
/// anyway. So eight get an error each, and nothing is compiled after them.
const PATTERN_REFUSED_BYTES: usize = PATTERNS_BYTES_MAX / 8;

/// What a pattern counts as, in bytes: the first of these that suffices.
const PATTERN_SIZES: [usize; 4] = [16 * 1024, 64 * 1024, 256 * 1024, PATTERN_BYTES_MAX];

/// A compiled `pattern`, matched anywhere in the text as JSON Schema says. Matching time is linear in the text.
#[derive(Clone)]
pub struct Pattern {
    source: Arc<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern as Go reads it.
    ///
    /// # Errors
    /// Go cannot parse it, or it takes more memory than one pattern may.
    pub fn new(source: &str) -> Result<Self, PatternError> {
        build(&read(source)?.text, source, PATTERN_BYTES_MAX)
    }

    /// True when the text contains a match.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The texts that match, from the left, without overlap, at most so many.
    pub fn find_all(&self, text: &str, most: usize) -> Vec<String> {
        let found = self.regex.find_iter(text).take(most);
        found.map(|found| found.as_str().to_owned()).collect()
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

/// Why a pattern was not compiled.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Go cannot parse it; the error is Go's.
    #[error("{0}")]
    Syntax(String),
    /// It is too large by itself.
    #[error("the compiled pattern is too large")]
    Large,
    /// It needs more than the patterns before it have left.
    #[error("together with the patterns before it, it is too large: at most {} MiB are allowed", PATTERNS_BYTES_MAX >> 20)]
    LargeTogether,
}

/// The patterns of one schema, each of which is compiled or refused once.
#[derive(Default)]
pub struct Patterns {
    known: HashMap<String, Result<Pattern, PatternError>>,
    bytes: usize,
}

impl Patterns {
    /// As [`Pattern::new`], within the memory that the schema has left.
    ///
    /// # Errors
    /// As [`Pattern::new`], or the patterns of the schema take too much memory together.
    pub fn compile(&mut self, source: &str) -> Result<Pattern, PatternError> {
        if let Some(known) = self.known.get(source) {
            return known.clone();
        }
        let compiled = read(source).and_then(|read| self.compile_metered(&read.text, source));
        self.known.insert(source.to_owned(), compiled.clone());
        compiled
    }

    /// Compiles a new one. Its number of instructions ([`base_go::regex::Pattern::size`]) is no measure by which to refuse it
    /// before: `\pL` is one that takes kilobytes, and the thousands in `a|b|c|...` become one.
    fn compile_metered(&mut self, spelled: &str, source: &str) -> Result<Pattern, PatternError> {
        let mut refused = PatternError::Large;
        for size in PATTERN_SIZES {
            if self.bytes.saturating_add(size) > PATTERNS_BYTES_MAX {
                refused = PatternError::LargeTogether;
                break;
            }
            if let Ok(pattern) = build(spelled, source, size) {
                self.bytes += size;
                return Ok(pattern);
            }
        }
        self.bytes = self.bytes.saturating_add(PATTERN_REFUSED_BYTES);
        Err(refused)
    }
}

/// The error of Go for a pattern that it cannot parse. Nothing is compiled.
pub fn pattern_syntax_error(source: &str) -> Option<String> {
    match read(source) {
        Err(PatternError::Syntax(why)) => Some(why),
        _ => None,
    }
}

/// A pattern in the notation of Rust's library.
fn read(source: &str) -> Result<base_go::regex::Pattern, PatternError> {
    base_go::regex::read(source.as_bytes()).map_err(|why| match why {
        ReadError::Syntax(why) => PatternError::Syntax(why),
        ReadError::Limit => PatternError::Large,
    })
}

fn build(spelled: &str, source: &str, bytes_max: usize) -> Result<Pattern, PatternError> {
    let regex = RegexBuilder::new(spelled).size_limit(bytes_max).build();
    Ok(Pattern {
        source: source.into(),
        // What has been read is refused for its size alone.
        regex: regex.map_err(|_| PatternError::Large)?,
    })
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.source)
    }
}

#[cfg(test)]
mod tests {
    use super::{PATTERN_REFUSED_BYTES, PATTERN_SIZES, PATTERNS_BYTES_MAX, Pattern, PatternError, Patterns};

    /// Too large by itself, and another one for each number.
    fn large(number: usize) -> String {
        format!(r"\pL{{999}}{number}")
    }

    #[test]
    fn refused_patterns_are_cached_and_use_up_the_memory_of_the_schema() {
        let mut patterns = Patterns::default();
        assert!(patterns.compile("good").is_ok());
        let mut refused = 0;
        while patterns.compile(&large(refused)).err() == Some(PatternError::Large) {
            refused += 1;
            let bytes = patterns.bytes;
            assert_eq!(patterns.compile(&large(0)).err(), Some(PatternError::Large));
            assert_eq!(patterns.bytes, bytes, "a known pattern is not metered again");
            assert!(
                bytes <= PATTERNS_BYTES_MAX + PATTERN_REFUSED_BYTES,
                "refused patterns are metered"
            );
        }
        assert!(
            (1..=PATTERNS_BYTES_MAX / PATTERN_REFUSED_BYTES).contains(&refused),
            "{refused}"
        );
        // There is not even room for a small one: none is tried.
        assert_eq!(patterns.compile("new").err(), Some(PatternError::LargeTogether));
        assert!(patterns.compile("good").is_ok());
        assert!(matches!(patterns.compile("["), Err(PatternError::Syntax(_))));
    }

    #[test]
    fn a_pattern_beyond_the_memory_left_is_refused_and_metered() {
        let mut patterns = Patterns {
            bytes: PATTERNS_BYTES_MAX - PATTERN_SIZES[0],
            ..Patterns::default()
        };
        assert_eq!(patterns.compile(&large(0)).err(), Some(PatternError::LargeTogether));
        assert_eq!(patterns.compile("small").err(), Some(PatternError::LargeTogether));
    }

    #[test]
    fn patterns_are_read_as_go_reads_them() {
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
            // Letters, digits and blanks behind a backslash are those of ASCII, and a brace that counts nothing is a brace.
            (r"^\d\w\s$", "1a ", "٣a "),
            (r"^a\b", "aé", "ab"),
            ("^{{.*}}$", "{{a}}", "{a}"),
            ("^a{,2}$", "a{,2}", "aa"),
            (r"^\Qa.b\E+$", "a.bb", "aabb"),
            (r"^\101\07$", "A\u{7}", "101"),
            ("(?i)^[^k]$", "a", "\u{212A}"),
        ] {
            let pattern = Pattern::new(source).unwrap_or_else(|why| panic!("{source}: {why}"));
            assert_eq!((pattern.matches(good), pattern.matches(bad)), (true, false), "{source}");
            assert_eq!(pattern.as_str(), source);
        }
        for source in [
            "[", "[]", "a[b", r"[\", "[z-a]", "[a--b]", r"[a\", "[[:", "a{1001}", "(?=a)", r"\C",
        ] {
            let refused = Pattern::new(source);
            assert!(matches!(refused, Err(PatternError::Syntax(_))), "{source}: {refused:?}");
        }
    }
}
