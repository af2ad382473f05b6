//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with limits that keep a small patch from making a large
//! object.

use json_patch::{Patch, PatchOperation};
use serde_json::Value;

use crate::error::PatchError;

/// Operations in one JSON patch, as in apiserver v0.35 `pkg/endpoints/handlers/patch.go`.
pub const OPERATIONS_MAX: usize = 10_000;
/// Bytes that all `copy` operations of one patch may copy: the largest request body; each copy could double the object.
pub const COPY_BYTES_MAX: usize = 3 << 20;
/// How deep an object may become by patching: as deep as serde_json reads one. Deeper ones could not be read back.
pub const DEPTH_MAX: usize = 127;

/// The object after a JSON patch. The patch is applied wholly or not at all.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let operations = patch.as_array().map_or(0, Vec::len);
    if operations > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {operations}"
        )));
    }
    let Patch(operations) = serde_json::from_value(patch.clone())
        .map_err(|error| PatchError::Malformed(format!("error decoding patch: {error}")))?;
    let mut result = object.clone();
    let mut copied = 0;
    for operation in &operations {
        check_growth(&result, operation, &mut copied)?;
        json_patch::patch(&mut result, std::slice::from_ref(operation))
            .map_err(|error| PatchError::NotApplicable(error.to_string()))?;
    }
    Ok(result)
}

/// Refuses an operation that would copy too much or nest too deep.
fn check_growth(object: &Value, operation: &PatchOperation, copied: &mut usize) -> Result<(), PatchError> {
    let (target, value) = match operation {
        PatchOperation::Add(add) => (&add.path, Some(&add.value)),
        PatchOperation::Replace(replace) => (&replace.path, Some(&replace.value)),
        PatchOperation::Move(moved) => (&moved.path, moved.from.resolve(object).ok()),
        PatchOperation::Copy(copy) => {
            let source = copy.from.resolve(object).ok();
            *copied += source.map_or(0, |value| value.to_string().len());
            if *copied > COPY_BYTES_MAX {
                return Err(PatchError::TooLarge(format!(
                    "Unable to complete copy, the accumulated size increase of JSON patch copy is {copied}, exceeding the limit {COPY_BYTES_MAX}"
                )));
            }
            (&copy.path, source)
        }
        PatchOperation::Remove(_) | PatchOperation::Test(_) => return Ok(()),
    };
    let nested = target.tokens().count() + value.map_or(0, depth);
    if nested > DEPTH_MAX {
        return Err(PatchError::TooLarge(format!(
            "the patched object would be nested deeper than {DEPTH_MAX} levels"
        )));
    }
    Ok(())
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The object after a JSON merge patch: null removes, objects merge, everything else replaces.
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if !patch.is_object() {
        return Err(PatchError::Malformed("a merge patch must be a JSON object".to_owned()));
    }
    let mut result = object.clone();
    merge_into(&mut result, patch);
    Ok(result)
}

fn merge_into(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    if let Value::Object(fields) = target {
        for (name, change) in changes {
            if change.is_null() {
                fields.remove(name);
            } else {
                merge_into(fields.entry(name.as_str()).or_insert(Value::Null), change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn json_patch_edits_in_order_and_wholly_or_not_at_all() {
        let object = json!({"metadata": {"labels": {"a/b": "1", "c~d": "2"}}, "list": [1, 2, 3]});
        let patch = json!([
            {"op": "test", "path": "/metadata/labels/a~1b", "value": "1"},
            {"op": "remove", "path": "/metadata/labels/c~0d"},
            {"op": "add", "path": "/list/-", "value": 4},
            {"op": "add", "path": "/list/0", "value": 0},
            {"op": "copy", "from": "/list", "path": "/copied"},
            {"op": "move", "from": "/list", "path": "/moved"},
        ]);
        let expected = json!({
            "metadata": {"labels": {"a/b": "1"}}, "copied": [0, 1, 2, 3, 4], "moved": [0, 1, 2, 3, 4],
        });
        assert_eq!(json_patch(&object, &patch), Ok(expected));
        let failing = json!([{"op": "remove", "path": "/list"}, {"op": "test", "path": "/metadata", "value": 1}]);
        assert!(matches!(
            json_patch(&object, &failing),
            Err(PatchError::NotApplicable(_))
        ));
        for broken in [
            json!({}),
            json!([{"op": "fly", "path": "/a"}]),
            json!([{"op": "add", "path": "a", "value": 1}]),
        ] {
            assert!(
                matches!(json_patch(&object, &broken), Err(PatchError::Malformed(_))),
                "{broken}"
            );
        }
    }

    #[test]
    fn small_patches_cannot_make_large_or_deep_objects() {
        let doubling: Vec<_> = (0..64)
            .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}))
            .collect();
        let result = json_patch(&json!({"a": {"pad": "x".repeat(1000)}}), &json!(doubling));
        assert!(matches!(result, Err(PatchError::TooLarge(_))));

        let mut path = String::new();
        let deepening: Vec<_> = (0..300)
            .map(|_| {
                path.push_str("/x");
                json!({"op": "add", "path": path, "value": {}})
            })
            .collect();
        assert!(matches!(
            json_patch(&json!({}), &json!(deepening)),
            Err(PatchError::TooLarge(_))
        ));

        let many = vec![json!({"op": "test", "path": "", "value": {}}); OPERATIONS_MAX + 1];
        assert!(matches!(
            json_patch(&json!({}), &json!(many)),
            Err(PatchError::TooLarge(_))
        ));
    }

    #[test]
    fn merge_patch_follows_the_table_of_rfc_7386() {
        for (object, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (
                json!({"a": {"b": "c"}}),
                json!({"a": {"b": "d", "c": null}}),
                json!({"a": {"b": "d"}}),
            ),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merge_patch(&object, &patch), Ok(result), "{patch}");
        }
        assert!(merge_patch(&json!({}), &json!([])).is_err());
    }
}
