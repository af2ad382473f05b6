//! Constraints: comparisons that all hold, and alternatives of these.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::Version;

/// Longest constraint that is read: it is one line of Chart.yaml.
const CONSTRAINT_BYTES_MAX: usize = 1024;

/// What a version has to be.
#[derive(Clone, Debug)]
pub struct Constraint(Vec<Vec<Comparison>>);

/// Why a text is no constraint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConstraintError {
    /// It does not look like one
    #[error("improper constraint: {0}")]
    Form(String),
    /// A version in it is none
    #[error("constraint parser error")]
    Version,
    /// It is longer than what is read
    #[error("constraint is longer than {CONSTRAINT_BYTES_MAX} bytes")]
    Length,
}

/// The patterns of constraints.
struct Patterns {
    one: Regex,
    range: Regex,
    find: Regex,
    valid: Regex,
}

static PATTERNS: LazyLock<Option<Patterns>> = LazyLock::new(|| {
    let version = r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
    // Go's white space is ASCII's.
    let new = |form: String| Regex::new(&form.replace(r"\s", r"[\t\n\f\r ]")).ok();
    let operator = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
    Some(Patterns {
        one: new(format!(r"^\s*({operator})\s*({version})\s*$"))?,
        range: new(format!(r"\s*({version})\s+-\s+({version})\s*"))?,
        find: new(format!(r"({operator})\s*({version})"))?,
        valid: new(format!(
            r"^(\s*({operator})\s*({version})\s*)((?:\s+|,\s*)({operator})\s*({version})\s*)*$"
        ))?,
    })
});

/// One comparison, with what is left open in its version.
#[derive(Clone, Debug)]
struct Comparison {
    operator: String,
    version: Version,
    any_minor: bool,
    any_patch: bool,
    /// Any number is left open
    open: bool,
}

impl Constraint {
    /// Reads a constraint: `NewConstraint`.
    ///
    /// # Errors
    /// The text is none, or longer than 1,024 bytes.
    pub fn read(text: &str) -> Result<Self, ConstraintError> {
        let wrong = |text: &str| ConstraintError::Form(text.to_owned());
        let patterns = PATTERNS.as_ref().ok_or_else(|| wrong(text))?;
        if text.len() > CONSTRAINT_BYTES_MAX {
            return Err(ConstraintError::Length);
        }
        let text = patterns.range.replace_all(text, |found: &Captures<'_>| {
            let part = |at| found.get(at).map_or("", |part| part.as_str());
            format!(">= {}, <= {} ", part(1), part(11))
        });
        let alternatives = text.split("||").map(|alternative| {
            if !patterns.valid.is_match(alternative) {
                return Err(wrong(alternative));
            }
            let found = patterns.find.find_iter(alternative).map(|found| found.as_str());
            found
                .map(|one| Comparison::read(one, patterns).ok_or(ConstraintError::Version))
                .collect()
        });
        Ok(Self(alternatives.collect::<Result<_, _>>()?))
    }

    /// Whether a version is allowed. A pre-release is only where the alternative names one: `Check`.
    pub fn allows(&self, version: &Version) -> bool {
        self.0.iter().any(|all| {
            let with_pre = all.iter().any(|one| !one.version.pre_release.is_empty());
            (with_pre || version.pre_release.is_empty()) && all.iter().all(|one| one.allows(version))
        })
    }
}

impl Comparison {
    fn read(text: &str, patterns: &Patterns) -> Option<Self> {
        let parts = patterns.one.captures(text)?;
        let part = |at| parts.get(at).map_or("", |part| part.as_str());
        let is_open = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
        let any_major = is_open(part(3));
        let any_minor = !any_major && is_open(part(4));
        let any_patch = !any_major && !any_minor && is_open(part(5));
        let open = any_major || any_minor || any_patch;
        let version = match (any_major, any_minor, any_patch) {
            (true, _, _) => format!("0.0.0{}", part(6)),
            (_, true, _) => format!("{}.0.0{}", part(3), part(6)),
            (_, _, true) => format!("{}{}.0{}", part(3), part(4), part(6)),
            _ => part(2).to_owned(),
        };
        Some(Self {
            operator: part(1).to_owned(),
            version: Version::read(&version).ok()?,
            any_minor,
            any_patch,
            open,
        })
    }

    fn allows(&self, version: &Version) -> bool {
        let order = version.cmp(&self.version);
        match self.operator.as_str() {
            "!=" => self.differs(version),
            ">" => self.is_below(version, order),
            "<" => order.is_lt(),
            ">=" | "=>" => order.is_ge(),
            "<=" | "=<" => self.is_not_below(version, order),
            "~" | "~>" => self.tilde(version, order),
            "^" => self.caret(version, order),
            _ if self.open => self.tilde(version, order),
            _ => order.is_eq(),
        }
    }

    fn differs(&self, version: &Version) -> bool {
        let [major, minor, _] = version.numbers;
        let [own_major, own_minor, _] = self.version.numbers;
        if !self.open {
            return *version != self.version;
        }
        if major != own_major {
            return true;
        }
        if self.any_minor {
            return false;
        }
        if minor != own_minor {
            return true;
        }
        if self.any_patch {
            return version.pre_release != self.version.pre_release;
        }
        *version != self.version
    }

    fn is_below(&self, version: &Version, order: Ordering) -> bool {
        let [major, minor, _] = version.numbers;
        let [own_major, own_minor, _] = self.version.numbers;
        match self.open {
            false => order.is_gt(),
            true if major != own_major => major > own_major,
            true if self.any_minor => false,
            true if self.any_patch => minor > own_minor,
            true => order.is_gt(),
        }
    }

    fn is_not_below(&self, version: &Version, order: Ordering) -> bool {
        let [major, minor, _] = version.numbers;
        let [own_major, own_minor, _] = self.version.numbers;
        match self.open {
            false => order.is_le(),
            true => major < own_major || major == own_major && (self.any_minor || minor <= own_minor),
        }
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let [major, minor, _] = version.numbers;
        let [own_major, own_minor, _] = self.version.numbers;
        let any = self.version.numbers == [0; 3] && !self.any_minor && !self.any_patch;
        order.is_ge() && (any || major == own_major && (self.any_minor || minor == own_minor))
    }

    fn caret(&self, version: &Version, order: Ordering) -> bool {
        let [major, minor, patch] = version.numbers;
        let [own_major, own_minor, own_patch] = self.version.numbers;
        if order.is_lt() || major != own_major {
            return false;
        }
        if own_major > 0 || self.any_minor {
            return true;
        }
        minor == own_minor && (own_minor > 0 || self.any_patch || patch == own_patch)
    }
}
