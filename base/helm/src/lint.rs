//! Checks what a chart renders before a controller applies it again and again: documents that are no objects, objects that are
//! never created, and objects that differ each time. Pure; it sends no request to a cluster.

mod lookups;

use base_yaml::go::{self, DuplicateKeys};
use serde_json::Value;

use crate::engine::Rendered;
use crate::manifest::{HOOK_ANNOTATION, split};

pub use lookups::render;

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The chart cannot be applied as it is.
    Error,
    /// It can, but probably not as its author meant it.
    Warning,
}

/// What is wrong at a place of a chart.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The path of the template, or of the file below `crds/`
    pub file: String,
    /// How bad it is
    pub severity: Severity,
    /// The object, as in `Deployment "web"`; none if the finding is about the whole file
    pub object: Option<String>,
    /// What is wrong, with field and value
    pub message: String,
    /// One thing to do
    pub hint: &'static str,
}

/// An object that a chart makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Made {
    /// The path of the template, or of the file below `crds/`
    pub file: String,
    /// The object
    pub value: Value,
}

impl Made {
    /// Its kind and name: `Deployment "web"`, as far as it has them.
    pub fn title(&self) -> String {
        match (self.text("/kind"), self.text("/metadata/name")) {
            ("", "") => "an object".to_owned(),
            (kind, "") => kind.to_owned(),
            ("", name) => format!("an object {name:?}"),
            (kind, name) => format!("{kind} {name:?}"),
        }
    }

    /// A finding that is about it.
    pub fn finding(&self, severity: Severity, message: impl Into<String>, hint: &'static str) -> Finding {
        Finding {
            file: self.file.clone(),
            severity,
            object: Some(self.title()),
            message: message.into(),
            hint,
        }
    }

    /// A text in it, empty if there is none.
    fn text(&self, pointer: &str) -> &str {
        self.value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }
}

/// The objects that are applied, those below `crds/` first, and findings about the other documents.
pub fn objects(rendered: &Rendered) -> (Vec<Made>, Vec<Finding>) {
    let (mut made, mut findings) = (Vec::new(), Vec::new());
    let crds = rendered.crds.iter().map(|(file, text)| (file, text));
    for (file, text) in crds.chain(&rendered.texts) {
        for document in split(text) {
            match object(file, document, &mut findings) {
                Ok(object) => made.extend(object),
                Err((message, hint)) => findings.push(Finding {
                    file: file.clone(),
                    severity: Severity::Error,
                    object: None,
                    message,
                    hint,
                }),
            }
        }
    }
    (made, findings)
}

/// Kinds that end with it are lists of others, if they have `items` (`UnstructuredList` of Kubernetes' apimachinery).
const LIST: &str = "List";

/// `1 object`, `2 objects`.
pub fn counted(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// The object of a document; none if it is empty or is not applied.
fn object(file: &str, document: &str, findings: &mut Vec<Finding>) -> Result<Option<Made>, (String, &'static str)> {
    const NO_OBJECT: &str =
        "write one object of Kubernetes into each document, with apiVersion, kind and metadata.name";
    let no_yaml = |why: go::GoYamlError| (why.to_string(), "write each document in YAML");
    // A valid document is read only once.
    let (value, twice) = match go::read_exact(document.as_bytes(), DuplicateKeys::Refused) {
        Ok(value) => (value, None),
        Err(why) => {
            let value = go::read_exact(document.as_bytes(), DuplicateKeys::Allowed).map_err(no_yaml)?;
            (value, Some(why))
        }
    };
    if value.is_null() {
        return Ok(None);
    }
    if !value.is_object() {
        let message = format!("a document is {}, and no object", go::json_kind(&value));
        return Err((message, NO_OBJECT));
    }
    let made = Made {
        file: file.to_owned(),
        value,
    };
    let (kind, items) = (made.text("/kind"), made.value["items"].as_array());
    if kind.ends_with(LIST) && items.is_some() || kind == LIST && made.text("/apiVersion") == "v1" {
        let message = format!(
            "a document of kind {kind} holds {}, and Lists are not unpacked: none is created",
            counted(items.map_or(0, Vec::len), "object")
        );
        return Err((message, "write each object as a document of its own"));
    }
    for (pointer, is_needed) in [
        ("/apiVersion", true),
        ("/kind", true),
        ("/metadata/name", true),
        ("/metadata/namespace", false),
    ] {
        let field = pointer[1..].replace('/', ".");
        match made.value.pointer(pointer) {
            Some(Value::String(text)) if !text.is_empty() => (),
            None | Some(Value::Null | Value::String(_)) if is_needed => {
                return Err((format!("{}: {field} is missing", made.title()), NO_OBJECT));
            }
            None | Some(Value::Null | Value::String(_)) => (),
            Some(other) => {
                // What YAML reads as a number or a boolean: `namespace: n`.
                let message = format!("{}: {field} is {other}, which is no text", made.title());
                return Err((message, "put it into quotes"));
            }
        }
    }
    if let Some(why) = twice {
        let message = format!("{why}: the last one wins");
        findings.push(made.finding(Severity::Warning, message, "leave one of them out"));
    }
    let hook = &made.value["metadata"]["annotations"][HOOK_ANNOTATION];
    if let Some(events) = hook.as_str() {
        let message = format!("is a hook ({events:?}), and hooks are never run: it is not made");
        let hint = "make it an object like the others, or do its work in a controller";
        findings.push(made.finding(Severity::Warning, message, hint));
        return Ok(None);
    }
    Ok(Some(made))
}

/// The differences of two renderings of one chart with the same values: such objects would be applied each time, and what
/// depends on them restarted. Findings have no values: many are passwords.
pub fn unsteady(first: &[Made], again: &[Made]) -> Vec<Finding> {
    const HINT: &str =
        "let what is random or taken from the clock come from values, or from a Secret that a controller makes once";
    let mut findings = Vec::new();
    for (one, other) in first.iter().zip(again) {
        let mut path = String::new();
        if differs(&one.value, &other.value, &mut path) {
            let message = format!("{} is another each time", path.trim_start_matches('.'));
            findings.push(one.finding(Severity::Warning, message, HINT));
        }
    }
    if let Some(more) = first.get(again.len()).or_else(|| again.get(first.len())) {
        findings.push(more.finding(Severity::Warning, "is not made each time", HINT));
    }
    findings
}

/// Whether two values differ; then `path` leads to the first place where they do.
fn differs(one: &Value, other: &Value, path: &mut String) -> bool {
    let length = path.len();
    match (one, other) {
        (Value::Object(one), Value::Object(other)) => {
            for (name, value) in one {
                path.push('.');
                path.push_str(name);
                if other.get(name).is_none_or(|there| differs(value, there, path)) {
                    return true;
                }
                path.truncate(length);
            }
            let further = other.keys().find(|name| !one.contains_key(*name));
            if let Some(name) = further {
                path.push('.');
                path.push_str(name);
            }
            further.is_some()
        }
        (Value::Array(one), Value::Array(other)) => {
            for (at, (value, there)) in one.iter().zip(other).enumerate() {
                path.push_str(&format!("[{at}]"));
                if differs(value, there, path) {
                    return true;
                }
                path.truncate(length);
            }
            one.len() != other.len()
        }
        _ => one != other,
    }
}

#[cfg(test)]
mod tests {
    use super::{Severity, objects, unsteady};
    use crate::engine::Rendered;

    fn rendered(texts: &[(&str, &str)]) -> Rendered {
        let texts = texts
            .iter()
            .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()));
        Rendered {
            texts: texts.collect(),
            ..Rendered::default()
        }
    }

    fn findings_in(text: &str) -> Vec<(Severity, String)> {
        let (_, findings) = objects(&rendered(&[("a.yaml", text)]));
        let shown = |finding: super::Finding| {
            let object = finding.object.map(|object| format!("{object} ")).unwrap_or_default();
            (finding.severity, format!("{object}{}", finding.message))
        };
        findings.into_iter().map(shown).collect()
    }

    const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";

    #[test]
    fn a_document_that_is_no_object_is_an_error_naming_the_field() {
        let cases = [
            ("- 1", "a document is array, and no object"),
            ("kind: A\nmetadata: {name: b}", "A \"b\": apiVersion is missing"),
            (
                "apiVersion: v1\nmetadata: {name: b}",
                "an object \"b\": kind is missing",
            ),
            ("apiVersion: v1", "an object: kind is missing"),
            (
                "apiVersion: v1\nkind: A\nmetadata: {name: 1}",
                "A: metadata.name is 1, which is no text",
            ),
            (
                "apiVersion: v1\nkind: A\nmetadata: {name: b, namespace: n}",
                "A \"b\": metadata.namespace is false, which is no text",
            ),
            (
                "apiVersion: v1\nkind: A\nmetadata: {generateName: a-}",
                "A: metadata.name is missing",
            ),
        ];
        for (text, message) in cases {
            assert_eq!(findings_in(text), [(Severity::Error, message.to_owned())], "{text}");
        }
        assert!(findings_in("# only this\n---\n").is_empty());
        assert!(findings_in(MAP).is_empty());
    }

    #[test]
    fn list_is_an_error_with_the_number_of_its_objects() {
        let list = |kind: &str| format!("apiVersion: v1\nkind: {kind}\nitems:\n- {{kind: A}}\n- {{kind: B}}\n");
        for kind in ["List", "ConfigMapList"] {
            let why = format!("a document of kind {kind} holds 2 objects, and Lists are not unpacked: none is created");
            assert_eq!(findings_in(&list(kind)), [(Severity::Error, why)]);
        }
        // A kind whose name only ends with `List`.
        let named = MAP.replace("kind: ConfigMap", "kind: AllowList") + "spec: {items: []}\n";
        assert!(findings_in(&named).is_empty());
    }

    #[test]
    fn hooks_are_findings_and_no_objects_for_any_event() {
        for event in ["pre-install", "nonsense"] {
            let hook = MAP.replace("name: a", &format!("name: a, annotations: {{helm.sh/hook: {event}}}"));
            let rendered = rendered(&[("a.yaml", &hook)]);
            let (made, findings) = objects(&rendered);
            assert!(made.is_empty());
            assert_eq!(findings.len(), 1, "{findings:?}");
        }
    }

    #[test]
    fn a_duplicate_key_is_a_warning() {
        let findings = findings_in(&format!("{MAP}data: {{a: b}}\ndata: {{c: d}}\n"));
        assert_eq!(findings.len(), 1);
        assert_eq!(findings[0].0, Severity::Warning);
    }

    #[test]
    fn unsteady_field_is_named_without_its_value() {
        let made = |text: &str| objects(&rendered(&[("a.yaml", text)])).0;
        let secret = |word: &str| format!("{MAP}data: {{same: x, list: [{{a: 1}}, {{password: {word}}}]}}\n");
        let findings = unsteady(&made(&secret("hunter2")), &made(&secret("other")));
        let [finding] = &findings[..] else {
            panic!("{findings:?}");
        };
        assert_eq!(finding.message, "data.list[1].password is another each time");
        assert_eq!(finding.object.as_deref(), Some("ConfigMap \"a\""));
        let once = made(MAP);
        // A field that only one of them has.
        for (text, field) in [
            (format!("{MAP}data: {{a: b}}\n"), "data"),
            (MAP.replace("name: a", "name: a, labels: {b: c}"), "metadata.labels"),
        ] {
            let further = made(&text);
            for findings in [unsteady(&once, &further), unsteady(&further, &once)] {
                assert_eq!(findings[0].message, format!("{field} is another each time"));
            }
        }
        assert!(unsteady(&once, &once).is_empty());
        let more = made(&format!("{MAP}---\n{}", MAP.replace("name: a", "name: b")));
        assert_eq!(unsteady(&once, &more)[0].message, "is not made each time");
    }
}
