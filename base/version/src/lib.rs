//! Versions and constraints, as in Masterminds/semver 3.4, which Helm and Sprig use and which is looser than the standard:
//! `v1.2` is a version, and `1.x` a constraint. The error texts are its own. Nothing here knows charts.

mod constraint;

pub use constraint::{Constraint, ConstraintError};

use std::cmp::Ordering;
use std::fmt;

/// A version. Two that differ only in what follows a plus are equal.
#[derive(Clone, Debug)]
pub struct Version {
    /// Major, minor, patch
    pub numbers: [u64; 3],
    /// What follows the dash, empty if there is none
    pub pre_release: String,
    /// What follows the plus, empty if there is none
    pub metadata: String,
}

/// Why a text is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VersionError {
    /// It does not look like one
    #[error("invalid semantic version")]
    Form,
    /// A number has more than 64 bits
    #[error("error parsing version segment: strconv.ParseUint: parsing {0:?}: value out of range")]
    Number(String),
    /// A number behind the dash begins with a zero
    #[error("version segment starts with 0")]
    Zero,
}

/// Whether `text` is a version.
pub fn is_version(text: &str) -> bool {
    Version::read(text).is_ok()
}

/// Whether `version` is one that `constraint` allows: Helm's `IsCompatibleRange`.
pub fn is_compatible(constraint: &str, version: &str) -> bool {
    match (Constraint::read(constraint), Version::read(version)) {
        (Ok(constraint), Ok(version)) => constraint.allows(&version),
        _ => false,
    }
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

impl Version {
    /// Reads a version: `NewVersion`.
    ///
    /// # Errors
    /// The text is none.
    pub fn read(text: &str) -> Result<Self, VersionError> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, metadata) = split(text, '+');
        let (core, pre_release) = split(text, '-');
        let parts: Vec<&str> = core.split('.').collect();
        let has_form = |text: &str| text.split('.').all(is_identifier);
        let fits = parts.len() <= 3
            && parts.iter().all(|part| is_number(part))
            && [metadata, pre_release].into_iter().flatten().all(has_form);
        if !fits {
            return Err(VersionError::Form);
        }
        let mut numbers = [0; 3];
        for (number, part) in numbers.iter_mut().zip(parts) {
            *number = part.parse().map_err(|_| VersionError::Number(part.to_owned()))?;
        }
        let leads_with_zero = |part: &str| is_number(part) && part.len() > 1 && part.starts_with('0');
        if pre_release.is_some_and(|text| text.split('.').any(leads_with_zero)) {
            return Err(VersionError::Zero);
        }
        Ok(Self {
            numbers,
            pre_release: pre_release.unwrap_or_default().to_owned(),
            metadata: metadata.unwrap_or_default().to_owned(),
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        for (mark, text) in [('-', &self.pre_release), ('+', &self.metadata)] {
            if !text.is_empty() {
                write!(f, "{mark}{text}")?;
            }
        }
        Ok(())
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_pre_release = || match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) => compare_pre_releases(&self.pre_release, &other.pre_release),
        };
        self.numbers.cmp(&other.numbers).then_with(by_pre_release)
    }
}

/// Part by part; numbers come before words.
fn compare_pre_releases(left: &str, right: &str) -> Ordering {
    let compare = |(left, right): (&str, &str)| match (left.parse::<u64>(), right.parse::<u64>()) {
        (Ok(left), Ok(right)) => left.cmp(&right),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => left.cmp(right),
    };
    let parts = left.split('.').zip(right.split('.'));
    let differs = parts.map(compare).find(|order| order.is_ne());
    differs.unwrap_or_else(|| left.split('.').count().cmp(&right.split('.').count()))
}

fn split(text: &str, at: char) -> (&str, Option<&str>) {
    text.split_once(at)
        .map_or((text, None), |(before, after)| (before, Some(after)))
}

#[cfg(test)]
mod tests {
    use super::{Constraint, Version, is_compatible};

    #[test]
    fn invalid_version_reports_its_reason() {
        let result = |text: &str| Version::read(text).map_or_else(|why| why.to_string(), |version| version.to_string());
        assert_eq!(result("v1.2"), "1.2.0");
        assert_eq!(result("1.2.3-rc.1+b.2"), "1.2.3-rc.1+b.2");
        assert_eq!(result("1.2.3.4"), "invalid semantic version");
        assert_eq!(result("1.0.0-01"), "version segment starts with 0");
        assert!(result("99999999999999999999").ends_with("\"99999999999999999999\": value out of range"));
    }

    #[test]
    fn versions_are_ordered_and_pre_releases_precede_their_release() {
        let texts = [
            "1.0.0-1",
            "1.0.0-2",
            "1.0.0-a",
            "1.0.0-a.1",
            "1.0.0",
            "1.0.1",
            "1.1.0",
            "2.0.0",
        ];
        let versions: Vec<Version> = texts.iter().filter_map(|text| Version::read(text).ok()).collect();
        assert_eq!(versions.len(), texts.len());
        assert!(versions.is_sorted_by(|left, right| left < right));
    }

    #[test]
    fn a_constraint_allows_what_it_names() {
        assert!(is_compatible("^1.2 || 3.x", "1.9.0") && is_compatible("1.2 - 1.4", "1.4.9"));
        assert!(!is_compatible("^1.2", "1.9.0-rc.1") && is_compatible("^1.2-0", "1.9.0-rc.1"));
        let why = Constraint::read("one").expect_err("it is none").to_string();
        assert_eq!(why, "improper constraint: one");
    }
}
