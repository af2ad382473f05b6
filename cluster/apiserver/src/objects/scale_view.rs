//! An `autoscaling/v1` Scale as a view of an object: its numbers read and set by paths. It stores nothing.

use serde_json::{Value, json};

use crate::kinds::resource::ScalePaths;
use crate::wire::status::Status;

/// The value at a path such as `.spec.replicas`.
pub(crate) fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .filter(|part| !part.is_empty())
        .try_fold(object, |value, part| value.get(part))
}

pub(crate) fn set(object: &mut Value, path: &str, value: Value) -> bool {
    let mut here = object;
    let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let Some((last, parents)) = parts.split_last() else {
        return false;
    };
    for part in parents {
        let Some(fields) = here.as_object_mut() else {
            return false;
        };
        here = fields.entry(*part).or_insert_with(|| json!({}));
    }
    here.as_object_mut()
        .map(|fields| fields.insert((*last).to_owned(), value))
        .is_some()
}

/// The object as a Scale.
pub(crate) fn view(object: &Value, paths: &ScalePaths) -> Value {
    let mut shown = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            shown[field] = value.clone();
        }
    }
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    let current = at(object, &paths.status_replicas)
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let mut status = json!({"replicas": current});
    if let Some(selector) = paths
        .selector
        .as_ref()
        .and_then(|path| at(object, path))
        .and_then(selector_text)
    {
        status["selector"] = Value::String(selector);
    }
    // Go leaves out a number that is zero.
    let replicas = replicas.filter(|replicas| *replicas != 0);
    let spec = replicas.map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
}

/// A label selector as text, sorted by key.
fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression.get("key").and_then(Value::as_str)?;
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match expression.get("operator").and_then(Value::as_str)? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    Some(parts.join(","))
}

/// The replicas in a Scale; 0 when there are none, as upstream. Errors: it is no Scale, or has no number there.
pub(crate) fn replicas_of(scale: &Value) -> Result<i32, Status> {
    let refuse = |why: String| Err(Status::bad_request(why));
    if !scale.is_object() {
        return refuse("the body is no Scale but a list or a single value: send a JSON object".to_owned());
    }
    for (field, wanted) in [("kind", "Scale"), ("apiVersion", "autoscaling/v1")] {
        match scale.get(field) {
            None | Some(Value::Null) => {}
            Some(given) if given == wanted => {}
            Some(given) => {
                return refuse(format!(
                    "{field} {given} is not {wanted:?}: send a Scale of autoscaling/v1"
                ));
            }
        }
    }
    let given = match scale.get("spec") {
        None | Some(Value::Null) => None,
        Some(Value::Object(spec)) => spec.get("replicas").filter(|given| !given.is_null()),
        Some(other) => return refuse(format!("spec {other} is not a JSON object")),
    };
    let Some(given) = given else { return Ok(0) };
    match given.as_i64().map(i32::try_from) {
        Some(Ok(replicas)) => Ok(replicas),
        _ => refuse(format!("spec.replicas {given} is not a whole number of 32 bits")),
    }
}
