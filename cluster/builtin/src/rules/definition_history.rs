//! Rules of CustomResourceDefinitions that depend on their old state or on an approval (apiextensions-apiserver v0.35
//! `pkg/apis/apiextensions/validation/validation.go`).

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::{elements, text};

/// The annotation that approves a definition in a group of Kubernetes.
const APPROVED: &str = "api-approved.kubernetes.io";

/// Versions in which objects may still be stored cannot be removed.
pub(crate) fn stored_versions(object: &Value, errors: &mut Vec<FieldError>) {
    let stored: Vec<&str> = elements(&object["status"], "storedVersions")
        .filter_map(Value::as_str)
        .collect();
    let root = FieldPath::Root;
    let status = root.field("status");
    let at = status.field("storedVersions");
    if stored.is_empty() {
        errors.push(FieldError::invalid(
            at,
            Value::Null,
            "must have at least one stored version",
        ));
        return;
    }
    for version in elements(&object["spec"], "versions").filter(|version| version["storage"] == true) {
        let name = text(version, "name");
        if !stored.contains(&name) {
            let words = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(at, stored.clone(), words));
        }
    }
    let is_there = |name: &str| elements(&object["spec"], "versions").any(|version| text(version, "name") == name);
    for (index, name) in stored.iter().enumerate().filter(|(_, name)| !is_there(name)) {
        let words = format!(
            "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
        );
        errors.push(FieldError::invalid(at.index(index), *name, words));
    }
}

/// A definition in a group of Kubernetes needs an annotation.
pub(crate) fn approval(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let group = text(&object["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")))
    {
        return;
    }
    let annotation = |object: &Value| {
        let annotations = object.pointer("/metadata/annotations");
        annotations
            .and_then(|all| all[APPROVED].as_str())
            .unwrap_or_default()
            .to_owned()
    };
    #[derive(PartialEq)]
    enum State {
        Missing,
        Fine,
        Invalid,
    }
    let state = |given: &str| match given {
        "" => State::Missing,
        given if given.starts_with("unapproved") => State::Fine,
        given if given.starts_with("https://") || given.starts_with("http://") => State::Fine,
        _ => State::Invalid,
    };
    let given = annotation(object);
    if old.is_some_and(|old| state(&annotation(old)) == state(&given)) {
        return;
    }
    let at = format!("metadata.annotations[{APPROVED}]");
    match state(&given) {
        State::Fine => {}
        State::Missing => {
            let words = format!(
                "protected groups must have approval annotation {APPROVED:?}, see https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.push(FieldError::required(at, words));
        }
        State::Invalid => {
            let words = format!(
                "protected groups must have approval annotation {APPROVED:?} with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.push(FieldError::invalid(at, given, words));
        }
    }
}

/// What may not change, some of it once the definition is established.
pub(crate) fn unchanged(spec: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let established = elements(&old["status"], "conditions")
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
    let mut keep = |pointer: &str, at: String| {
        let now = spec.pointer(pointer).cloned().unwrap_or_default();
        if old["spec"].pointer(pointer) != spec.pointer(pointer) {
            errors.push(FieldError::invalid(at, now, "field is immutable"));
        }
    };
    let of_names = path.field("names");
    keep("/group", path.field("group").into());
    keep("/names/plural", of_names.field("plural").into());
    if established {
        keep("/scope", path.field("scope").into());
        keep("/names/kind", of_names.field("kind").into());
    }
}
