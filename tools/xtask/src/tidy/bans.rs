//! Words that have no place in a folder: provider names outside extensions, Shoot and Seed in the machinery below them,
//! file names that say nothing, and marks of unfinished work.

use super::{Finding, Source};

/// A word that may not stand in code below some folders, with the reason.
struct Ban {
    folders: &'static [&'static str],
    words: &'static [&'static str],
    reason: &'static str,
}

const BANS: [Ban; 3] = [
    Ban {
        folders: &["base/", "cluster/", "components/", "control-plane/"],
        words: &["aws", "gcp", "azure", "openstack", "alicloud"],
        reason: "no crate outside extensions/ names a provider",
    },
    Ban {
        folders: &["base/", "cluster/"],
        words: &["shoot", "shoots", "seed", "seeds", "gardenlet"],
        reason: "the machinery has never heard of it",
    },
    Ban {
        folders: &[
            "api/",
            "base/",
            "cluster/",
            "components/",
            "control-plane/",
            "extensions/",
            "landscape/",
            "programs/",
            "tests/",
        ],
        words: &["todo!", "unimplemented!"],
        reason: "unfinished work is an issue or a FIXME with its reason",
    },
];

/// File names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 4] = ["utils.rs", "common.rs", "helpers.rs", "misc.rs"];

/// The random number generators' and serde's word for where they start has nothing to do with Seeds.
const NOT_MEANT: [&str; 12] = [
    "seeded",
    "from_seed",
    "seed_from_u64",
    "Entropy::seeded",
    "(seed: u64)",
    "seed: u64",
    "(seed)",
    "seed()",
    "DeserializeSeed",
    "next_element_seed",
    "next_value_seed",
    "self.seed",
];

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .filter(|source| source.path.ends_with(".rs"))
        .flat_map(check_source)
        .collect()
}

fn check_source(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let name = source.path.rsplit('/').next().unwrap_or(&source.path);
    if EMPTY_NAMES.contains(&name) {
        findings.push(Finding::new(
            &source.path,
            format!("`{name}` says nothing: name the file after its job"),
        ));
    }
    // The bans below name what they ban, and random numbers start from seeds of their own.
    if source.path.starts_with("tools/") || source.path.starts_with("base/clock/") {
        return findings;
    }
    for (number, line) in source.text.lines().enumerate() {
        let place = || format!("{}:{}", source.path, number + 1);
        if line.trim_start().starts_with("#[ignore") {
            findings.push(Finding::new(
                place(),
                "an ignored test proves nothing: assert today's behaviour with a FIXME, or mend it",
            ));
        }
        let code = line.split("//").next().unwrap_or("");
        for ban in BANS
            .iter()
            .filter(|ban| ban.folders.iter().any(|folder| source.path.starts_with(folder)))
        {
            if let Some(word) = ban.words.iter().find(|word| names(code, word)) {
                findings.push(Finding::new(
                    place(),
                    format!("`{word}` is banned here: {}", ban.reason),
                ));
            }
        }
    }
    findings
}

/// Whether a line of code has the word as a word of its own, whatever its case, in snake or camel spelling.
fn names(code: &str, word: &str) -> bool {
    let code = NOT_MEANT
        .iter()
        .fold(code.to_owned(), |code, fine| code.replace(fine, ""));
    if word.ends_with('!') {
        return code.contains(word);
    }
    words(&code).iter().any(|found| found == word)
}

/// Splits at everything that is no letter, and where a capital follows a small letter.
fn words(code: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in code.chars() {
        if !letter.is_ascii_alphabetic() || before.is_ascii_lowercase() && letter.is_ascii_uppercase() {
            words.push(String::new());
        }
        if letter.is_ascii_alphabetic()
            && let Some(last) = words.last_mut()
        {
            last.push(letter.to_ascii_lowercase());
        }
        before = letter;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::{Source, check_source, names};

    #[test]
    fn a_word_is_found_in_every_spelling_but_not_inside_another() {
        assert!(names("let shoot_name = 1;", "shoot"));
        assert!(names("struct ShootName;", "shoot"));
        assert!(names("const SHOOT: u8 = 1;", "shoot"));
        assert!(!names("overshooting", "shoot"));
        assert!(!names("Entropy::seeded(7)", "seed"));
        assert!(names("todo!()", "todo!"));
    }

    #[test]
    fn a_provider_is_named_only_in_extensions() {
        let source = |path: &str| Source {
            path: path.to_owned(),
            text: "//! x\nlet a = \"aws\";".to_owned(),
        };
        assert_eq!(check_source(&source("control-plane/gardenlet/src/lib.rs")).len(), 1);
        assert_eq!(check_source(&source("extensions/provider-aws/src/lib.rs")).len(), 0);
    }
}
