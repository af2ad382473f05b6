//! Two answers side by side: status, the headers that clients act on, and the body as JSON where it is JSON.

use std::collections::BTreeSet;
use std::fmt;

use http::HeaderName;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, LOCATION, RETRY_AFTER, WARNING, WWW_AUTHENTICATE,
};
use serde_json::{Value, json};

use crate::Answer;

/// Headers that clients act on.
const HEADERS: [HeaderName; 8] = [
    ALLOW,
    CACHE_CONTROL,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    LOCATION,
    RETRY_AFTER,
    WARNING,
    WWW_AUTHENTICATE,
];
/// Fields that identify the items of a list.
const KEYS: [&str; 6] = ["name", "resource", "subresource", "field", "type", "groupVersion"];
/// Characters of a value that a difference shows.
const SHOWN_CHARS_MAX: usize = 400;

/// One place at which two answers are not the same.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// `2/body/metadata/name`: the number of the request, then a JSON pointer.
    pub at: String,
    /// What real Kubernetes has there, if anything.
    pub real: Option<Value>,
    /// What ours has there.
    pub ours: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "    {}", self.at)?;
        writeln!(f, "      real: {}", show(self.real.as_ref()))?;
        write!(f, "      ours: {}", show(self.ours.as_ref()))
    }
}

fn show(value: Option<&Value>) -> String {
    let text = value.map_or("nothing".to_owned(), Value::to_string);
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{} ...", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

/// An answer as one JSON value.
pub(crate) fn picture(answer: &Answer) -> Value {
    let headers: serde_json::Map<String, Value> = HEADERS
        .iter()
        .filter_map(|name| {
            let values: Vec<String> = answer
                .headers
                .get_all(name)
                .iter()
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
                .collect();
            (!values.is_empty()).then(|| (name.to_string(), values.join("\n").into()))
        })
        .collect();
    json!({"status": answer.status.as_u16(), "headers": headers, "body": body(answer)})
}

/// The body of an answer: JSON, read from YAML where it is that, a list of JSON values when it is a stream of them,
/// else text.
pub(crate) fn body(answer: &Answer) -> Value {
    let is_yaml = answer
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/yaml");
    if let Some(value) = std::str::from_utf8(&answer.body).ok().filter(|_| is_yaml)
        && let Ok(value) = base_yaml::read_strict(value)
    {
        return value;
    }
    let values: Result<Vec<Value>, _> = serde_json::Deserializer::from_slice(&answer.body)
        .into_iter::<Value>()
        .collect();
    match values {
        Ok(mut values) if values.len() == 1 => values.remove(0),
        Ok(values) if !values.is_empty() => Value::Array(values),
        _ => String::from_utf8_lossy(&answer.body).into_owned().into(),
    }
}

/// All places where two pictures differ, the deepest that can be named; lists of plain values differ as a whole. Of answers of
/// different status nothing else is compared.
pub(crate) fn differences(at: &str, real: &Value, ours: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    if real["status"] != ours["status"] {
        let whole = |picture: &Value| Some(json!([picture["status"], picture["body"]]));
        return vec![Difference {
            at: at.to_owned(),
            real: whole(real),
            ours: whole(ours),
        }];
    }
    collect(at, Some(real), Some(ours), &mut found);
    found
}

fn collect(at: &str, real: Option<&Value>, ours: Option<&Value>, found: &mut Vec<Difference>) {
    match (real, ours) {
        (Some(Value::Object(real)), Some(Value::Object(ours))) => {
            let keys: BTreeSet<&String> = real.keys().chain(ours.keys()).collect();
            for key in keys {
                let at = format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
                collect(&at, real.get(key), ours.get(key), found);
            }
        }
        (Some(Value::Array(real)), Some(Value::Array(ours))) if keys(real).is_some() && keys(ours).is_some() => {
            collect_named(at, real, ours, found);
        }
        (Some(Value::Array(real)), Some(Value::Array(ours))) if real.iter().chain(ours).any(is_deep) => {
            for index in 0..real.len().max(ours.len()) {
                collect(&format!("{at}/{index}"), real.get(index), ours.get(index), found);
            }
        }
        (real, ours) if real != ours => found.push(Difference {
            at: at.to_owned(),
            real: real.cloned(),
            ours: ours.cloned(),
        }),
        _ => {}
    }
}

fn is_deep(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

/// Compares items by their names, so that a missing one does not shift all behind it.
fn collect_named(at: &str, real: &[Value], ours: &[Value], found: &mut Vec<Difference>) {
    let (Some(real_keys), Some(our_keys)) = (keys(real), keys(ours)) else {
        return;
    };
    let item = |keys: &[&str], items: &'_ [Value], key: &str| {
        let index = keys.iter().position(|found| *found == key)?;
        items.get(index).cloned()
    };
    let all: BTreeSet<&str> = real_keys.iter().chain(&our_keys).copied().collect();
    for key in all {
        let at = format!("{at}/[{}]", key.replace('~', "~0").replace('/', "~1"));
        let (real, ours) = (item(&real_keys, real, key), item(&our_keys, ours, key));
        collect(&at, real.as_ref(), ours.as_ref(), found);
    }
    let common = |keys: &[&str], others: &[&str]| -> Vec<String> {
        let both = keys.iter().filter(|key| others.contains(key));
        both.map(|key| (*key).to_owned()).collect()
    };
    let (real, ours) = (common(&real_keys, &our_keys), common(&our_keys, &real_keys));
    if real != ours {
        found.push(Difference {
            at: format!("{at}/order"),
            real: Some(real.into()),
            ours: Some(ours.into()),
        });
    }
}

/// The names of the items, if all have one and they are unique.
fn keys(items: &[Value]) -> Option<Vec<&str>> {
    let keys: Vec<&str> = items
        .iter()
        .map(|item| {
            let object = item.pointer("/metadata/name").and_then(Value::as_str);
            object.or_else(|| KEYS.iter().find_map(|key| item.get(key)?.as_str()))
        })
        .collect::<Option<_>>()?;
    let unique: BTreeSet<&str> = keys.iter().copied().collect();
    (unique.len() == keys.len()).then_some(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_that_differs_is_named_once() {
        let real = json!({"a/b": 1, "list": [1, 2], "same": {"x": []}, "kind": {"x": 1}});
        let ours = json!({"a/b": 2, "list": [1], "same": {"x": []}, "kind": [1], "more": null});
        let at: Vec<String> = differences("1", &real, &ours)
            .into_iter()
            .map(|found| found.at)
            .collect();
        assert_eq!(at, ["1/a~1b", "1/kind", "1/list", "1/more"]);
    }

    #[test]
    fn items_are_known_by_their_names() {
        let real = json!([{"name": "a", "x": 1}, {"name": "b/c", "x": 1}, {"name": "d"}]);
        let ours = json!([{"name": "d"}, {"name": "b/c", "x": 2}]);
        let at: Vec<String> = differences("1", &real, &ours)
            .into_iter()
            .map(|found| found.at)
            .collect();
        assert_eq!(at, ["1/[a]", "1/[b~1c]/x", "1/order"]);
        let twice = json!([{"name": "a"}, {"name": "a", "x": 1}]);
        let at: Vec<String> = differences("1", &real, &twice)
            .into_iter()
            .map(|found| found.at)
            .collect();
        assert_eq!(at, ["1/0/x", "1/1/name", "1/2"]);
    }

    #[test]
    fn answers_of_different_status_differ_as_a_whole() {
        let found = differences(
            "1",
            &json!({"status": 200, "body": 1}),
            &json!({"status": 404, "body": 2}),
        );
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].at.as_str(), &found[0].ours), ("1", &Some(json!([404, 2]))));
    }

    #[test]
    fn a_stream_is_a_list_and_no_json_is_text() {
        let answer = |body: &'static str| Answer {
            status: http::StatusCode::OK,
            headers: http::HeaderMap::new(),
            body: body.into(),
        };
        assert_eq!(body(&answer("{\"a\":1}\n{\"a\":2}\n")), json!([{"a": 1}, {"a": 2}]));
        assert_eq!(body(&answer("[1]")), json!([1]));
        assert_eq!(body(&answer("ok {")), json!("ok {"));
        assert_eq!(body(&answer("")), json!(""));
    }
}
