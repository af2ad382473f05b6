//! Strategic merge patch: a merge patch that knows which lists are maps by key, and directives that express what a
//! merge cannot. After apimachinery v0.35 `pkg/util/strategicpatch/patch.go`. Lists are in `strategic_lists`.

use std::collections::HashSet;

use cluster_schema::Schema;
use serde_json::{Map, Value};

use crate::error::{PatchError, go_text};
use crate::json::without_nulls;
use crate::strategic_lists::{ListRule, delete_from_primitive_list, merge_list, merge_list_in_order};

/// What to do with the map or element that carries it: `replace`, `delete`, `merge`.
pub(crate) const PATCH: &str = "$patch";
/// Names the keys of a map that may stay.
const RETAIN_KEYS: &str = "$retainKeys";
/// `$deleteFromPrimitiveList/<field>`: values to remove from a list of scalars.
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList/";
/// `$setElementOrder/<field>`: the order of a merged list's elements.
const SET_ELEMENT_ORDER: &str = "$setElementOrder/";

/// The object after a strategic merge patch. The tree's patch strategies and merge keys say how; fields that it does
/// not know merge as in a JSON merge patch.
pub fn strategic_merge(object: &Value, patch: &Value, schema: &Schema) -> Result<Value, PatchError> {
    let (Value::Object(object), Value::Object(patch)) = (object, patch) else {
        return Err(PatchError::Malformed(
            "a strategic merge patch must be a JSON object".to_owned(),
        ));
    };
    merge_map(object.clone(), patch, Some(schema)).map(Value::Object)
}

/// The patch as a refusal shows it: merging has dropped nulls that have nothing to remove in the object
/// (apimachinery v0.35 `pkg/util/strategicpatch/patch.go`, discardNullValuesFromPatch).
pub fn strategic_shown(object: &Value, patch: &Value) -> Value {
    let (Value::Object(fields), Value::Object(changes)) = (object, patch) else {
        return patch.clone();
    };
    let shown = changes.iter().map(|(name, change)| {
        let change = match (fields.get(name), change) {
            (_, Value::Null) => Value::Null,
            (Some(field @ Value::Object(_)), Value::Object(_)) => strategic_shown(field, change),
            (Some(Value::Array(_)), Value::Array(_)) => change.clone(),
            _ => without_nulls(change),
        };
        (name.clone(), change)
    });
    Value::Object(shown.collect())
}

/// Merges a patch into a map; `schema` is the map's own.
pub(crate) fn merge_map(
    mut original: Map<String, Value>,
    patch: &Map<String, Value>,
    schema: Option<&Schema>,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.get(PATCH) {
        match directive.as_str() {
            Some("replace") => return Ok(without_directives(patch)),
            Some("delete") => return Ok(Map::new()),
            Some("merge") => {}
            _ => return Err(unknown_directive(directive, patch)),
        }
    }
    retain_keys(&mut original, patch)?;
    let mut done = HashSet::new();
    for (key, order) in patch {
        let Some(field) = key.strip_prefix(SET_ELEMENT_ORDER) else {
            continue;
        };
        let Some(order) = order.as_array() else {
            return Err(PatchError::Malformed(
                "invalid patch format of setElementOrder list".to_owned(),
            ));
        };
        let child = schema.and_then(|schema| schema.field(field));
        let rule = ListRule::of(child);
        let values = match patch.get(field) {
            Some(Value::Array(values)) => Some(values.as_slice()),
            // A null or another type replaces the list, so there is no order to set.
            Some(_) => continue,
            None => None,
        };
        let old = match original.get(field) {
            Some(Value::Array(items)) => items.clone(),
            Some(_) => continue,
            None if values.is_none() => continue,
            None => Vec::new(),
        };
        original.insert(
            field.to_owned(),
            Value::Array(merge_list_in_order(old, values, order, &rule)?),
        );
        done.insert(field);
    }
    for (key, change) in patch {
        if key == PATCH || key == RETAIN_KEYS || key.starts_with(SET_ELEMENT_ORDER) || done.contains(key.as_str()) {
            continue;
        }
        if let Some(field) = key.strip_prefix(DELETE_FROM_LIST) {
            delete_from_primitive_list(original.get_mut(field), change)?;
            continue;
        }
        merge_field(&mut original, key, change, schema.and_then(|schema| schema.field(key)))?;
    }
    Ok(original)
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: &str,
    change: &Value,
    schema: Option<&Schema>,
) -> Result<(), PatchError> {
    if change.is_null() {
        original.remove(key);
        return Ok(());
    }
    let merged = match (original.remove(key), change) {
        (Some(Value::Object(old)), Value::Object(change)) => {
            if schema.is_some_and(|schema| schema.patch().replace) {
                Value::Object(without_directives(change))
            } else {
                Value::Object(merge_map(old, change, schema)?)
            }
        }
        (Some(Value::Array(old)), Value::Array(change)) => {
            Value::Array(merge_list(old, change, &ListRule::of(schema))?)
        }
        (_, change) => without_directives_or_nulls(change),
    };
    original.insert(key.to_owned(), merged);
    Ok(())
}

/// Drops the keys that the patch's `$retainKeys` does not name.
fn retain_keys(original: &mut Map<String, Value>, patch: &Map<String, Value>) -> Result<(), PatchError> {
    let Some(directive) = patch.get(RETAIN_KEYS) else {
        return Ok(());
    };
    let malformed = || PatchError::Malformed("invalid patch format of retainKeys".to_owned());
    let names = directive.as_array().ok_or_else(malformed)?;
    let names: Option<HashSet<&str>> = names.iter().map(Value::as_str).collect();
    let names = names.ok_or_else(malformed)?;
    let named = |key: &str| names.contains(key);
    // A field that the patch sets and does not retain contradicts itself.
    if patch
        .iter()
        .any(|(key, change)| !key.starts_with('$') && !change.is_null() && !named(key))
    {
        return Err(malformed());
    }
    original.retain(|key, _| named(key));
    Ok(())
}

/// A map as the patch gives it, for use where nothing is to be merged with.
pub(crate) fn without_directives(patch: &Map<String, Value>) -> Map<String, Value> {
    match without_directives_or_nulls(&Value::Object(patch.clone())) {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// A patch's value for a field that the object does not have: directives have nothing to act on, nulls nothing to
/// remove.
fn without_directives_or_nulls(change: &Value) -> Value {
    match change {
        Value::Object(fields) => {
            if fields.get(PATCH).and_then(Value::as_str) == Some("delete") {
                return Value::Object(Map::new());
            }
            let remaining = fields
                .iter()
                .filter(|(key, value)| !is_directive(key) && !value.is_null());
            Value::Object(
                remaining
                    .map(|(key, value)| (key.clone(), without_directives_or_nulls(value)))
                    .collect(),
            )
        }
        Value::Array(items) => {
            let is_plain = |item: &&Value| item.get(PATCH).is_none();
            Value::Array(items.iter().filter(is_plain).map(without_directives_or_nulls).collect())
        }
        other => other.clone(),
    }
}

fn is_directive(key: &str) -> bool {
    key == PATCH || key == RETAIN_KEYS || key.starts_with(DELETE_FROM_LIST) || key.starts_with(SET_ELEMENT_ORDER)
}

pub(crate) fn unknown_directive(directive: &Value, patch: &Map<String, Value>) -> PatchError {
    let (directive, patch) = (go_text(directive), go_text(&Value::Object(patch.clone())));
    PatchError::Failed(format!("unknown patch type: {directive} in map: {patch}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_schema::{ListType, Patch, Scalar};
    use serde_json::json;

    fn list(items: Schema, merge: bool, key: Option<&str>) -> Schema {
        let patch = Patch {
            merge,
            merge_key: key.map(Into::into),
            ..Patch::default()
        };
        let mut node = Schema::list(items, ListType::Atomic).node().clone();
        node.patch = patch;
        Schema::new(node)
    }

    fn schema() -> Schema {
        let text = || Schema::scalar(Scalar::String);
        let item = Schema::object([
            ("name", text()),
            ("image", text()),
            ("args", list(text(), false, None)),
            (
                "env",
                list(
                    Schema::object([("name", text()), ("value", text())]),
                    true,
                    Some("name"),
                ),
            ),
        ]);
        let mut replaced = Schema::map(text()).node().clone();
        replaced.patch.replace = true;
        Schema::object([
            ("items", list(item, true, Some("name"))),
            ("set", list(text(), true, None)),
            ("args", list(text(), false, None)),
            (
                "strategy",
                Schema::object([("type", text()), ("rolling", Schema::map(text()))]),
            ),
            ("labels", Schema::map(text())),
            ("replaced", Schema::new(replaced)),
        ])
    }

    #[track_caller]
    fn check(object: Value, patch: Value, expected: Value) {
        assert_eq!(
            strategic_merge(&object, &patch, &schema()),
            Ok(expected),
            "{object} + {patch}"
        );
    }

    #[test]
    fn maps_merge_and_obey_their_directives() {
        check(
            json!({"labels": {"a": "1", "b": "2"}}),
            json!({"labels": {"a": null, "c": "3"}}),
            json!({"labels": {"b": "2", "c": "3"}}),
        );
        check(
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "replace", "c": "3"}}),
            json!({"labels": {"c": "3"}}),
        );
        check(
            json!({"labels": {"a": "1"}}),
            json!({"labels": {"$patch": "delete", "c": "3"}}),
            json!({"labels": {}}),
        );
        check(
            json!({"replaced": {"a": "1"}}),
            json!({"replaced": {"b": "2"}}),
            json!({"replaced": {"b": "2"}}),
        );
        check(
            json!({"a": 1}),
            json!({"$patch": "replace", "b": {"c": null}}),
            json!({"b": {}}),
        );
        check(
            json!({"strategy": {"type": "RollingUpdate", "rolling": {"x": "1"}}}),
            json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
            json!({"strategy": {"type": "Recreate"}}),
        );
        check(
            json!({}),
            json!({"labels": {"$patch": "replace", "a": "1", "b": null}}),
            json!({"labels": {"a": "1"}}),
        );
        check(
            json!({"labels": 1, "unknown": {"a": 1}}),
            json!({"labels": {"a": "1"}, "unknown": {"b": 2}}),
            json!({"labels": {"a": "1"}, "unknown": {"a": 1, "b": 2}}),
        );
    }

    #[test]
    fn lists_of_objects_merge_by_key_and_new_elements_come_first() {
        let object = json!({"items": [{"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]});
        check(
            object.clone(),
            json!({"items": [{"name": "c", "image": "3"}]}),
            json!({"items": [{"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["x"]}, {"name": "b", "image": "2"}]}),
        );
        check(
            object.clone(),
            json!({"items": [{"name": "b", "image": "9"}, {"name": "a", "$patch": "delete"}]}),
            json!({"items": [{"name": "b", "image": "9"}]}),
        );
        check(
            object.clone(),
            json!({"items": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"items": [{"name": "z"}]}),
        );
        check(
            object.clone(),
            json!({"items": [{"name": "a", "args": ["y"], "image": null}]}),
            json!({"items": [{"name": "a", "args": ["y"]}, {"name": "b", "image": "2"}]}),
        );
        check(object.clone(), json!({"items": null}), json!({}));
        check(
            object,
            json!({"items": [{"$patch": "replace", "name": "z"}]}),
            json!({"items": []}),
        );
    }

    #[test]
    fn element_order_is_set_for_patched_and_unchanged_for_other_elements() {
        let object = json!({"items": [{"name": "a"}, {"name": "server"}, {"name": "b"}], "set": ["x", "y"]});
        check(
            object.clone(),
            json!({"$setElementOrder/items": [{"name": "b"}, {"name": "new"}, {"name": "a"}], "items": [{"name": "new"}]}),
            json!({"items": [{"name": "server"}, {"name": "b"}, {"name": "new"}, {"name": "a"}], "set": ["x", "y"]}),
        );
        check(
            object.clone(),
            json!({"$setElementOrder/set": ["z", "y"], "$deleteFromPrimitiveList/set": ["x"], "set": ["z"]}),
            json!({"items": [{"name": "a"}, {"name": "server"}, {"name": "b"}], "set": ["z", "y"]}),
        );
        let contradiction = json!({"$setElementOrder/items": [{"name": "a"}], "items": [{"name": "new"}]});
        assert!(matches!(
            strategic_merge(&object, &contradiction, &schema()),
            Err(PatchError::Failed(_))
        ));
    }

    #[test]
    fn sets_gain_and_lose_values_and_plain_lists_are_replaced() {
        check(
            json!({"set": ["a", "b"]}),
            json!({"set": ["b", "c"]}),
            json!({"set": ["a", "b", "c"]}),
        );
        check(
            json!({"set": ["a", "b", "a"]}),
            json!({"$deleteFromPrimitiveList/set": ["a", "zz"]}),
            json!({"set": ["b"]}),
        );
        check(json!({}), json!({"$deleteFromPrimitiveList/set": ["a"]}), json!({}));
        check(
            json!({"args": ["a", "b"]}),
            json!({"args": ["c"]}),
            json!({"args": ["c"]}),
        );
    }

    #[test]
    fn malformed_strategic_patches_are_refused() {
        for patch in [
            json!([]),
            json!({"$patch": "explode"}),
            json!({"items": [{"image": "no merge key"}]}),
            json!({"items": [{"$patch": "merge", "name": "a"}]}),
            json!({"items": [1]}),
            json!({"$setElementOrder/items": {}}),
            json!({"strategy": {"$retainKeys": ["type"], "rolling": {}}}),
            json!({"$deleteFromPrimitiveList/set": "a"}),
        ] {
            let object = json!({"items": [{"name": "a"}], "set": ["a"], "strategy": {"type": "x"}});
            let merged = strategic_merge(&object, &patch, &schema());
            let refused = matches!(merged, Err(PatchError::Malformed(_) | PatchError::Failed(_)));
            assert!(refused, "{patch}: {merged:?}");
        }
    }

    #[test]
    fn long_lists_are_merged_reversed_and_deleted_as_short_ones() {
        let long = 20_000;
        let element = |n: usize, value: &str| json!({"name": format!("n{n}"), "image": value});
        let list = |elements: Vec<Value>| json!({"items": elements});
        let object = list((0..long).map(|n| element(n, "old")).collect());
        let started = std::time::Instant::now();
        let reversed = list((0..long).rev().map(|n| element(n, "new")).collect());
        assert_eq!(strategic_merge(&object, &reversed, &schema()), Ok(reversed));
        let every_second = (0..long).step_by(2);
        let deletions = every_second
            .map(|n| json!({"name": format!("n{n}"), "$patch": "delete"}))
            .collect();
        let left = list((1..long).step_by(2).map(|n| element(n, "old")).collect());
        assert_eq!(strategic_merge(&object, &list(deletions), &schema()), Ok(left));
        let again = [json!({"name": "n0", "$patch": "delete"}), element(0, "again")].to_vec();
        let merged = strategic_merge(
            &list(vec![element(0, "old"), element(1, "old")]),
            &list(again),
            &schema(),
        );
        assert_eq!(merged, Ok(list(vec![element(0, "again"), element(1, "old")])));
        let long = 100_000;
        let texts = |range: std::ops::Range<usize>| range.map(|n| format!("n{n}")).collect::<Vec<_>>();
        let deletions = json!({"$deleteFromPrimitiveList/set": texts(1..long)});
        let left = strategic_merge(&json!({"set": texts(0..long)}), &deletions, &schema());
        assert_eq!(left, Ok(json!({"set": ["n0"]})));
        let retained = json!({"labels": {"$retainKeys": texts(1..long)}});
        let labels: Map<String, Value> = texts(0..long).into_iter().map(|name| (name, json!(""))).collect();
        let left = strategic_merge(&json!({"labels": labels}), &retained, &schema()).unwrap();
        assert_eq!(left["labels"].as_object().map(Map::len), Some(long - 1));
        // Searching the list for each element takes minutes.
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
}
