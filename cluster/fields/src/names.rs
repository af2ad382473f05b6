//! Rules for names, labels and annotations that all of Kubernetes shares (apimachinery v0.35
//! `pkg/util/validation/validation.go` and `pkg/api/validation`). Each rule returns `None` when the text is good,
//! otherwise why not, in Kubernetes' words.

use serde_json::{Map, Value};

use crate::error::FieldError;
use crate::path::FieldPath;

/// Longest DNS label, in bytes.
pub const LABEL_BYTES_MAX: usize = 63;
/// Longest DNS subdomain, in bytes.
pub const SUBDOMAIN_BYTES_MAX: usize = 253;
/// Finalizers of Kubernetes itself, which need no domain.
pub const STANDARD_FINALIZERS: [&str; 3] = ["foregroundDeletion", "kubernetes", "orphan"];
/// All annotations of an object together, in bytes.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

const LABEL_WORDS: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const SUBDOMAIN_WORDS: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
const LABEL_1035_WORDS: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";
const QUALIFIED_WORDS: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
const LABEL_VALUE_WORDS: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

fn too_long(bytes_max: usize) -> String {
    format!("must be no more than {bytes_max} bytes")
}

fn lower_label(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    let edge = |b: Option<&u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let bytes = text.as_bytes();
    edge(bytes.first()) && edge(bytes.last()) && bytes.iter().all(|b| inner(*b))
}

/// A lowercase RFC 1123 label.
pub fn dns_label(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES_MAX {
        return Some(too_long(LABEL_BYTES_MAX));
    }
    if !lower_label(text) && dns_subdomain(text).is_none() {
        return Some("must not contain dots".to_owned());
    }
    (!lower_label(text)).then(|| LABEL_WORDS.to_owned())
}

/// An RFC 1035 label: as a DNS label, but starting with a letter.
pub fn dns_label_1035(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES_MAX {
        return Some(too_long(LABEL_BYTES_MAX));
    }
    let good = lower_label(text) && text.as_bytes().first().is_some_and(u8::is_ascii_lowercase);
    (!good).then(|| LABEL_1035_WORDS.to_owned())
}

/// A lowercase RFC 1123 subdomain.
pub fn dns_subdomain(text: &str) -> Option<String> {
    if text.len() > SUBDOMAIN_BYTES_MAX {
        return Some(too_long(SUBDOMAIN_BYTES_MAX));
    }
    (!text.split('.').all(lower_label)).then(|| SUBDOMAIN_WORDS.to_owned())
}

/// A name that stands in a URL path, as RBAC objects have: no `/`, no `%`, not `.` or `..`.
pub fn path_segment(text: &str) -> Option<String> {
    match text {
        "." | ".." => Some(format!("may not be '{text}'")),
        _ if text.contains('/') => Some("may not contain '/'".to_owned()),
        _ if text.contains('%') => Some("may not contain '%'".to_owned()),
        _ => None,
    }
}

/// A label or annotation key: `name` or `prefix/name`. All that is wrong with it, as one text.
pub fn qualified_name(text: &str) -> Option<String> {
    let faults = qualified_name_faults(text);
    (!faults.is_empty()).then(|| faults.join("; "))
}

/// All that is wrong with a label or annotation key, each for itself.
fn qualified_name_faults(text: &str) -> Vec<String> {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    if name.contains('/') {
        return vec![format!(
            "a valid label key {QUALIFIED_WORDS} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        )];
    }
    let mut faults = Vec::new();
    match prefix {
        Some("") => faults.push("prefix part must be non-empty".to_owned()),
        Some(prefix) => faults.extend(dns_subdomain(prefix).map(|why| format!("prefix part {why}"))),
        None => {}
    }
    if name.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_BYTES_MAX {
        faults.push(format!("name part {}", too_long(LABEL_BYTES_MAX)));
    }
    if !mixed_label(name) {
        faults.push(format!("name part {QUALIFIED_WORDS}"));
    }
    faults
}

/// Errors of a label or annotation key.
pub fn validate_qualified_name(text: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let faults = qualified_name_faults(text).into_iter();
    errors.extend(faults.map(|why| FieldError::invalid(*path, text, why)));
}

/// The value of a label.
pub fn label_value(text: &str) -> Option<String> {
    if text.len() > LABEL_BYTES_MAX {
        return Some(too_long(LABEL_BYTES_MAX));
    }
    (!text.is_empty() && !mixed_label(text)).then(|| LABEL_VALUE_WORDS.to_owned())
}

fn mixed_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |b: Option<&u8>| b.is_some_and(u8::is_ascii_alphanumeric);
    edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
}

/// An environment variable's name: printable ASCII without `=`.
pub fn env_name(text: &str) -> Option<String> {
    let good = !text.is_empty() && text.bytes().all(|b| (b' '..=b'~').contains(&b) && b != b'=');
    (!good).then(|| {
        "a valid environment variable name must consist only of printable ASCII characters other than '='".to_owned()
    })
}

/// All that is wrong with the name of a port in an IANA registry: at most 15 lower-case letters, digits and `-`, at least
/// one letter (Kubernetes v1.35 `IsValidPortName`).
pub fn port_name(text: &str) -> Vec<&'static str> {
    let is_letter = |b: u8| b.is_ascii_lowercase();
    let is_known = |b: u8| is_letter(b) || b.is_ascii_digit() || b == b'-';
    let faults = [
        (text.len() > 15, "must be no more than 15 characters"),
        (
            text.is_empty() || !text.bytes().all(is_known),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (!text.bytes().any(is_letter), "must contain at least one letter (a-z)"),
        (text.contains("--"), "must not contain consecutive hyphens"),
        (
            text.starts_with('-') || text.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    faults
        .into_iter()
        .filter_map(|(is_so, why)| is_so.then_some(why))
        .collect()
}

/// A key of a ConfigMap or Secret.
pub fn config_key(text: &str) -> Option<String> {
    if text.len() > SUBDOMAIN_BYTES_MAX {
        return Some(too_long(SUBDOMAIN_BYTES_MAX));
    }
    if text == "." || text == ".." {
        return Some(format!("must not be '{text}'"));
    }
    if text.starts_with("..") {
        return Some("must not start with '..'".to_owned());
    }
    let good = !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    (!good).then(|| {
        "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  \
         or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
            .to_owned()
    })
}

/// Errors in a map of labels.
pub fn validate_labels(labels: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    for (key, value) in labels {
        validate_qualified_name(key, path, errors);
        if let Some(why) = value.as_str().and_then(label_value) {
            errors.push(FieldError::invalid(path, value.clone(), why));
        }
    }
}

/// Errors in a map of annotations.
pub fn validate_annotations(annotations: &Map<String, Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut bytes = 0;
    for (key, value) in annotations {
        let faults = qualified_name_faults(&key.to_lowercase()).into_iter();
        errors.extend(faults.map(|why| FieldError::invalid(path, key.as_str(), why)));
        bytes += key.len() + value.as_str().map_or(0, str::len);
    }
    if bytes > ANNOTATIONS_BYTES_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kubernetes_rules() {
        type Rule = fn(&str) -> Option<String>;
        let long = "a".repeat(64);
        let table: [(Rule, &str, bool); 18] = [
            (dns_label, "a-1", true),
            (dns_label, "1a", true),
            (dns_label, "-a", false),
            (dns_label, "", false),
            (dns_label, &long, false),
            (dns_label_1035, "1a", false),
            (dns_subdomain, "a.b", true),
            (dns_subdomain, "a..b", false),
            (path_segment, "system:x", true),
            (path_segment, "a/b", false),
            (qualified_name, "example.com/My_Name", true),
            (qualified_name, "/x", false),
            (qualified_name, "a/b/c", false),
            (label_value, "", true),
            (label_value, "a b", false),
            (|name| port_name(name).first().map(ToString::to_string), "http", true),
            (|name| port_name(name).first().map(ToString::to_string), "123", false),
            (config_key, "..a", false),
        ];
        for (rule, text, good) in table {
            assert_eq!(rule(text).is_none(), good, "{text}");
        }
    }
}
