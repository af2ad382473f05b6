//! A webhook's JSON patch applied, and why it cannot be, in the words of the library that kube-apiserver uses
//! (gopkg.in/evanphx/json-patch.v4 `patch.go`). It knows nothing of kinds.

use cluster_patch::json_patch;
use serde_json::{Value, json};

use crate::wire::status::Status;

/// The object after the patch. Errors: 500 with the reason why it cannot be applied.
pub(crate) fn apply(object: &Value, patch: &Value) -> Result<Value, Status> {
    json_patch(object, patch).map_err(|error| Status::internal(why(object, patch).unwrap_or_else(|| error.to_string())))
}

/// What is wrong with the first operation that cannot be applied.
fn why(object: &Value, patch: &Value) -> Option<String> {
    let mut document = object.clone();
    for operation in patch.as_array()? {
        match json_patch(&document, &json!([operation])) {
            Ok(next) => document = next,
            Err(_) => return of_operation(&document, operation),
        }
    }
    None
}

fn of_operation(document: &Value, operation: &Value) -> Option<String> {
    let (name, path) = (operation.get("op")?.as_str()?, operation.get("path")?.as_str()?);
    let (parent, key) = path.rsplit_once('/')?;
    let has_parent = document
        .pointer(parent)
        .is_some_and(|parent| parent.is_object() || parent.is_array());
    Some(match (name, has_parent) {
        ("add" | "remove", false) => {
            format!("{name} operation does not apply: doc is missing path: \"{path}\": missing value")
        }
        ("replace", false) => format!("replace operation does not apply: doc is missing path: {path}: missing value"),
        ("test", false) => format!("test operation does not apply: is missing path: {path}: missing value"),
        ("replace", true) => format!("replace operation does not apply: doc is missing key: {path}: missing value"),
        ("test", true) => format!("testing value {path} failed: test failed"),
        ("remove", true) if document.pointer(parent)?.is_object() => {
            format!("error in remove for path: '{path}': Unable to remove nonexistent key: {key}: missing value")
        }
        ("add" | "remove", true) => {
            format!(
                "error in {name} for path: '{path}': Unable to access invalid index: {key}: invalid index referenced"
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_that_cannot_be_applied_is_reported_as_by_kube_apiserver() {
        let object = json!({"a": {"b": 1}, "l": [1]});
        for (operation, expected) in [
            (
                json!({"op": "remove", "path": "/x"}),
                "error in remove for path: '/x': Unable to remove nonexistent key: x: missing value",
            ),
            (
                json!({"op": "add", "path": "/x/y", "value": 1}),
                "add operation does not apply: doc is missing path: \"/x/y\": missing value",
            ),
            (
                json!({"op": "replace", "path": "/a/x/y", "value": 1}),
                "replace operation does not apply: doc is missing path: /a/x/y: missing value",
            ),
            (
                json!({"op": "test", "path": "/a/b", "value": 2}),
                "testing value /a/b failed: test failed",
            ),
            (
                json!({"op": "remove", "path": "/l/3"}),
                "error in remove for path: '/l/3': Unable to access invalid index: 3: invalid index referenced",
            ),
        ] {
            let patch = json!([{"op": "add", "path": "/a/c", "value": 1}, operation]);
            let refused = apply(&object, &patch).unwrap_err();
            assert_eq!(refused.message(), format!("Internal error occurred: {expected}"));
        }
    }
}
