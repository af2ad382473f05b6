//! Which formats (`format` in a schema) count for custom resources.

use serde_json::Value;

use crate::documents::limits::DEPTH_MAX;

/// Formats that the fields of a custom resource are validated against; others have no effect
/// (apiextensions-apiserver v0.35 `pkg/apiserver/validation/formats.go`).
const KNOWN: [&str; 26] = [
    "bsonobjectid",
    "byte",
    "cidr",
    "creditcard",
    "date",
    "datetime",
    "duration",
    "email",
    "hexcolor",
    "hostname",
    "ipv4",
    "ipv6",
    "isbn",
    "isbn10",
    "isbn13",
    "k8slongname",
    "k8sshortname",
    "mac",
    "password",
    "rgbcolor",
    "ssn",
    "uri",
    "uuid",
    "uuid3",
    "uuid4",
    "uuid5",
];

/// Whether the texts of a custom resource are validated against this format.
pub(crate) fn is_known(format: &str) -> bool {
    KNOWN.contains(&&*format.replace('-', ""))
}

/// The formats of texts in a schema's document that have no effect, in the order in which they stand.
pub fn unknown_formats(document: &Value) -> Vec<&str> {
    let mut found = Vec::new();
    collect_formats(document, 0, &mut found);
    found
}

fn collect_formats<'d>(value: &'d Value, depth: usize, found: &mut Vec<&'d str>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            let text = |name: &str| fields.get(name).and_then(Value::as_str);
            if let Some(format) = text("format").filter(|format| text("type") == Some("string") && !is_known(format)) {
                found.push(format);
            }
            fields
                .values()
                .for_each(|value| collect_formats(value, depth + 1, found));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_formats(item, depth + 1, found)),
        _ => {}
    }
}
