//! Limits that keep hostile schemas and objects from costing more than they are worth, each with its reason, and the
//! compiled pattern that obeys them. Nothing here reads an object.

use std::fmt;

use regex::{Regex, RegexBuilder};

/// Deepest field tree. Published CRDs stay below 40; each level costs stack in every walk.
pub const DEPTH_MAX: usize = 100;

/// Most nodes in one tree. The largest published CRDs have about 30 000.
pub const NODES_MAX: usize = 200_000;

/// Largest schema document in bytes, as it is stored: etcd's default limit for one object is 1.5 MB, the API server's
/// request limit 3 MB.
pub const SCHEMA_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Memory that one compiled pattern may take, in bytes. Regexes that need more are repetitions of repetitions.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Errors reported for one object; more would not be read by anyone.
pub const ERRORS_MAX: usize = 100;

/// A compiled `pattern`, matched anywhere in the text as JSON Schema says. Matching time is linear in the text.
#[derive(Clone)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compile; the error says why the pattern is refused.
    pub fn new(source: &str) -> Result<Self, String> {
        RegexBuilder::new(source)
            .size_limit(PATTERN_BYTES_MAX)
            .build()
            .map(Self)
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => "the compiled pattern is too large".to_owned(),
                other => other
                    .to_string()
                    .lines()
                    .last()
                    .unwrap_or("does not parse")
                    .trim()
                    .to_owned(),
            })
    }

    /// True when the text contains a match.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.0.as_str())
    }
}
