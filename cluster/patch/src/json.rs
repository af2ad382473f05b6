//! JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with limits that keep a small patch from making a large
//! object.

use base_yaml::go::json_kind;
use serde_json::{Map, Value};

use crate::element::same;
use crate::error::PatchError;

/// Operations in one JSON patch, as in apiserver v0.35 `pkg/endpoints/handlers/patch.go`.
pub const OPERATIONS_MAX: usize = 10_000;
/// Bytes that all `copy` operations of one patch may copy: the largest request body; each copy could double the object.
pub const COPY_BYTES_MAX: usize = 3 << 20;
/// Values that may be looked at to see how deep all `move` operations of one patch reach: several times those of the largest
/// object, in a fraction of a second.
const MOVED_VALUES_MAX: usize = 16 << 20;
/// How deep an object may become by patching: as deep as serde_json reads one. Deeper ones could not be read back.
pub const DEPTH_MAX: usize = 127;

/// The object after a JSON patch. The patch is applied wholly or not at all.
///
/// Where RFC 6902 is strict, Kubernetes is not (evanphx/json-patch v4.13): `replace` makes what is missing in a map, an
/// index may count from the end, null is as good as missing.
pub fn json_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    let mismatch = |found: &Value, wanted: &str| {
        let found = json_kind(found);
        PatchError::Malformed(format!(
            "json: cannot unmarshal {found} into Go value of type jsonpatch.{wanted}"
        ))
    };
    let operations = match patch {
        Value::Array(operations) => operations.as_slice(),
        Value::Null => &[],
        other => return Err(mismatch(other, "Patch")),
    };
    if let Some(other) = operations.iter().find(|item| !item.is_object() && !item.is_null()) {
        return Err(mismatch(other, "Operation"));
    }
    if operations.len() > OPERATIONS_MAX {
        return Err(PatchError::TooLarge(format!(
            "The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {}",
            operations.len()
        )));
    }
    let mut result = object.clone();
    let (mut copied, mut moved) = (0, 0);
    for operation in operations {
        let operation = Operation(operation);
        match operation.text("op")? {
            "add" => {
                let value = operation.value();
                check_depth(operation.text("path")?, &value)?;
                operation.add(&mut result, value)?;
            }
            "remove" => drop(operation.take(&mut result, "path")?),
            "replace" => operation.replace(&mut result)?,
            "move" => {
                let value = operation.take(&mut result, "from")?;
                operation.check_moved(&value, &mut moved)?;
                operation.add(&mut result, value)?;
            }
            "copy" => {
                let value = operation.copied(&result, &mut copied)?;
                check_depth(operation.text("path")?, &value)?;
                operation.add(&mut result, value)?;
            }
            "test" => operation.test(&result)?,
            other => return Err(PatchError::NotApplicable(format!("there is no operation {other:?}"))),
        }
    }
    Ok(result)
}

/// One operation: an object that may hold anything.
struct Operation<'a>(&'a Value);

impl<'a> Operation<'a> {
    fn text(&self, field: &str) -> Result<&'a str, PatchError> {
        let text = self.0.get(field).and_then(Value::as_str);
        text.ok_or_else(|| PatchError::NotApplicable(format!("an operation has no {field:?} that is a text")))
    }

    /// Null when it is missing.
    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or_default()
    }

    fn add(&self, document: &mut Value, value: Value) -> Result<(), PatchError> {
        let path = self.text("path")?;
        let (parent, key) = parent_mut(document, path)?;
        match parent {
            Value::Object(fields) => {
                fields.insert(key, value);
            }
            Value::Array(items) if key == "-" => items.push(value),
            Value::Array(items) => {
                // The index behind the last element is allowed too.
                let at = index(&key, items.len() + 1).filter(|at| *at <= items.len());
                items.insert(at.ok_or_else(|| missing(path))?, value);
            }
            _ => return Err(missing(path)),
        }
        Ok(())
    }

    /// Removes what the path in `field` names.
    fn take(&self, document: &mut Value, field: &str) -> Result<Value, PatchError> {
        let path = self.text(field)?;
        let (parent, key) = parent_mut(document, path)?;
        let taken = match parent {
            Value::Object(fields) => fields.remove(&key),
            Value::Array(items) => index(&key, items.len()).map(|at| items.remove(at)),
            _ => None,
        };
        taken.ok_or_else(|| missing(path))
    }

    fn replace(&self, document: &mut Value) -> Result<(), PatchError> {
        let (path, value) = (self.text("path")?, self.value());
        check_depth(path, &value)?;
        if path.is_empty() {
            if !(value.is_object() || value.is_array()) {
                return Err(PatchError::NotApplicable(
                    "the whole is an object or an array".to_owned(),
                ));
            }
            *document = value;
            return Ok(());
        }
        let (parent, key) = parent_mut(document, path)?;
        match parent {
            Value::Object(fields) => {
                fields.insert(key, value);
            }
            Value::Array(items) => {
                let place = index(&key, items.len()).and_then(|at| items.get_mut(at));
                *place.ok_or_else(|| missing(path))? = value;
            }
            _ => return Err(missing(path)),
        }
        Ok(())
    }

    fn copied(&self, document: &Value, copied: &mut usize) -> Result<Value, PatchError> {
        let value = find(document, self.text("from")?)?;
        *copied += value.map_or(0, |value| value.to_string().len());
        if *copied > COPY_BYTES_MAX {
            return Err(PatchError::NotApplicable(format!(
                "the accumulated size increase of JSON patch copy is {copied}, exceeding the limit {COPY_BYTES_MAX}"
            )));
        }
        Ok(value.cloned().unwrap_or_default())
    }

    /// As [`check_depth`], for a value that the object had already: it is looked at only if it comes deeper than it was, and
    /// `moved` counts how much of it was.
    fn check_moved(&self, value: &Value, moved: &mut usize) -> Result<(), PatchError> {
        let (from, path) = (self.text("from")?, self.text("path")?);
        if levels(path) <= levels(from) {
            return Ok(());
        }
        *moved += count(value);
        if *moved > MOVED_VALUES_MAX {
            return Err(PatchError::NotApplicable(format!(
                "JSON patch move makes {moved} values deeper, exceeding the limit {MOVED_VALUES_MAX}"
            )));
        }
        check_depth(path, value)
    }

    fn test(&self, document: &Value) -> Result<(), PatchError> {
        let path = self.text("path")?;
        let found = if path.is_empty() {
            Some(document)
        } else {
            find(document, path)?
        };
        let wanted = self.0.get("value").unwrap_or(&Value::Null);
        if same(found.unwrap_or(&Value::Null), wanted) {
            Ok(())
        } else {
            Err(PatchError::NotApplicable(format!("testing value {path} failed")))
        }
    }
}

fn missing(path: &str) -> PatchError {
    PatchError::NotApplicable(format!("there is nothing at {path:?}"))
}

/// The keys of the parents, and the last key. A path begins with a slash.
fn split(path: &str) -> Result<(impl Iterator<Item = String>, String), PatchError> {
    let decode = |key: &str| key.replace("~1", "/").replace("~0", "~");
    let Some((parents, key)) = path.rsplit_once('/') else {
        return Err(missing(path));
    };
    Ok((parents.split('/').skip(1).map(decode), decode(key)))
}

fn parent_mut<'v>(document: &'v mut Value, path: &str) -> Result<(&'v mut Value, String), PatchError> {
    let (parents, key) = split(path)?;
    let mut here = document;
    for parent in parents {
        let child = match here {
            Value::Object(fields) => fields.get_mut(&parent),
            Value::Array(items) => index(&parent, items.len()).and_then(|at| items.get_mut(at)),
            _ => None,
        };
        here = child.ok_or_else(|| missing(path))?;
    }
    Ok((here, key))
}

/// The value at a path. None: the map is there, but does not have the key.
fn find<'v>(document: &'v Value, path: &str) -> Result<Option<&'v Value>, PatchError> {
    let (parents, key) = split(path)?;
    let child = |here: &'v Value, key: &str| match here {
        Value::Object(fields) => fields.get(key),
        Value::Array(items) => index(key, items.len()).and_then(|at| items.get(at)),
        _ => None,
    };
    let mut here = document;
    for parent in parents {
        here = child(here, &parent).ok_or_else(|| missing(path))?;
    }
    match (here, child(here, &key)) {
        (_, Some(found)) => Ok(Some(found)),
        (Value::Object(_), None) => Ok(None),
        _ => Err(missing(path)),
    }
}

/// The place that an index names in a list of `length`; a negative one counts from the end.
fn index(key: &str, length: usize) -> Option<usize> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    let number: usize = digits.parse().ok().filter(|_| !digits.starts_with(['+', '-']))?;
    let at = if key.starts_with('-') {
        length.checked_sub(number)?
    } else {
        number
    };
    // `-0` is 0.
    let at = if number == 0 { 0 } else { at };
    (at < length).then_some(at)
}

/// Refuses what would nest too deep.
fn check_depth(path: &str, value: &Value) -> Result<(), PatchError> {
    let nested = levels(path) + depth(value);
    if nested > DEPTH_MAX {
        return Err(PatchError::TooLarge(format!(
            "the patched object would be nested deeper than {DEPTH_MAX} levels"
        )));
    }
    Ok(())
}

/// How deep a path leads.
fn levels(path: &str) -> usize {
    path.matches('/').count()
}

/// A value and all those in it.
fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(count).sum::<usize>(),
        Value::Object(fields) => 1 + fields.values().map(count).sum::<usize>(),
        _ => 1,
    }
}

fn depth(value: &Value) -> usize {
    match value {
        Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        _ => 0,
    }
}

/// The object after a JSON merge patch: null removes, objects merge, everything else replaces. A list replaces the whole,
/// as in Go; no scalar does (evanphx/json-patch v4 `merge.go`).
pub fn merge_patch(object: &Value, patch: &Value) -> Result<Value, PatchError> {
    if patch.is_array() {
        return Ok(without_nulls(patch));
    }
    let Value::Object(changes) = patch else {
        return Err(PatchError::Malformed("Invalid JSON Patch".to_owned()));
    };
    let mut result = object.clone();
    if let Value::Object(fields) = &mut result {
        merge_fields(fields, changes);
        return Ok(result);
    }
    Ok(without_nulls(patch))
}

fn merge_fields(fields: &mut Map<String, Value>, changes: &Map<String, Value>) {
    for (name, change) in changes {
        match (fields.get_mut(name), change) {
            (_, Value::Null) => drop(fields.remove(name)),
            (Some(Value::Object(fields)), Value::Object(changes)) => merge_fields(fields, changes),
            // What replaces an object is copied as it is, nulls included.
            (Some(field @ Value::Object(_)), _) => *field = change.clone(),
            _ => drop(fields.insert(name.clone(), without_nulls(change))),
        }
    }
}

/// The value without fields that are null, those of objects in lists included.
pub(crate) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().filter(|(_, value)| !value.is_null());
            let fields = fields.map(|(name, value)| (name.clone(), without_nulls(value)));
            Value::Object(fields.collect())
        }
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        other => other.clone(),
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
        for broken in [json!({}), json!(["x"]), json!(1)] {
            assert!(
                matches!(json_patch(&object, &broken), Err(PatchError::Malformed(_))),
                "{broken}"
            );
        }
    }

    #[test]
    fn json_patch_operations_match_go() {
        let object = json!({"l": [1, 2, 3], "m": {"a": null}, "s": "text"});
        #[rustfmt::skip]
        let table = [
            (json!({"op": "replace", "path": "/m/b", "value": 1}), Some(("/m", json!({"a": null, "b": 1})))),
            (json!({"op": "replace", "path": "/l/-1", "value": 9}), Some(("/l", json!([1, 2, 9])))),
            (json!({"op": "remove", "path": "/l/-3"}), Some(("/l", json!([2, 3])))),
            (json!({"op": "add", "path": "/l/-1", "value": 9}), Some(("/l", json!([1, 2, 3, 9])))),
            (json!({"op": "add", "path": "/l/3", "value": 9}), Some(("/l", json!([1, 2, 3, 9])))),
            (json!({"op": "add", "path": "/m/c"}), Some(("/m", json!({"a": null, "c": null})))),
            (json!({"op": "copy", "from": "/m/none", "path": "/m/a"}), Some(("/m", json!({"a": null})))),
            (json!({"op": "test", "path": "/m/none", "value": null}), Some(("/s", json!("text")))),
            (json!({"op": "replace", "path": "", "value": {"s": 1}}), Some(("/s", json!(1)))),
            (json!({"op": "test", "path": "", "value": object}), Some(("/s", json!("text")))),
            (json!({"op": "remove", "path": "/l/3"}), None),
            (json!({"op": "remove", "path": "/l/-4"}), None),
            (json!({"op": "remove", "path": "/l/-"}), None),
            (json!({"op": "remove", "path": "/l/--1"}), None),
            (json!({"op": "add", "path": "/l/4", "value": 9}), None),
            (json!({"op": "add", "path": "/none/x", "value": 9}), None),
            (json!({"op": "add", "path": "/m/a/x", "value": 9}), None),
            (json!({"op": "add", "path": "/s/x", "value": 9}), None),
            (json!({"op": "add", "path": "s", "value": 9}), None),
            (json!({"op": "add", "path": "", "value": {}}), None),
            (json!({"op": "replace", "path": "", "value": 1}), None),
            (json!({"op": "move", "from": "/m/none", "path": "/x"}), None),
            (json!({"op": "move", "from": "/m", "path": "/m/x"}), None),
            (json!({"op": "test", "path": "/none/x", "value": null}), None),
            (json!({"op": "fly", "path": "/m"}), None),
            (json!({"op": "add", "path": 7}), None),
            (json!(null), None),
        ];
        for (operation, expected) in table {
            let result = json_patch(&object, &json!([operation]));
            match expected {
                Some((at, expected)) => assert_eq!(result.unwrap().pointer(at), Some(&expected), "{operation}"),
                None => assert!(
                    matches!(result, Err(PatchError::NotApplicable(_))),
                    "{operation}: {result:?}"
                ),
            }
        }
    }

    #[test]
    fn small_patches_cannot_make_large_or_deep_objects() {
        let doubling: Vec<_> = (0..64)
            .map(|n| json!({"op": "copy", "from": "/a", "path": format!("/a/{n}")}))
            .collect();
        let result = json_patch(&json!({"a": {"pad": "x".repeat(1000)}}), &json!(doubling));
        assert!(matches!(result, Err(PatchError::NotApplicable(_))));

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
    fn moves_of_a_large_value_are_cheap_or_refused() {
        let object = json!({"a": vec![0; 1 << 20], "in": {"deep": {}}});
        // There and back, many times.
        let moves = |path: &str, pairs: usize| {
            let there = json!({"op": "move", "from": "/a", "path": path});
            let back = json!({"op": "move", "from": path, "path": "/a"});
            let pairs = std::iter::repeat_n([there, back], pairs);
            Value::Array(pairs.flatten().collect())
        };
        for (path, pairs) in [("/b", OPERATIONS_MAX / 2), ("/in/deep/a", 2)] {
            assert_eq!(json_patch(&object, &moves(path, pairs)).as_ref(), Ok(&object), "{path}");
        }
        let refused = json_patch(&object, &moves("/in/deep/a", OPERATIONS_MAX / 2));
        assert!(matches!(refused, Err(PatchError::NotApplicable(_))));
    }

    #[test]
    fn move_cannot_make_an_object_too_deep() {
        let chain = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"x": inner}));
        for (levels_below, expected) in [(62, true), (63, false)] {
            let object = json!({"a": chain(levels_below), "b": chain(62)});
            let path = format!("/b{}/y", "/x".repeat(62));
            let patch = json!([{"op": "move", "from": "/a", "path": path}]);
            assert_eq!(json_patch(&object, &patch).is_ok(), expected, "{levels_below}");
        }
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
        assert_eq!(merge_patch(&json!({}), &json!([])), Ok(json!([])));
        assert!(merge_patch(&json!({}), &json!(null)).is_err());
    }

    #[test]
    fn merge_patch_adds_no_nulls_unless_it_replaces_an_object() {
        let patch = json!({"a": [{"b": null, "c": [{"d": null}]}, null]});
        for (object, result) in [
            (json!({}), json!({"a": [{"c": [{}]}, null]})),
            (json!({"a": [1]}), json!({"a": [{"c": [{}]}, null]})),
            (json!({"a": {"e": 1}}), patch.clone()),
        ] {
            assert_eq!(merge_patch(&object, &patch), Ok(result), "{object}");
        }
    }
}
