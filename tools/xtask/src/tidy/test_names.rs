//! Names of tests: condition and outcome, short enough to be read at once. Counts words, never evaluates what they mean.

use super::{Finding, Source};
use crate::lexer::{Lexeme, lexemes};

/// Words of a test's name: about twelve, as CONTRIBUTING.md has it, and one over.
const WORDS_MAX: usize = 13;

pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    sources
        .iter()
        .filter(|source| source.path.ends_with(".rs"))
        .flat_map(check_source)
        .collect()
}

fn check_source(source: &Source) -> Vec<Finding> {
    test_names(&source.text)
        .into_iter()
        .filter_map(|(line, name)| {
            let words = name.split('_').filter(|word| !word.is_empty()).count();
            (words > WORDS_MAX).then(|| {
                Finding::new(
                    format!("{}:{line}", source.path),
                    format!(
                        "the test name `{name}` has {words} words, at most {WORDS_MAX}: say condition and outcome in about \
                         twelve words"
                    ),
                )
            })
        })
        .collect()
}

/// The functions with an attribute that ends in `test`, inside macros as well, with the lines of their names. Names that a macro
/// is given are not seen.
fn test_names(text: &str) -> Vec<(usize, &str)> {
    let lexemes: Vec<(usize, Lexeme<'_>)> = lexemes(text)
        .into_iter()
        .filter(|(_, lexeme)| !matches!(lexeme, Lexeme::Comment(_)))
        .collect();
    let mut found = Vec::new();
    let mut is_test = false;
    let mut rest = &lexemes[..];
    while let Some(((_, lexeme), behind)) = rest.split_first() {
        rest = behind;
        match (lexeme, behind) {
            (Lexeme::Sign("#"), [(_, Lexeme::Sign("[")), attribute @ ..]) => {
                is_test |= is_test_attribute(attribute);
                rest = &attribute[attribute_length(attribute)..];
            }
            (Lexeme::Word("fn"), [(line, Lexeme::Word(name)), ..]) if is_test => found.push((*line, *name)),
            _ => {}
        }
        let is_between = matches!(
            lexeme,
            Lexeme::Sign("#") | Lexeme::Word("pub" | "crate" | "async" | "unsafe")
        ) || matches!(lexeme, Lexeme::Sign("(" | ")"));
        is_test &= is_between;
    }
    found
}

/// Whether a path such as `tokio::test` begins here, with or without arguments.
fn is_test_attribute(attribute: &[(usize, Lexeme<'_>)]) -> bool {
    let path: Vec<&Lexeme<'_>> = attribute
        .iter()
        .map(|(_, lexeme)| lexeme)
        .take_while(|lexeme| matches!(lexeme, Lexeme::Word(_) | Lexeme::Sign("::")))
        .collect();
    path.last() == Some(&&Lexeme::Word("test"))
}

/// The length of an attribute behind its `#[`, with the bracket that ends it.
fn attribute_length(attribute: &[(usize, Lexeme<'_>)]) -> usize {
    let mut depth = 1_usize;
    for (at, (_, lexeme)) in attribute.iter().enumerate() {
        match lexeme {
            Lexeme::Sign("[") => depth += 1,
            Lexeme::Sign("]") => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    attribute.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<(usize, &str)> {
        test_names(text)
    }

    #[test]
    fn functions_with_a_test_attribute_are_found() {
        let text = "#[test]\nfn a() { fn b() {} }\n#[tokio::test(start_paused = true)]\nasync fn c() {}\nfn d() {}";
        assert_eq!(names(text), [(2, "a"), (4, "c")]);
    }

    #[test]
    fn attributes_and_comments_may_stand_between_attribute_and_function() {
        let text =
            "#[test]\n/// Why.\n#[expect(x, reason = \"[\")]\npub(crate) fn a() {}\n#[x([1])]\n#[test]\nfn b() {}";
        assert_eq!(names(text), [(4, "a"), (7, "b")]);
    }

    #[test]
    fn tests_inside_a_macro_are_found() {
        let text = "proptest! {\n    #![proptest_config(few())]\n    #[test]\n    fn a(x in any::<u8>()) { f(x); }\n}";
        assert_eq!(names(text), [(4, "a")]);
    }

    #[test]
    fn other_attributes_and_quoted_code_make_no_test() {
        let text = "#[cfg(test)]\nmod a { fn b() {} }\nlet c = \"#[test] fn d() {}\"; // #[test]\nfn e() {}";
        assert_eq!(names(text), []);
    }

    #[test]
    fn only_a_name_of_more_than_thirteen_words_is_a_finding() {
        let source = |words: usize| Source {
            path: "a.rs".to_owned(),
            text: format!("#[test]\nfn {}() {{}}", vec!["a"; words].join("_")),
        };
        assert!(check_source(&source(WORDS_MAX)).is_empty());
        let findings = check_source(&source(WORDS_MAX + 1));
        let [finding] = &findings[..] else {
            panic!("{} findings", findings.len());
        };
        assert_eq!(finding.place, "a.rs:2");
        assert_eq!(
            finding.text,
            "the test name `a_a_a_a_a_a_a_a_a_a_a_a_a_a` has 14 words, at most 13: say condition and outcome in about twelve words"
        );
    }
}
