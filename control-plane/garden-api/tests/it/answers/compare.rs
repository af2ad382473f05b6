//! What differs between a recorded answer and ours, each difference a line.

use serde_json::Value;

use super::normal::Answer;

/// Characters of a value that a line shows.
const SHOWN_MAX: usize = 200;

pub(super) fn differences(expected: &Option<Answer>, got: &Answer) -> Vec<String> {
    let Some(expected) = expected else { return Vec::new() };
    let mut out = Vec::new();
    if expected.code != got.code {
        out.push(format!(
            "code: expected {}, got {} {}",
            expected.code, got.code, got.message
        ));
    }
    for (what, want, have) in [
        ("reason", &expected.reason, &got.reason),
        ("status", &expected.status, &got.status),
    ] {
        if want != have {
            out.push(format!("{what}: expected {want:?}, got {have:?}"));
        }
    }
    for (field, reason) in expected.causes.difference(&got.causes) {
        out.push(format!("cause missing: {field} {reason}"));
    }
    for (field, reason) in got.causes.difference(&expected.causes) {
        out.push(format!("cause added: {field} {reason}"));
    }
    object_differences(&expected.object, &got.object, "object", &mut out);
    out
}

fn object_differences(want: &Value, have: &Value, path: &str, out: &mut Vec<String>) {
    match (want, have) {
        (Value::Object(wanted), Value::Object(got)) => {
            for (field, value) in wanted {
                match got.get(field) {
                    Some(have) => object_differences(value, have, &format!("{path}.{field}"), out),
                    None => out.push(format!("{path}.{field}: missing, expected {}", shown(value))),
                }
            }
            for (field, value) in got.iter().filter(|(field, _)| !wanted.contains_key(*field)) {
                out.push(format!("{path}.{field}: added {}", shown(value)));
            }
        }
        (Value::Array(wanted), Value::Array(got)) if wanted.len() == got.len() => {
            for (index, (want, have)) in wanted.iter().zip(got).enumerate() {
                object_differences(want, have, &format!("{path}[{index}]"), out);
            }
        }
        _ if want == have => {}
        _ => out.push(format!("{path}: expected {}, got {}", shown(want), shown(have))),
    }
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(SHOWN_MAX).collect()
}
