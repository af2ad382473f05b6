//! The comparable part of an answer: without what differs from run to run (UIDs, versions, times, generated names, the
//! caller's name), with lists in one order and tables as columns and cells. Messages are not compared.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::text_at;

/// What is compared of one answer.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    pub(super) code: u16,
    #[serde(default)]
    pub(super) reason: Option<String>,
    #[serde(default)]
    pub(super) status: Option<String>,
    /// Field and reason of each cause.
    #[serde(default)]
    pub(super) causes: BTreeSet<(String, String)>,
    #[serde(default)]
    pub(super) object: Value,
    /// For the report alone; recorded answers come without it.
    #[serde(skip)]
    pub(super) message: String,
}

pub(super) fn answer_of(code: u16, body: &Value, user: &str, random_window: bool) -> Answer {
    let mut answer = Answer {
        code,
        ..Answer::default()
    };
    let kind = text_at(body, "/kind");
    if kind == "Status" && body["apiVersion"] == "v1" {
        answer.reason = Some(text_at(body, "/reason").to_owned());
        answer.status = Some(text_at(body, "/status").to_owned());
        if code >= 400 {
            let causes = body.pointer("/details/causes").and_then(Value::as_array);
            let pair = |cause: &Value| {
                (
                    text_at(cause, "/field").to_owned(),
                    text_at(cause, "/reason").to_owned(),
                )
            };
            answer.causes = causes.into_iter().flatten().map(pair).collect();
            answer.message = text_at(body, "/message").to_owned();
        }
        return answer;
    }
    answer.object = match kind {
        "" => Value::Null,
        "Table" => table(body),
        "APIResourceList" => resources(body),
        _ => object(body, user, random_window),
    };
    answer
}

fn table(body: &Value) -> Value {
    let list = |field: &str| body[field].as_array().cloned().unwrap_or_default();
    let column = |column: Value| json!({"name": column["name"], "type": column["type"], "format": column["format"], "priority": column["priority"]});
    let cell = |cell: &Value| match cell.as_str() {
        Some(text) if is_age(text) => json!("<age>"),
        _ => cell.clone(),
    };
    let row = |row: Value| -> Vec<Value> { row["cells"].as_array().into_iter().flatten().map(cell).collect() };
    let columns: Vec<Value> = list("columnDefinitions").into_iter().map(column).collect();
    let rows: Vec<Vec<Value>> = list("rows").into_iter().map(row).collect();
    json!({"columns": columns, "rows": rows})
}

fn resources(body: &Value) -> Value {
    let mut out = Map::new();
    for resource in body["resources"].as_array().into_iter().flatten() {
        let mut retained = Map::new();
        for field in ["kind", "namespaced", "singularName", "shortNames", "categories"] {
            retained.insert(field.to_owned(), resource[field].clone());
        }
        let verbs: BTreeSet<&str> = resource["verbs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        retained.insert("verbs".to_owned(), json!(verbs));
        out.insert(text_at(resource, "/name").to_owned(), Value::Object(retained));
    }
    Value::Object(out)
}

fn object(body: &Value, user: &str, random_window: bool) -> Value {
    let mut object = normal(body, user, "");
    if let Some(items) = object["items"].as_array_mut() {
        items.sort_by_key(|item| {
            (
                text_at(item, "/metadata/namespace").to_owned(),
                text_at(item, "/metadata/name").to_owned(),
            )
        });
        if let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove("remainingItemCount");
        }
    } else if let Some(fields) = object.as_object_mut() {
        fields.remove("items");
    }
    if random_window {
        for end in ["begin", "end"] {
            let time = object.pointer_mut(&format!("/spec/maintenance/timeWindow/{end}"));
            if let Some(time) = time.filter(|time| time.as_str().is_some_and(is_whole_window_time)) {
                *time = json!("<random>");
            }
        }
    }
    object
}

fn normal(value: &Value, user: &str, key: &str) -> Value {
    match value {
        Value::Object(fields) => {
            const DROPPED: [&str; 4] = ["uid", "resourceVersion", "managedFields", "selfLink"];
            let retained = fields
                .iter()
                .filter(|(field, _)| key != "metadata" || !DROPPED.contains(&field.as_str()));
            Value::Object(
                retained
                    .map(|(field, value)| (field.clone(), normal(value, user, field)))
                    .collect(),
            )
        }
        Value::Array(items) => items.iter().map(|item| normal(item, user, key)).collect(),
        Value::String(text) if key == "gardener.cloud/operation" => {
            let parts: BTreeSet<&str> = text.split(';').collect();
            json!(parts.into_iter().collect::<Vec<_>>().join(";"))
        }
        Value::String(text) if text == user && ["name", "gardener.cloud/created-by"].contains(&key) => json!("<user>"),
        Value::String(text) => json!(normal_text(text)),
        other => other.clone(),
    }
}

/// Times and UIDs inside a text become placeholders.
fn normal_text(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let before = out
            .chars()
            .next_back()
            .is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
        let found = if before {
            None
        } else if let Some(length) = time_length(rest) {
            Some(("<time>", length))
        } else {
            uid_length(rest).map(|length| ("<uid>", length))
        };
        match found {
            Some((placeholder, length)) => {
                out.push_str(placeholder);
                rest = &rest[length..];
            }
            None => {
                out.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    out
}

/// Whether bytes follow a pattern in which `d` is a digit, `x` a lower-case hexadecimal digit, and others themselves.
fn follows(text: &str, pattern: &str) -> bool {
    let fits = |(wanted, byte): (u8, u8)| match wanted {
        b'd' => byte.is_ascii_digit(),
        b'x' => byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte),
        other => byte == other,
    };
    text.len() >= pattern.len() && pattern.bytes().zip(text.bytes()).all(fits)
}

fn time_length(text: &str) -> Option<usize> {
    const SECONDS: &str = "dddd-dd-ddTdd:dd:dd";
    if !follows(text, SECONDS) {
        return None;
    }
    let mut end = SECONDS.len();
    if let Some(fraction) = text[end..].strip_prefix('.') {
        end += 1 + fraction.bytes().take_while(u8::is_ascii_digit).count();
    }
    let zone = &text[end..];
    if zone.starts_with('Z') {
        Some(end + 1)
    } else {
        (follows(zone, "+dd:dd") || follows(zone, "-dd:dd")).then_some(end + "+00:00".len())
    }
}

fn uid_length(text: &str) -> Option<usize> {
    const UID: &str = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    let ends = !text[UID.len().min(text.len())..].starts_with(|letter: char| letter.is_alphanumeric());
    (follows(text, UID) && ends).then_some(UID.len())
}

/// `220000+0000`: the six digits and no other zone.
fn is_whole_window_time(text: &str) -> bool {
    text.len() == "dddddd+0000".len() && follows(text, "dddddd+0000")
}

/// `5d3h`, or what stands for no age.
fn is_age(text: &str) -> bool {
    let mut digits = 0;
    let mut complete = false;
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                complete = false;
            }
            b's' | b'm' | b'h' | b'd' | b'y' if digits > 0 => {
                digits = 0;
                complete = true;
            }
            _ => return text == "<unknown>",
        }
    }
    complete
}

#[test]
fn texts_that_differ_from_run_to_run_become_placeholders() {
    let uid = "at 2026-01-01T00:00:00Z: 0a1b2c3d-0000-1111-2222-333344445555";
    assert_eq!(normal_text(uid), "at <time>: <uid>");
    assert_eq!(normal_text("2026-01-01T00:00:00.5+01:00"), "<time>");
    assert_eq!(normal_text("x2026-01-01"), "x2026-01-01");
    assert!(is_age("5d3h") && is_age("<unknown>") && !is_age("5") && !is_age("1.35.0"));
}
