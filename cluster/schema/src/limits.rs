//! Limits that keep hostile schemas and objects from costing more than they are worth, each with its reason, and the
//! compiled pattern that obeys them. Nothing here reads an object.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use regex::{Regex, RegexBuilder};

use crate::go_pattern;

/// Deepest field tree. Published CRDs stay below 40; each level costs stack in every walk.
pub const DEPTH_MAX: usize = 100;

/// Most nodes in one tree. The largest published CRDs have about 30 000.
pub const NODES_MAX: usize = 200_000;

/// Largest schema document in bytes, as it is stored: etcd's default limit for one object is 1.5 MB, the API server's
/// request limit 3 MB.
pub const SCHEMA_BYTES_MAX: usize = 3 * 1024 * 1024;

/// Memory that one compiled pattern may take, in bytes. Regexes that need more are repetitions of repetitions.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Memory that all patterns of one schema may take, in bytes, so that compiling them takes no longer than reading the
/// rest. The published CRDs with most patterns have some hundred different ones of a few kilobytes.
const PATTERNS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// What a pattern is taken to need, in bytes: the first of these that suffices.
const PATTERN_SIZES: [usize; 4] = [16 * 1024, 64 * 1024, 256 * 1024, PATTERN_BYTES_MAX];

/// Errors reported for one object; more would not be read by anyone.
pub const ERRORS_MAX: usize = 100;

/// A compiled `pattern`, matched anywhere in the text as JSON Schema says. Matching time is linear in the text.
#[derive(Clone)]
pub struct Pattern {
    source: Arc<str>,
    regex: Regex,
}

impl Pattern {
    /// Compile what is written as Go reads it; the error says why the pattern is refused.
    pub fn new(source: &str) -> Result<Self, String> {
        build(source, PATTERN_BYTES_MAX).map_err(|error| refusal(&error))
    }

    /// True when the text contains a match.
    pub fn matches(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }

    /// The texts that match, from the left, without overlap, at most so many.
    pub(crate) fn find_all(&self, text: &str, most: usize) -> Vec<String> {
        let found = self.regex.find_iter(text).take(most);
        found.map(|found| found.as_str().to_owned()).collect()
    }

    /// The pattern as written.
    pub fn as_str(&self) -> &str {
        &self.source
    }
}

/// The patterns of one schema, which are compiled once each.
#[derive(Default)]
pub(crate) struct Patterns {
    compiled: HashMap<String, Pattern>,
    bytes: usize,
}

impl Patterns {
    /// As [`Pattern::new`], as long as there is room for another one.
    pub(crate) fn compile(&mut self, source: &str) -> Result<Pattern, String> {
        if let Some(pattern) = self.compiled.get(source) {
            return Ok(pattern.clone());
        }
        for size in PATTERN_SIZES {
            if self.bytes + size > PATTERNS_BYTES_MAX {
                return Err(format!(
                    "together with the patterns before it, it is too large: at most {} MiB are allowed",
                    PATTERNS_BYTES_MAX >> 20
                ));
            }
            match build(source, size) {
                Ok(pattern) => {
                    self.bytes += size;
                    self.compiled.insert(source.to_owned(), pattern.clone());
                    return Ok(pattern);
                }
                Err(regex::Error::CompiledTooBig(_)) if size < PATTERN_BYTES_MAX => {}
                Err(error) => return Err(refusal(&error)),
            }
        }
        Err("the compiled pattern is too large".to_owned())
    }
}

fn build(source: &str, bytes_max: usize) -> Result<Pattern, regex::Error> {
    let regex = RegexBuilder::new(&go_pattern::spelled(source))
        .size_limit(bytes_max)
        .build()?;
    let source = source.into();
    Ok(Pattern { source, regex })
}

fn refusal(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "the compiled pattern is too large".to_owned(),
        other => {
            let text = other.to_string();
            text.lines().last().unwrap_or("does not parse").trim().to_owned()
        }
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}/", self.source)
    }
}
