//! Seeds on the command line: how many, and which labels they get.

use std::collections::BTreeMap;

use landscape_local::SEEDS_MAX;

/// Labels of a prefixed key's two parts, and of a value: at most so long.
const PART_MAX: usize = 63;
/// The prefix of a key is a DNS name.
const PREFIX_MAX: usize = 253;

/// `--seed-labels`: a seed and the labels that it gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeedLabels {
    /// Name of the seed.
    pub seed: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

pub(super) fn count(text: &str) -> Result<u8, String> {
    let count = text.parse().ok().filter(|count| (1..=SEEDS_MAX).contains(count));
    count.ok_or_else(|| format!("a landscape has 1 to {SEEDS_MAX} seeds"))
}

pub(super) fn labels(text: &str) -> Result<SeedLabels, String> {
    const FORM: &str = "seeds are labelled as in local-2=env=prod,tier=a";
    let (seed, pairs) = text.split_once('=').ok_or(FORM)?;
    if !super::is_name(seed) {
        return Err(FORM.to_owned());
    }
    let mut labels = BTreeMap::new();
    for pair in pairs.split(',') {
        let (key, value) = pair.split_once('=').ok_or(FORM)?;
        if !is_key(key) {
            return Err(format!(
                "{key:?} is no key of a label; one is at most {PART_MAX} letters, digits, '-', '_' and '.', the first and \
                 last a letter or digit; before it a DNS name and '/' may stand"
            ));
        }
        if !value.is_empty() && !is_part(value) {
            return Err(format!(
                "{value:?} is no value of a label; one is empty or at most {PART_MAX} letters, digits, '-', '_' and '.', \
                 the first and last a letter or digit"
            ));
        }
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(format!("label {key} is given twice"));
        }
    }
    Ok(SeedLabels {
        seed: seed.to_owned(),
        labels,
    })
}

fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        None => is_part(text),
        Some((prefix, name)) => {
            let is_label = |label: &str| super::is_name(label) && !label.starts_with('-') && !label.ends_with('-');
            prefix.len() <= PREFIX_MAX && prefix.split('.').all(is_label) && is_part(name)
        }
    }
}

/// What a value is, and the name of a key.
fn is_part(text: &str) -> bool {
    let ends = |letter: Option<u8>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
    text.len() <= PART_MAX
        && ends(text.bytes().next())
        && ends(text.bytes().next_back())
        && text
            .bytes()
            .all(|letter| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_with_prefixes_and_empty_values() {
        let read = labels("local-2=env=prod,example.com/tier_a=,x=1.2").unwrap();
        assert_eq!(read.seed, "local-2");
        let pairs = [("env", "prod"), ("example.com/tier_a", ""), ("x", "1.2")];
        let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(read.labels, BTreeMap::from(pairs));
    }

    #[test]
    fn wrong_labels_are_refused_with_what_is_allowed() {
        for (text, message) in [
            ("", "local-2=env=prod,tier=a"),
            ("local-2", "local-2=env=prod,tier=a"),
            ("local-2=env", "local-2=env=prod,tier=a"),
            ("Local=env=prod", "local-2=env=prod,tier=a"),
            ("local=env=prod,", "local-2=env=prod,tier=a"),
            ("local=-env=prod", "\"-env\" is no key"),
            ("local=a/b/c=prod", "\"a/b/c\" is no key"),
            ("local=Ex.com/b=prod", "is no key"),
            ("local=env=a=b", "\"a=b\" is no value"),
            ("local=env=prod-", "\"prod-\" is no value"),
            ("local=env=a,env=b", "label env is given twice"),
        ] {
            let error = labels(text).unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
        assert!(labels(&format!("local=env={}", "a".repeat(64))).is_err());
        assert!(labels(&format!("local=env={}", "a".repeat(63))).is_ok());
    }

    #[test]
    fn the_count_of_seeds_has_bounds() {
        assert_eq!([count("1"), count("9")], [Ok(1), Ok(9)]);
        for wrong in ["0", "10", "-1", "two", "", "1.5"] {
            assert_eq!(count(wrong).unwrap_err(), "a landscape has 1 to 9 seeds");
        }
    }
}
