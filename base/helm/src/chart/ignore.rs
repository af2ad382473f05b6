//! Which files of a folder are no part of a chart: `.helmignore`, by the rules of `pkg/ignore` of Helm 4.1.

/// The name of the file.
pub(super) const FILE: &str = ".helmignore";
/// What is never part of a chart.
const DEFAULT_RULE: &str = "templates/.?*";
/// A file with more rules is refused: each is tried on each path.
const RULES_MAX: usize = 1_000;

/// Why a file of rules is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IgnoreError {
    /// Git's double star
    #[error("double-star (**) syntax is not supported")]
    DoubleStar,
    /// A pattern that cannot be read
    #[error("syntax error in pattern")]
    Pattern,
    /// More than a thousand rules
    #[error("{FILE} has more than {RULES_MAX} rules")]
    TooMany,
}

#[derive(Debug)]
struct Rule {
    /// None matches nothing: a rule without its marks may be no pattern, as the `a\` of `a\/`.
    pattern: Option<Pattern>,
    negated: bool,
    only_folders: bool,
    /// Matched against the last part of a path
    by_base: bool,
}

/// The rules of a folder.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<Rule>);

impl Rules {
    /// The rules of a file, and the default rule.
    pub(super) fn read(text: &str) -> Result<Self, IgnoreError> {
        let mut rules = Self::default();
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        for line in text.lines().chain([DEFAULT_RULE]) {
            rules.add(line.trim())?;
            if rules.0.len() > RULES_MAX {
                return Err(IgnoreError::TooMany);
            }
        }
        Ok(rules)
    }

    fn add(&mut self, rule: &str) -> Result<(), IgnoreError> {
        if rule.is_empty() || rule.starts_with('#') {
            return Ok(());
        }
        if rule.contains("**") {
            return Err(IgnoreError::DoubleStar);
        }
        Pattern::read(rule).ok_or(IgnoreError::Pattern)?;
        let (negated, rule) = rule.strip_prefix('!').map_or((false, rule), |rule| (true, rule));
        let (only_folders, rule) = rule.strip_suffix('/').map_or((false, rule), |rule| (true, rule));
        let by_base = !rule.contains('/');
        let pattern = Pattern::read(rule.strip_prefix('/').unwrap_or(rule));
        self.0.push(Rule {
            pattern,
            negated,
            only_folders,
            by_base,
        });
        Ok(())
    }

    /// Whether the file or folder at `path` is left out. A negated rule leaves out all that it does not name.
    pub(super) fn ignore(&self, path: &str, is_folder: bool) -> bool {
        let base = path.rsplit('/').next().unwrap_or(path);
        for rule in &self.0 {
            let name = if rule.by_base { base } else { path };
            let is_match = rule.pattern.as_ref().is_some_and(|pattern| pattern.fits(name));
            if rule.negated {
                if rule.only_folders && !is_folder || !is_match {
                    return true;
                }
            } else if is_match && (is_folder || !rule.only_folders) {
                return true;
            }
        }
        false
    }
}

/// A pattern of Go's `filepath.Match`.
#[derive(Debug)]
struct Pattern(Vec<Part>);

impl Pattern {
    /// None if the pattern is invalid.
    fn read(pattern: &str) -> Option<Self> {
        let pattern: Vec<char> = pattern.chars().collect();
        parts(&pattern).map(Self)
    }

    fn fits(&self, name: &str) -> bool {
        let next = |at: usize| name.get(at..)?.chars().next();
        let (mut part, mut at) = (0, 0);
        // The place of the last star, and where what it matches ends.
        let mut star: Option<(usize, usize)> = None;
        loop {
            let fitting = match (self.0.get(part), next(at)) {
                (None, None) => return true,
                (Some(Part::Star), _) => {
                    star = Some((part, at));
                    part += 1;
                    continue;
                }
                (Some(one), Some(character)) if one.fits(character) => Some(character),
                _ => None,
            };
            if let Some(character) = fitting {
                (part, at) = (part + 1, at + character.len_utf8());
                continue;
            }
            let Some((place, taken)) = star else {
                return false;
            };
            let Some(more) = next(taken).filter(|more| *more != '/') else {
                return false;
            };
            at = taken + more.len_utf8();
            star = Some((place, at));
            part = place + 1;
        }
    }
}

/// What a pattern consists of.
#[derive(Debug)]
enum Part {
    /// Any characters but slashes
    Star,
    /// One character but a slash
    Any,
    One(char),
    Range {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

impl Part {
    fn fits(&self, character: char) -> bool {
        match self {
            Self::Star => false,
            Self::Any => character != '/',
            Self::One(one) => *one == character,
            Self::Range { negated, ranges } => {
                let found = ranges.iter().any(|(low, high)| (*low..=*high).contains(&character));
                found != *negated
            }
        }
    }
}

fn parts(pattern: &[char]) -> Option<Vec<Part>> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        rest = after;
        parts.push(match first {
            '*' => Part::Star,
            '?' => Part::Any,
            '\\' => {
                let (one, after) = rest.split_first()?;
                rest = after;
                Part::One(*one)
            }
            '[' => range(&mut rest)?,
            one => Part::One(*one),
        });
    }
    Some(parts)
}

fn range(rest: &mut &[char]) -> Option<Part> {
    let negated = rest.first() == Some(&'^');
    if negated {
        *rest = &rest[1..];
    }
    let mut ranges = Vec::new();
    loop {
        if rest.first() == Some(&']') && !ranges.is_empty() {
            *rest = &rest[1..];
            return Some(Part::Range { negated, ranges });
        }
        let low = range_end(rest)?;
        let high = match rest.first() {
            Some('-') => {
                *rest = &rest[1..];
                range_end(rest)?
            }
            _ => low,
        };
        ranges.push((low, high));
    }
}

fn range_end(rest: &mut &[char]) -> Option<char> {
    let (first, after) = rest.split_first()?;
    *rest = after;
    match first {
        '-' | ']' => None,
        '\\' => {
            let (escaped, after) = rest.split_first()?;
            *rest = after;
            Some(*escaped)
        }
        first => Some(*first),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_go() {
        let cases = [
            ("abc", "abc", Some(true)),
            ("*", "abc", Some(true)),
            ("*c", "abc", Some(true)),
            ("a*", "ab/c", Some(false)),
            ("a*/b", "abc/b", Some(true)),
            ("a*b*c*d*e*/f", "axbxcxdxexxx/f", Some(true)),
            ("a*b?c*x", "abxbbxdbxebxczzx", Some(true)),
            ("ab[c]", "abc", Some(true)),
            ("ab[^e-g]", "abc", Some(true)),
            ("ab[^b-d]", "abc", Some(false)),
            ("a\\*b", "a*b", Some(true)),
            ("a?b", "a/b", Some(false)),
            ("[a-ζ]*", "α", Some(true)),
            ("[]a]", "]", None),
            ("[-]", "-", None),
            ("[x-]", "x", None),
            ("a[", "a", None),
            ("[a-b-c]", "a", None),
            ("*x", "xxx", Some(true)),
            ("", "a", Some(false)),
        ];
        for (pattern, name, wanted) in cases {
            let found = Pattern::read(pattern).map(|pattern| pattern.fits(name));
            assert_eq!(found, wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn rules_leave_out_files_and_folders_by_path_or_by_name() {
        let rules = Rules::read("# a remark\n\n*.bak\n/top.txt\ndocs/\na/b*\n").unwrap();
        assert!(rules.ignore("x/y.bak", false));
        assert!(rules.ignore("top.txt", false) && !rules.ignore("x/top.txt", false));
        assert!(rules.ignore("docs", true) && !rules.ignore("docs", false));
        assert!(rules.ignore("a/bc", false) && !rules.ignore("x/a/bc", false));
        assert!(rules.ignore("templates/.hidden", false) && !rules.ignore("templates/x", false));
        assert_eq!(Rules::read("a/**").unwrap_err(), IgnoreError::DoubleStar);
        assert_eq!(Rules::read("a[").unwrap_err(), IgnoreError::Pattern);
        assert!(Rules::read("!keep").unwrap().ignore("other", false));
        // Without its slash the rule ends with an incomplete escape.
        assert!(!Rules::read("a\\/").unwrap().ignore("a", true));
    }
}
