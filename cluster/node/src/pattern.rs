//! Patterns over image references, as people write them into a file of images. Pure.

use std::fmt;

use crate::image_name;

/// A pattern over image references: `*` stands for any letters within one part of the path, `**` for any at all. Without a
/// tag it matches every tag and digest; without a `/` it is compared with the image's name alone, whatever its registry.
#[derive(Clone, PartialEq, Eq)]
pub struct ReferencePattern {
    text: String,
    tokens: Vec<Token>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Letter(char),
    /// Any letters but `/`.
    Star,
    /// Any letters.
    Stars,
}

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// It would match nothing.
    #[error("an image pattern is empty; name an image, as in example.org/acme/*")]
    Empty,
    /// A part of the path is missing, so that it would match nothing.
    #[error("an image pattern has an empty part; write it as in example.org/acme/*")]
    Part,
    /// No reference has this letter.
    #[error("{letter:?} stands in no image reference; allowed are letters, digits and any of . _ - / : @ *")]
    Letter {
        /// The letter.
        letter: char,
    },
}

impl ReferencePattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// It is empty or a part of it is, or it has a letter that stands in no reference.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() {
            return Err(PatternError::Empty);
        }
        if text
            .split('/')
            .any(|part| part.is_empty() || part.starts_with([':', '@']))
        {
            return Err(PatternError::Part);
        }
        let mut tokens = Vec::new();
        for letter in text.chars() {
            match (letter, tokens.last()) {
                ('*', Some(Token::Star | Token::Stars)) => {
                    tokens.pop();
                    tokens.push(Token::Stars);
                }
                ('*', _) => tokens.push(Token::Star),
                _ if letter.is_ascii_alphanumeric() || "._-/:@".contains(letter) => tokens.push(Token::Letter(letter)),
                _ => return Err(PatternError::Letter { letter }),
            }
        }
        Ok(ReferencePattern {
            text: text.to_owned(),
            tokens,
        })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a full reference is one of its images.
    pub fn matches(&self, reference: &str) -> bool {
        let letters: Vec<Token> = self.compared(reference).chars().map(Token::Letter).collect();
        covers(&self.tokens, &letters)
    }

    /// Whether it names the image itself, without a wildcard.
    pub fn spells_name(&self) -> bool {
        let name = self.tokens.rsplit(|token| *token == Token::Letter('/')).next();
        let tag = |token: &Token| matches!(token, Token::Letter(':' | '@'));
        let mut name = name.unwrap_or_default().iter().take_while(|token| !tag(token));
        name.all(|token| matches!(token, Token::Letter(_)))
    }

    /// Whether every image of another pattern is one of its own, so that the other is never reached behind it. It may miss
    /// some that are, never the other way round.
    pub fn includes(&self, other: &Self) -> bool {
        match (self.is_bare(), other.is_bare()) {
            (false, true) => self.tokens == [Token::Stars],
            (true, false) => Self::parse(image_name(&other.text)).is_ok_and(|name| self.includes(&name)),
            _ => {
                let untagged = ReferencePattern {
                    text: String::new(),
                    tokens: without_tag(&other.tokens).to_vec(),
                };
                covers(&self.tokens, &other.tokens) || (!self.is_tagged() && covers(&self.tokens, &untagged.tokens))
            }
        }
    }

    /// The part of a reference that it is compared with.
    fn compared<'a>(&self, reference: &'a str) -> &'a str {
        let by_digest = self.text.contains('@');
        let undigested = reference.split_once('@').map_or(reference, |(path, _digest)| path);
        match (by_digest, self.is_tagged(), self.is_bare()) {
            (true, _, false) => reference,
            (true, _, true) => reference.rsplit_once('/').map_or(reference, |(_, last)| last),
            (false, true, false) => undigested,
            (false, true, true) => undigested.rsplit_once('/').map_or(undigested, |(_, last)| last),
            (false, false, true) => image_name(reference),
            (false, false, false) => {
                let last = undigested.rfind('/').map_or(0, |slash| slash + 1);
                undigested[last..]
                    .find(':')
                    .map_or(undigested, |colon| &undigested[..last + colon])
            }
        }
    }

    fn is_bare(&self) -> bool {
        !self.text.contains('/') && self.tokens != [Token::Stars]
    }

    /// Whether it has a tag or a digest.
    fn is_tagged(&self) -> bool {
        without_tag(&self.tokens).len() < self.tokens.len()
    }
}

/// The tokens before the tag or digest: a colon before the last slash belongs to a registry's port.
fn without_tag(tokens: &[Token]) -> &[Token] {
    let last = tokens
        .iter()
        .rposition(|token| *token == Token::Letter('/'))
        .map_or(0, |slash| slash + 1);
    let tag = tokens[last..]
        .iter()
        .position(|token| matches!(token, Token::Letter(':' | '@')));
    tag.map_or(tokens, |tag| &tokens[..last + tag])
}

/// Whether all that `what` stands for is matched by `pattern`; a wildcard in `what` only by a wildcard.
fn covers(pattern: &[Token], what: &[Token]) -> bool {
    // For each length of `what`, whether the pattern so far covers that much of it.
    let mut reached = vec![false; what.len() + 1];
    reached[0] = true;
    for token in pattern {
        let mut next = vec![false; what.len() + 1];
        match token {
            Token::Letter(_) => {
                for (at, letter) in what.iter().enumerate() {
                    next[at + 1] = reached[at] && letter == token;
                }
            }
            Token::Star | Token::Stars => {
                let takes = |letter: &Token| match letter {
                    Token::Letter('/') | Token::Stars => *token == Token::Stars,
                    _ => true,
                };
                next[0] = reached[0];
                for (at, letter) in what.iter().enumerate() {
                    next[at + 1] = reached[at + 1] || (next[at] && takes(letter));
                }
            }
        }
        reached = next;
    }
    reached[what.len()]
}

impl fmt::Debug for ReferencePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text)
    }
}

impl fmt::Display for ReferencePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> ReferencePattern {
        ReferencePattern::parse(text).unwrap()
    }

    #[test]
    fn a_pattern_matches_the_part_of_a_reference_that_it_names() {
        for (text, reference, matches) in [
            ("example.org/acme/*", "example.org/acme/manager", true),
            ("example.org/acme/*", "example.org/acme/manager:v1", true),
            ("example.org/acme/*", "example.org/acme/manager@sha256:00", true),
            ("example.org/acme/*", "example.org/acme/deep/manager", false),
            ("example.org/**", "example.org/acme/deep/manager:v1", true),
            ("**", "example.org/acme/deep/manager:v1", true),
            ("*", "example.org/acme/deep/manager:v1", true),
            ("example.org/acme/manager", "example.org/acme/manager2", false),
            ("example.org/acme/manager:v1", "example.org/acme/manager:v1", true),
            (
                "example.org/acme/manager:v1",
                "example.org/acme/manager:v1@sha256:00",
                true,
            ),
            ("example.org/acme/manager:v1*", "example.org/acme/manager:v1.2", true),
            ("example.org/acme/manager:v1", "example.org/acme/manager:v2", false),
            ("example.org/acme/manager:v1", "example.org/acme/manager", false),
            ("localhost:5000/manager", "localhost:5000/manager:v1", true),
            ("manager", "example.org/acme/manager:v1", true),
            ("manager", "manager", true),
            ("manager:v1", "example.org/acme/manager:v1", true),
            ("man*", "example.org/acme/manager:v1", true),
            ("manager", "example.org/manager/other", false),
        ] {
            assert_eq!(pattern(text).matches(reference), matches, "{text} {reference}");
        }
    }

    #[test]
    fn a_pattern_that_includes_another_leaves_nothing_to_it() {
        for (first, second, includes) in [
            ("example.org/acme/*", "example.org/acme/*", true),
            ("example.org/acme/*", "example.org/acme/manager", true),
            ("example.org/acme/*", "example.org/acme/manager:v1", true),
            ("example.org/acme/*:v1", "example.org/acme/manager", false),
            ("example.org/**", "example.org/acme/*", true),
            ("example.org/*", "example.org/acme/*", false),
            ("example.org/acme/m*", "example.org/acme/*", false),
            ("**", "manager", true),
            ("*", "example.org/acme/manager", true),
            ("manager", "example.org/acme/manager:v1", true),
            ("example.org/acme/manager", "manager", false),
        ] {
            assert_eq!(pattern(first).includes(&pattern(second)), includes, "{first} {second}");
        }
    }

    #[test]
    fn a_wildcard_in_the_name_spells_out_none() {
        for (text, spells) in [
            ("example.org/*/manager", true),
            ("manager", true),
            ("manager:v*", true),
            ("example.org/acme/man*", false),
            ("*", false),
            ("**", false),
            ("**/manager", true),
        ] {
            assert_eq!(pattern(text).spells_name(), spells, "{text}");
        }
    }

    #[test]
    fn patterns_that_match_no_image_reference_are_refused() {
        assert_eq!(ReferencePattern::parse(""), Err(PatternError::Empty));
        for text in ["/a", "a/", "a//b", "a/:v1"] {
            assert_eq!(ReferencePattern::parse(text), Err(PatternError::Part), "{text}");
        }
        for letter in [' ', '?', '[', 'ä'] {
            let error = ReferencePattern::parse(&format!("a{letter}")).unwrap_err();
            assert_eq!(error, PatternError::Letter { letter });
        }
    }
}
