//! Checks of single values that several kinds use: names, references, lists without repetition.
//! Each pushes what it finds and goes on.

use std::collections::BTreeSet;

use api_meta::names::is_dns_label;
use api_meta::{NamedResourceReference, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::{FieldError, Path};

/// Longest DNS name (RFC 1123).
const DNS_NAME_BYTES_MAX: usize = 253;

/// DNS labels joined by dots; at most 253 bytes.
pub(crate) fn is_dns_name(text: &str) -> bool {
    text.len() <= DNS_NAME_BYTES_MAX && text.split('.').all(is_dns_label)
}

/// Demands a DNS label.
pub(crate) fn dns_label(errors: &mut Vec<FieldError>, path: &Path, text: &str) {
    if text.is_empty() {
        errors.push(path.required("set a name of lower case letters, digits and '-'"));
    } else if !is_dns_label(text) {
        errors.push(path.invalid(
            text,
            "must consist of lower case letters, digits and '-', start and end with a letter or digit, and have at most 63 characters",
        ));
    }
}

/// Demands DNS labels joined by dots.
pub(crate) fn dns_name(errors: &mut Vec<FieldError>, path: &Path, text: &str) {
    if text.is_empty() {
        errors.push(path.required("set a DNS name such as \"shoots.example.com\""));
    } else if !is_dns_name(text) {
        errors.push(path.invalid(text, "must be a lower case DNS name such as \"shoots.example.com\""));
    }
}

/// Demands text.
pub(crate) fn not_empty(errors: &mut Vec<FieldError>, path: &Path, text: &str) {
    if text.is_empty() {
        errors.push(path.required("field is required; set it"));
    }
}

/// Demands text that names `what`.
pub(crate) fn named(errors: &mut Vec<FieldError>, path: &Path, text: &str, what: &str) {
    if text.is_empty() {
        errors.push(path.required(format!("name {what}")));
    }
}

/// Demands one of the known words, if there is a word.
pub(crate) fn known(errors: &mut Vec<FieldError>, path: &Path, is_known: bool, text: &str, allowed: &[&str]) {
    if !is_known {
        errors.push(path.not_supported(text, allowed));
    }
}

/// Demands that texts do not repeat; `path_of` gives the path of an item.
pub(crate) fn distinct<'a>(
    errors: &mut Vec<FieldError>,
    texts: impl IntoIterator<Item = &'a str>,
    path_of: impl Fn(usize) -> Path,
) {
    let mut seen = BTreeSet::new();
    for (index, text) in texts.into_iter().enumerate() {
        if !seen.insert(text) {
            errors.push(path_of(index).duplicate(text));
        }
    }
}

/// Which of the keys stand at an earlier place already.
pub(crate) fn repeats<K: Ord>(keys: impl IntoIterator<Item = K>) -> impl Iterator<Item = bool> {
    let mut seen = BTreeSet::new();
    keys.into_iter().map(move |key| !seen.insert(key))
}

/// The errors that are not among those of before.
pub(crate) fn added(errors: Vec<FieldError>, before: &[FieldError]) -> Vec<FieldError> {
    let key = |error: &FieldError| (error.path.clone(), error.to_string());
    let before: BTreeSet<(String, String)> = before.iter().map(key).collect();
    errors
        .into_iter()
        .filter(|error| !before.contains(&key(error)))
        .collect()
}

/// The object's name.
pub(crate) fn name(meta: &ObjectMeta) -> &str {
    meta.name.as_deref().unwrap_or_default()
}

/// Whether deletion was requested.
pub(crate) fn deleting(meta: &ObjectMeta) -> bool {
    meta.deletion_timestamp.is_some()
}

/// Demands a v1 Secret or a security.gardener.cloud/v1alpha1 WorkloadIdentity, with name and namespace.
pub(crate) fn credentials_ref(errors: &mut Vec<FieldError>, path: &Path, reference: &ObjectReference) {
    let (api_version, kind) = (
        reference.api_version.as_deref().unwrap_or_default(),
        reference.kind.as_deref().unwrap_or_default(),
    );
    let known = matches!(
        (api_version, kind),
        ("v1", "Secret") | ("security.gardener.cloud/v1alpha1", "WorkloadIdentity")
    );
    if !known {
        errors.push(path.not_supported(
            format!("{api_version}, Kind={kind}"),
            &[
                "v1, Kind=Secret",
                "security.gardener.cloud/v1alpha1, Kind=WorkloadIdentity",
            ],
        ));
    }
    let (name, at) = (reference.name.as_deref().unwrap_or_default(), path.child("name"));
    dns_name(errors, &at, name);
    if name.is_empty() {
        errors.push(at.invalid(name, "must be a lower case DNS name"));
    }
    dns_label(
        errors,
        &path.child("namespace"),
        reference.namespace.as_deref().unwrap_or_default(),
    );
}

/// What Shoots and Seeds may name in `resources`.
const REFERABLE: [&str; 3] = [
    "v1, Kind=Secret",
    "v1, Kind=ConfigMap",
    "security.gardener.cloud/v1alpha1, Kind=WorkloadIdentity",
];

/// Demands distinct names and complete references to Secrets, ConfigMaps and WorkloadIdentities.
pub(crate) fn named_resources(errors: &mut Vec<FieldError>, path: &Path, resources: &[NamedResourceReference]) {
    distinct(errors, resources.iter().map(|r| r.name.as_str()), |index| {
        path.index(index).child("name")
    });
    for (index, NamedResourceReference { name, resource_ref }) in resources.iter().enumerate() {
        let path = path.index(index);
        not_empty(errors, &path.child("name"), name);
        not_empty(errors, &path.child("resourceRef.kind"), &resource_ref.kind);
        not_empty(errors, &path.child("resourceRef.name"), &resource_ref.name);
        not_empty(
            errors,
            &path.child("resourceRef.apiVersion"),
            resource_ref.api_version.as_deref().unwrap_or_default(),
        );
        let version = resource_ref.api_version.as_deref().unwrap_or_default();
        let kind = format!("{version}, Kind={}", resource_ref.kind);
        known(
            errors,
            &path.child("resourceRef"),
            REFERABLE.contains(&kind.as_str()),
            &kind,
            &REFERABLE,
        );
    }
}

/// The error for a changed spec of an object in deletion; `kind` in lower-case words.
pub(crate) fn frozen(kind: &str, changed: bool, meta: &ObjectMeta) -> Option<FieldError> {
    (changed && deleting(meta)).then(|| {
        Path::new("spec").forbidden(format!(
            "cannot update {kind} spec if deletion timestamp is set; remove the change from the request"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_rfc_1123() {
        for good in ["a", "a-b", "0", &"x".repeat(63)] {
            assert!(is_dns_label(good), "{good}");
        }
        for bad in ["", "-a", "a-", "A", "a.b", "ü", &"x".repeat(64)] {
            assert!(!is_dns_label(bad), "{bad}");
        }
        assert!(is_dns_name("a.b-c.example"));
        assert!(!is_dns_name("a..b"));
    }
}
