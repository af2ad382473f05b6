//! Field names as identifiers of CEL, and back.

use crate::syntax::reserved::is_reserved;

/// Escapes of the parts of names that no identifier can have (apiserver v0.35 `pkg/cel/escaping.go`).
const ESCAPES: [(&str, &str); 4] = [
    ("__", "__underscores__"),
    (".", "__dot__"),
    ("-", "__dash__"),
    ("/", "__slash__"),
];

/// A field name as an identifier of CEL.
pub(crate) fn escape(name: &str) -> String {
    if is_reserved(name) {
        return format!("__{name}__");
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return name.to_owned();
    }
    let escaped = ESCAPES.into_iter();
    escaped.fold(name.to_owned(), |name, (part, word)| name.replace(part, word))
}

/// The field name that an identifier stands for; none where no name is escaped like it.
pub(crate) fn unescape(identifier: &str) -> Option<String> {
    let word = |c: char| c == '_' || c.is_ascii_alphanumeric();
    if identifier.starts_with(|c: char| c.is_ascii_digit()) || !identifier.chars().all(word) {
        return None;
    }
    let reserved = identifier.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = reserved.filter(|word| is_reserved(word)) {
        return Some(word.to_owned());
    }
    let (mut name, mut rest) = (String::new(), identifier);
    while let Some(first) = rest.chars().next() {
        if let Some((part, word)) = ESCAPES.iter().find(|(_, word)| rest.starts_with(word)) {
            name.push_str(part);
            rest = &rest[word.len()..];
        } else {
            name.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    (escape(&name) == identifier).then_some(name)
}
