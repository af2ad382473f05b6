//! Versions of charts and what is asked of them, as Masterminds/semver 3.4 has it, which is looser than the standard: `v1.2`
//! is a version, and `1.x` a constraint.

use std::cmp::Ordering;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A constraint is not longer: it stands in one line of Chart.yaml.
const CONSTRAINT_BYTES_MAX: usize = 1024;

/// A version, or the one in a constraint.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Version {
    /// Major, minor, patch
    numbers: [u64; 3],
    pre_release: String,
}

/// Whether `text` is a version: `semver.NewVersion`.
pub(super) fn is_version(text: &str) -> bool {
    Version::read(text).is_some()
}

/// Whether `version` is one that `constraint` allows: `IsCompatibleRange` of Helm.
pub(crate) fn is_compatible(constraint: &str, version: &str) -> bool {
    let Some(version) = Version::read(version) else {
        return false;
    };
    is_allowed(constraint, &version).unwrap_or(false)
}

fn is_identifier(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn is_number(part: &str) -> bool {
    !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())
}

impl Version {
    fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let (text, build) = split(text, '+');
        let (core, pre_release) = split(text, '-');
        let mut numbers = [0; 3];
        for (at, number) in core.split('.').enumerate() {
            *numbers.get_mut(at)? = is_number(number).then(|| number.parse().ok())??;
        }
        let leads_with_zero = |part: &str| is_number(part) && part.len() > 1 && part.starts_with('0');
        let pre_release_fits = |text: &str| {
            text.split('.')
                .all(|part| is_identifier(part) && !leads_with_zero(part))
        };
        let fits =
            build.is_none_or(|build| build.split('.').all(is_identifier)) && pre_release.is_none_or(pre_release_fits);
        fits.then(|| Self {
            numbers,
            pre_release: pre_release.unwrap_or_default().to_owned(),
        })
    }
}

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

/// The forms of constraints.
struct Forms {
    one: Regex,
    range: Regex,
    find: Regex,
    valid: Regex,
}

static FORMS: LazyLock<Option<Forms>> = LazyLock::new(|| {
    let version = r"v?([0-9|xX*]+)(\.[0-9|xX*]+)?(\.[0-9|xX*]+)?(-([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(\.[0-9A-Za-z\-]+)*))?";
    let operator = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";
    let new = |form: String| Regex::new(&form).ok();
    Some(Forms {
        one: new(format!(r"^\s*({operator})\s*({version})\s*$"))?,
        range: new(format!(r"\s*({version})\s+-\s+({version})\s*"))?,
        find: new(format!(r"({operator})\s*({version})"))?,
        valid: new(format!(
            r"^(\s*({operator})\s*({version})\s*)((?:\s+|,\s*)({operator})\s*({version})\s*)*$"
        ))?,
    })
});

/// One comparison, with what is left open in its version.
struct Comparison {
    operator: String,
    version: Version,
    any_minor: bool,
    any_patch: bool,
    /// Any number is left open
    open: bool,
}

/// Nothing for what is no constraint.
fn is_allowed(constraint: &str, version: &Version) -> Option<bool> {
    let forms = FORMS.as_ref()?;
    if constraint.len() > CONSTRAINT_BYTES_MAX {
        return None;
    }
    let constraint = forms.range.replace_all(constraint, |found: &Captures<'_>| {
        let part = |at| found.get(at).map_or("", |part| part.as_str());
        format!(">= {}, <= {} ", part(1), part(11))
    });
    let mut allowed = false;
    for alternative in constraint.split("||") {
        if !forms.valid.is_match(alternative) {
            return None;
        }
        let found = forms.find.find_iter(alternative).map(|found| found.as_str());
        let all = found
            .map(|one| Comparison::read(one, forms))
            .collect::<Option<Vec<_>>>()?;
        // A pre-release is allowed only where one is asked for.
        let with_pre = all.iter().any(|one| !one.version.pre_release.is_empty());
        allowed |= (with_pre || version.pre_release.is_empty()) && all.iter().all(|one| one.allows(version));
    }
    Some(allowed)
}

impl Comparison {
    fn read(text: &str, forms: &Forms) -> Option<Self> {
        let parts = forms.one.captures(text)?;
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
            version: Version::read(&version)?,
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
