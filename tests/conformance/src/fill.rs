//! Puts values of earlier answers into a request: `<ns>` is the case's namespace, `<made.metadata.uid>` a field of the
//! answer to the request named `made`. Other texts in angle brackets are left as they are.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use crate::Outcome;
use crate::script::{Body, Step};
use crate::wire::Call;

/// What one server has answered so far, by the name of the request.
pub(crate) type Answers = BTreeMap<String, Value>;

/// The request of a step as it is sent to the server that gave these answers.
pub(crate) fn fill(step: &Step, namespace: &str, answers: &Answers) -> Outcome<Call> {
    let filled = |text: &str| fill_text(text, namespace, answers);
    let mut headers = HeaderMap::new();
    for (name, value) in &step.headers {
        let value = HeaderValue::from_str(&filled(value)?).map_err(|error| format!("{name}: {error}"))?;
        headers.append(name.clone(), value);
    }
    let body = match &step.body {
        Body::Empty => String::new(),
        Body::Json(value) => fill_value(value, answers, &filled)?.to_string(),
        Body::Raw(text) => filled(text)?,
    };
    Ok(Call {
        method: step.method.clone(),
        path: encode(&filled(&step.path)?),
        headers,
        body: body.into(),
    })
}

/// A reference to a number alone stands for the number.
fn number(text: &str, answers: &Answers) -> Option<Value> {
    let (name, path) = text.strip_prefix('<')?.strip_suffix('>')?.split_once('.')?;
    let pointer = format!("/{}", path.replace('.', "/"));
    answers
        .get(name)?
        .pointer(&pointer)
        .filter(|value| value.is_number())
        .cloned()
}

fn fill_value(value: &Value, answers: &Answers, filled: &impl Fn(&str) -> Outcome<String>) -> Outcome<Value> {
    Ok(match value {
        Value::String(text) => match number(text, answers) {
            Some(number) => number,
            None => Value::String(filled(text)?),
        },
        Value::Array(items) => items
            .iter()
            .map(|item| fill_value(item, answers, filled))
            .collect::<Outcome<_>>()?,
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| Ok((filled(key)?, fill_value(value, answers, filled)?)))
            .collect::<Outcome<serde_json::Map<_, _>>>()?
            .into(),
        other => other.clone(),
    })
}

fn fill_text(text: &str, namespace: &str, answers: &Answers) -> Outcome<String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('<') {
        filled += before;
        let Some((reference, after)) = after.split_once('>') else {
            filled.push('<');
            rest = after;
            continue;
        };
        match reference.split_once('.') {
            None if reference == "ns" => filled += namespace,
            Some((name, path)) if !reference.contains(' ') => filled += &look_up(name, path, answers)?,
            _ => {
                filled.push('<');
                filled += reference;
                filled.push('>');
            }
        }
        rest = after;
    }
    Ok(filled + rest)
}

fn look_up(name: &str, path: &str, answers: &Answers) -> Outcome<String> {
    let answer = answers.get(name).ok_or_else(|| {
        let known: Vec<&str> = answers.keys().map(String::as_str).collect();
        format!("no earlier request is called {name:?}, only {known:?}")
    })?;
    let found = path.split('.').try_fold(answer, |value, segment| match value {
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        other => other.get(segment),
    });
    Ok(match found {
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        // The difference is reported at the earlier answer; the request is sent with a placeholder.
        None => format!("nothing-at-{name}.{path}"),
    })
}

/// Encodes what a path or query may not have, so that cases can be written readably.
fn encode(path: &str) -> String {
    path.chars()
        .map(|letter| match letter {
            ' ' | '"' | '<' | '>' | '[' | ']' | '\\' | '^' | '`' | '{' | '|' | '}' => {
                format!("%{:02X}", u32::from(letter))
            }
            other => other.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_replaced_and_other_brackets_left() {
        let answers = Answers::from([("made".to_owned(), json!({"items": [{"uid": "u1"}], "n": 3}))]);
        let fill = |text: &str| fill_text(text, "here", &answers);
        assert_eq!(
            fill("/<ns>/<made.items.0.uid>/<made.n>?a<b").as_deref(),
            Ok("/here/u1/3?a<b")
        );
        assert_eq!(fill("<none> <a. b>").as_deref(), Ok("<none> <a. b>"));
        assert_eq!(fill("<made.gone>").as_deref(), Ok("nothing-at-made.gone"));
        let numbers = |value: Value| fill_value(&value, &answers, &fill);
        assert_eq!(
            numbers(json!(["<made.n>", "n<made.n>", "<made.items.0.uid>"])),
            Ok(json!([3, "n3", "u1"]))
        );
        assert!(fill("<mad.n>").unwrap_err().contains("\"mad\""));
        assert_eq!(encode("/a?labelSelector=x in (y)"), "/a?labelSelector=x%20in%20(y)");
    }
}
