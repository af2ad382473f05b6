//! Reads YAML. Two readers, which differ in what they accept and in their errors; neither knows a type of its own:
//! - [`read_strict`] and [`read_all_strict`] are for what users and other processes give us: configuration, manifests,
//!   kubeconfigs. They refuse duplicate keys, and decode into the caller's type. Their errors name place and kind of the problem,
//!   never the value there, because it may be secret.
//! - [`go::read()`] and its neighbours are for what has to be read as Helm and Go's clients read it: charts, values, templates.
//!   They return JSON values and Go's errors, which quote the text.

pub mod go;

use serde::de::DeserializeOwned;
use serde_saphyr::Error;

/// Why a text cannot be read. Fit for a status and a log: it quotes no value and draws no lines of the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct YamlError(String);

/// The one document of `text`; more than one is an error, and so is a duplicate key. A leading zero means octal, as in
/// YAML 1.1, whose rules Go reads by.
///
/// # Errors
/// Text that is not YAML, or not of the form of `T`.
pub fn read_strict<T: DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| YamlError::of(&error))
}

/// Most documents of one text: several times the objects of the largest charts, which may come in one text.
const DOCUMENTS_MAX: usize = 10_000;
/// Most sequences, mappings and scalars of all documents of one text: those of about 15 MB of custom resource definitions.
const NODES_MAX: usize = 1_000_000;
/// The parser's events of that many nodes: each begins, and may end.
const EVENTS_MAX: usize = 2 * NODES_MAX + 2 * DOCUMENTS_MAX;

/// All documents of `text`, by the same rules.
///
/// # Errors
/// As [`read_strict`], and text that is beyond the limits.
pub fn read_all_strict<T: DeserializeOwned>(text: &str) -> Result<Vec<T>, YamlError> {
    let budget = serde_saphyr::budget! { max_documents: DOCUMENTS_MAX, max_nodes: NODES_MAX, max_events: EVENTS_MAX };
    let options = serde_saphyr::options! { legacy_octal_numbers: true, budget: budget };
    serde_saphyr::from_multiple_with_options(text, options).map_err(|error| YamlError::of(&error))
}

impl YamlError {
    fn of(error: &Error) -> Self {
        let error = error.without_snippet();
        let problem = match error {
            Error::AliasError { error, .. } => return Self::of(error),
            Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
                format!("a value is not {expected}")
            }
            Error::SerdeMissingField { field, .. } => format!("field {field} is missing"),
            Error::DuplicateMappingKey { .. } => "a key is given twice".to_owned(),
            Error::InvalidScalar { ty, .. } => format!("a value is not of type {ty}"),
            // The parser's message about the syntax; further lines of it would quote the text.
            Error::ExternalMessage { msg, .. } => msg.lines().next().unwrap_or_default().to_owned(),
            Error::Eof { .. } => "the text ends too early".to_owned(),
            Error::Unexpected { expected, .. } => format!("expected {expected}"),
            Error::NullIntoString { .. } => "null where a text belongs".to_owned(),
            Error::MultipleDocuments { .. } => "more than one document".to_owned(),
            Error::Budget { .. } => "the text goes beyond a limit of documents, values, depth or aliases".to_owned(),
            Error::UnknownAnchor { .. } => "an alias names no anchor".to_owned(),
            // The texts of all others may quote the value.
            _ => "a value is not allowed here".to_owned(),
        };
        Self(match error.location() {
            Some(at) => format!("line {}, column {}: {problem}", at.line(), at.column()),
            None => problem,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::Value;

    use super::*;

    const SECRET: &str = "hunter2";

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Form {
        #[serde(default)]
        #[expect(dead_code, reason = "only its type counts")]
        number: u32,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type counts")]
        choice: Option<Choice>,
        #[serde(default)]
        #[expect(dead_code, reason = "only its type counts")]
        map: BTreeMap<String, String>,
    }

    #[derive(Debug, Deserialize)]
    enum Choice {
        One,
    }

    #[test]
    fn documents_are_read_up_to_a_limit_which_the_error_names() {
        let of = |count: usize| read_all_strict::<Value>(&"---\na: b\n".repeat(count));
        assert_eq!(of(5_000).unwrap().len(), 5_000);
        let error = of(DOCUMENTS_MAX + 1).unwrap_err().to_string();
        assert!(
            error.ends_with("the text goes beyond a limit of documents, values, depth or aliases"),
            "{error}"
        );
    }

    #[test]
    fn no_error_quotes_a_value() {
        let broken = [
            "map: {password: hunter2}\nother: [oops\n",
            "number: hunter2\n",
            "number: [hunter2]\n",
            "choice: hunter2\n",
            "map: hunter2\n",
            "hunter2: 1\n",
            "map: {a: hunter2, a: hunter2}\n",
            "map: {a: \"hunter2\\q\"}\n",
            "map: {a: *hunter2}\n",
            "map: {a: &hunter2 [hunter2]}\n",
            "map: {a: !hunter2 [hunter2]}\n",
            "map: !hunter2!x {a: b}\n",
            "number: 1\n---\nnumber: hunter2\n",
            "hunter2",
            "number: &a hunter2\nmap: *a\n",
            "map: |2hunter2\n",
            "%hunter2 x\n---\nhunter2\n",
            "map: 'hunter2\n",
        ];
        for text in broken {
            let error = read_strict::<Form>(text).unwrap_err().to_string();
            assert!(
                !error.contains(SECRET) && error.lines().count() == 1,
                "{text:?}: {error}"
            );
            if let Err(error) = read_all_strict::<Value>(text) {
                assert!(!error.to_string().contains(SECRET), "{text:?}: {error}");
            }
        }
    }

    #[test]
    fn error_names_the_place_and_the_kind_of_the_problem() {
        let error = |text: &str| read_strict::<Form>(text).unwrap_err().to_string();
        assert_eq!(
            error("number: 1\nmap: [hunter2]\n"),
            "line 2, column 6: expected mapping start"
        );
        assert_eq!(
            error("number: 1\nnumber: 2\n"),
            "line 2, column 1: a key is given twice"
        );
        assert!(
            error("map: {}\nother: [oops\n").starts_with("line "),
            "{}",
            error("map: {}\nother: [oops\n")
        );
    }

    #[test]
    fn a_leading_zero_is_octal_in_every_document() {
        assert_eq!(read_all_strict::<Value>("0644\n---\n0755\n").unwrap(), [0o644, 0o755]);
        assert_eq!(read_strict::<u32>("0600").unwrap(), 0o600);
    }
}
