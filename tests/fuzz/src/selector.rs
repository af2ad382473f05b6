//! Selectors: sections are the text of a label selector, that of a field selector, labels as JSON.

use std::collections::BTreeMap;

use cluster_apiserver::request::{FieldSelector, LabelSelector};
use serde_json::Value;

use crate::text::Sections;

/// The length of a refusal beyond what it repeats: 64 values are refused one by one, each in a sentence with its key.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

pub(crate) fn check(input: &[u8]) {
    let input = String::from_utf8_lossy(input);
    let mut sections = Sections::of(&input);
    let (labels, fields) = (sections.text(), sections.text());
    let held = labels_of(sections.json());
    match LabelSelector::parse(labels) {
        Ok(selector) => {
            let printed = selector.to_string();
            let again = LabelSelector::parse(&printed);
            assert_eq!(again.as_ref(), Ok(&selector), "{printed}");
            assert!(bounded(&printed, labels), "{printed}");
            let all = LabelSelector::default();
            assert!(all.matches(&held), "no requirement, and yet it fails");
            let twice = format!("{printed},{printed}");
            if !printed.is_empty() {
                let twice = LabelSelector::parse(&twice).expect("a selector and itself");
                assert_eq!(twice.matches(&held), selector.matches(&held), "{printed}");
            }
        }
        Err(why) => assert!(
            why.len() <= 16 * labels.len() + REFUSAL_BYTES_MAX,
            "{} bytes",
            why.len()
        ),
    }
    match FieldSelector::parse(fields) {
        Ok(selector) => {
            let printed = selector.to_string();
            assert_eq!(FieldSelector::parse(&printed), Ok(selector), "{printed}");
            assert!(bounded(&printed, fields), "{printed}");
        }
        Err(why) => assert!(why.len() <= 16 * fields.len() + 1024, "{why}"),
    }
}

/// Printing adds nothing but blanks, brackets and backslashes.
fn bounded(printed: &str, text: &str) -> bool {
    printed.len() <= 8 * text.len() + 16
}

fn labels_of(value: Option<Value>) -> BTreeMap<String, String> {
    let fields = value.as_ref().and_then(Value::as_object).into_iter().flatten();
    fields
        .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
        .collect()
}
