//! Paths of fields inside a schema document, as definitions name them (apiextensions-apiserver v0.35 `fieldPath` of rules,
//! `selectableFields`).

use serde_json::{Map, Value};

/// The schema that a path such as `.spec.name` or `['a']` leads to, and the names on the way.
///
/// # Errors
/// The path is malformed or leads to no field; in the words of Kubernetes.
pub fn find_field<'j>(
    json: &'j Map<String, Value>,
    path: &str,
    with_brackets: bool,
) -> Result<(Vec<String>, &'j Map<String, Value>), &'static str> {
    const NOWHERE: &str = "does not refer to a valid field";
    const CUT_OFF: &str = "unexpected end of JSON path";
    let (mut here, mut names, mut rest) = (json, Vec::new(), path);
    while !rest.is_empty() {
        let name = if let Some(tail) = rest.strip_prefix('.') {
            let end = tail.find(['.', '[', ']']).unwrap_or(tail.len());
            rest = &tail[end..];
            match &tail[..end] {
                "" => return Err(CUT_OFF),
                name => name.to_owned(),
            }
        } else if let Some(tail) = rest.strip_prefix('[') {
            if !with_brackets {
                return Err("array notation is not allowed");
            }
            let inner = tail.strip_prefix('\'').ok_or("expected single quoted string")?;
            let end = inner.find("']").ok_or(CUT_OFF)?;
            rest = &inner[end + 2..];
            inner[..end].replace("\\'", "'")
        } else {
            return Err("expected [ or .");
        };
        let below = match here.get("properties").and_then(Value::as_object) {
            Some(fields) => fields.get(&name),
            None => here.get("additionalProperties"),
        };
        here = below.and_then(Value::as_object).ok_or(NOWHERE)?;
        names.push(name);
    }
    Ok((names, here))
}
