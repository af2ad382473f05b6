//! Words that have no place in a folder: provider names outside extensions, Shoot and Seed in the machinery below them,
//! file names that say nothing, and marks of unfinished work. And words that have no place in any comment or name, because the
//! field has others that a reader searches for; and comments that do not begin with their subject.

use std::collections::BTreeSet;

use super::{Finding, Source};
use crate::lexer::{Lexeme, lexemes};

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

/// Words that no comment and no name may have, each with what to write instead. Literals may: they may quote other programs.
const PRIVATE_WORDS: [(&str, &str); 5] = [
    (
        "told",
        "`reported`, `logged`, `returned`, `printed` or `notified`; `distinguished` for things",
    ),
    ("nobody", "`no client`, `no caller` or `no other writer`"),
    ("anew", "`again`, `recreated`, `rebuilt` or `restarted`"),
    ("lent", "`borrowed`"),
    ("dear", "`expensive`"),
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
    findings.extend(private_words(source));
    findings.extend(inverted_comments(source));
    // The bans below name what they ban, and random numbers start from seeds of their own.
    if source.path.starts_with("tools/") || source.path.starts_with("base/clock/") {
        return findings;
    }
    for (number, line) in source.text.lines().enumerate() {
        let place = || format!("{}:{}", source.path, number + 1);
        if line.trim_start().starts_with("#[ignore") {
            findings.push(Finding::new(
                place(),
                "an ignored test proves nothing: assert today's behaviour with a FIXME, or fix it",
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

/// One finding for each private word of each line.
fn private_words(source: &Source) -> Vec<Finding> {
    let mut found = BTreeSet::new();
    for (line, lexeme) in lexemes(&source.text) {
        let (Lexeme::Comment(text) | Lexeme::Word(text)) = lexeme else {
            continue;
        };
        for (below, text) in text.lines().enumerate() {
            let words = words(text);
            let private = PRIVATE_WORDS
                .iter()
                .filter(|(word, _)| words.iter().any(|found| found == word));
            found.extend(private.map(|row| (line + below, row)));
        }
    }
    found
        .into_iter()
        .map(|(line, (word, instead))| {
            Finding::new(
                format!("{}:{line}", source.path),
                format!("`{word}` is banned in comments and names: write {instead}"),
            )
        })
        .collect()
}

/// One finding for each comment, or item of a list in it, that begins with `Of`: its subject comes too late.
fn inverted_comments(source: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut above = None;
    for (line, lexeme) in lexemes(&source.text) {
        let Lexeme::Comment(text) = lexeme else {
            above = None;
            continue;
        };
        let text = text.trim_start_matches(['/', '!', '*', ' ']);
        let (is_item, text) = match text.strip_prefix("- ") {
            Some(item) => (true, item),
            None => (false, text),
        };
        // A sentence within a comment may begin a line.
        let begins = is_item || above.is_none_or(|above| above + 1 != line);
        if begins && text.split_whitespace().next() == Some("Of") {
            findings.push(Finding::new(
                format!("{}:{line}", source.path),
                "a comment does not begin with `Of`: put the subject and its verb first",
            ));
        }
        // A paragraph ends at a line without words.
        above = (!text.trim().is_empty()).then_some(line);
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
    use super::{Source, check_source, inverted_comments, names, private_words};

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

    /// The lines of `text` with their private words.
    fn private(text: &str) -> Vec<String> {
        let (path, text) = ("a.rs".to_owned(), text.to_owned());
        private_words(&Source { path, text })
            .into_iter()
            .map(|finding| {
                let word = finding.text.split('`').nth(1).unwrap_or_default();
                format!("{} {word}", finding.place)
            })
            .collect()
    }

    #[test]
    fn private_words_are_found_in_every_kind_of_comment() {
        let text = r#"//! Nobody.
/// a
/// It is told, and told again.
fn f() {} // lent
/* one
   /* DEAR */
   `made_anew` */
"#;
        assert_eq!(
            private(text),
            [
                "a.rs:1 nobody",
                "a.rs:3 told",
                "a.rs:4 lent",
                "a.rs:6 dear",
                "a.rs:7 anew"
            ]
        );
    }

    #[test]
    fn private_words_are_found_as_segments_of_names() {
        let text = r"fn is_told() {}
struct ToldTwice;
const NOBODY: u8 = 1;
let begins_anew_2 = x.lent;
fn f<'dear>() {}
";
        assert_eq!(
            private(text),
            [
                "a.rs:1 told",
                "a.rs:2 told",
                "a.rs:3 nobody",
                "a.rs:4 anew",
                "a.rs:4 lent",
                "a.rs:5 dear"
            ]
        );
    }

    #[test]
    fn longer_words_with_a_private_word_inside_pass() {
        let text = r"// Silent talent; a soldier with a golden calendar; endearing; toldo.
struct Unlent;
fn silent_calendar() {}
let gold = Soldier::Equivalent;
";
        assert_eq!(private(text), [""; 0]);
    }

    #[test]
    fn literals_may_have_private_words() {
        let text = r###"let a = "told \" nobody // anew"; let b = r#"lent " // dear"#; let c = b"told"; let d = '"'; // "fine"
let e = br"// nobody"; let f = "/* told"; let g = "told
// nobody
";
"###;
        assert_eq!(private(text), [""; 0]);
        assert_eq!(private("let a = '\"'; // told\nlet b = '\"';\n"), ["a.rs:1 told"]);
    }

    #[test]
    fn a_comment_that_begins_with_of_is_found() {
        for (text, expected) in [
            ("//! Of a.\nlet b = 1; // Of c\n", &[1, 2][..]),
            ("/// A.\n///\n/// Of b\n/// - Of c\nfn d() {} /* Of e */", &[3, 4, 5]),
            ("// A sentence. The next one.\n// Of b\n", &[]),
            ("// Often of a. Of b\n\n// of c\nlet d = \"// Of e\";\n", &[]),
        ] {
            let (path, source) = ("a.rs".to_owned(), text.to_owned());
            let places = inverted_comments(&Source { path, text: source });
            let places: Vec<String> = places.into_iter().map(|finding| finding.place).collect();
            let expected: Vec<String> = expected.iter().map(|line| format!("a.rs:{line}")).collect();
            assert_eq!(places, expected, "{text}");
        }
    }

    #[test]
    fn a_private_word_is_found_in_every_folder_with_what_to_write() {
        let findings = check_source(&Source {
            path: "tools/xtask/src/a.rs".to_owned(),
            text: "//! It was lent.\n".to_owned(),
        });
        let [finding] = &findings[..] else {
            panic!("{} findings", findings.len());
        };
        assert_eq!(finding.place, "tools/xtask/src/a.rs:1");
        assert_eq!(finding.text, "`lent` is banned in comments and names: write `borrowed`");
    }
}
