//! Carries a change of a typed view over to the object that the view was read from. What the view does not know stays.

use serde_json::{Map, Value};

/// Fields that identify items of lists, in the order in which they are looked for.
const IDENTITIES: [&str; 5] = ["name", "path", "mountPath", "key", "type"];

/// `raw` with the changes from `before` to `after`, which are two typed views of it as JSON. `None` is absence.
///
/// Items of a list are the same in both views where they are equal, or else where they have the same name (or path, mountPath,
/// key, type): such an item keeps the fields that the view does not know, wherever it has gone.
#[must_use]
pub fn overlay(raw: Option<&Value>, before: Option<&Value>, after: Option<&Value>) -> Option<Value> {
    if before == after {
        return raw.cloned();
    }
    let after = after?;
    let changed = match (raw, before, after) {
        (Some(Value::Object(raw)), before, Value::Object(after)) => {
            let none = Map::new();
            // What the view leaves out because it is empty may be there.
            let before = before.and_then(Value::as_object).unwrap_or(&none);
            Value::Object(of_maps(raw, before, after))
        }
        (Some(Value::Array(raw)), Some(Value::Array(before)), Value::Array(after)) if raw.len() == before.len() => {
            Value::Array(of_lists(raw, before, after))
        }
        _ => after.clone(),
    };
    Some(changed)
}

fn of_maps(raw: &Map<String, Value>, before: &Map<String, Value>, after: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = raw.clone();
    for key in before.keys().chain(after.keys()) {
        match overlay(raw.get(key), before.get(key), after.get(key)) {
            Some(value) => drop(merged.insert(key.clone(), value)),
            None => drop(merged.remove(key)),
        }
    }
    merged
}

fn of_lists(raw: &[Value], before: &[Value], after: &[Value]) -> Vec<Value> {
    let sources = sources(before, after);
    let item = |(item, source): (&Value, &Option<usize>)| match source {
        Some(at) => overlay(Some(&raw[*at]), Some(&before[*at]), Some(item)).unwrap_or_else(|| item.clone()),
        None => item.clone(),
    };
    after.iter().zip(&sources).map(item).collect()
}

/// For each item of `after` the item of `before` that it was.
fn sources(before: &[Value], after: &[Value]) -> Vec<Option<usize>> {
    let mut taken = vec![false; before.len()];
    let mut sources = vec![None; after.len()];
    // Most items stay where they are.
    for (at, item) in after.iter().enumerate() {
        if before.get(at) == Some(item) {
            sources[at] = Some(at);
            taken[at] = true;
        }
    }
    let mut claim = |same: &dyn Fn(&Value, &Value) -> bool| {
        for (item, source) in after.iter().zip(&mut sources) {
            if source.is_some() {
                continue;
            }
            let found = before
                .iter()
                .zip(&taken)
                .position(|(old, taken)| !taken && same(old, item));
            if let Some(found) = found {
                taken[found] = true;
                *source = Some(found);
            }
        }
    };
    claim(&|old, item| old == item);
    claim(&|old, item| identity(item).is_some_and(|name| identity(old) == Some(name)));
    sources
}

/// What tells an item of a list from others: its field of that name and the value.
pub(super) fn identity(item: &Value) -> Option<(&'static str, &str)> {
    let item = item.as_object()?;
    IDENTITIES
        .into_iter()
        .find_map(|field| Some((field, item.get(field)?.as_str()?)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn laid(raw: &Value, before: &Value, after: &Value) -> Value {
        overlay(Some(raw), Some(before), Some(after)).unwrap()
    }

    #[test]
    fn fields_that_the_view_does_not_know_stay() {
        let cases = [
            // Nothing changed: what the view adds or leaves out does not matter.
            (
                json!({"x": 1, "n": null}),
                json!({"m": {}}),
                json!({"m": {}}),
                json!({"x": 1, "n": null}),
            ),
            (
                json!({"x": 1, "a": {"y": 2, "b": 1}}),
                json!({"a": {"b": 1}}),
                json!({"a": {"b": 2, "c": 3}}),
                json!({"x": 1, "a": {"y": 2, "b": 2, "c": 3}}),
            ),
            (json!({"x": 1, "a": 1}), json!({"a": 1}), json!({}), json!({"x": 1})),
            // Empty in the object, absent in the view.
            (
                json!({"l": {}}),
                json!({}),
                json!({"l": {"a": "b"}}),
                json!({"l": {"a": "b"}}),
            ),
            (json!({"l": null}), json!({}), json!({"l": ["a"]}), json!({"l": ["a"]})),
        ];
        for (raw, before, after, expected) in cases {
            assert_eq!(laid(&raw, &before, &after), expected, "{raw} {before} {after}");
        }
    }

    #[test]
    fn items_of_lists_keep_unknown_fields_wherever_they_go() {
        let raw = json!([{"name": "a", "x": 1}, {"name": "b", "v": 1, "x": 2}, {"p": 1, "x": 3}]);
        let before = json!([{"name": "a"}, {"name": "b", "v": 1}, {"p": 1}]);
        let cases = [
            // Removed, moved and changed, new.
            (
                json!([{"p": 1}, {"name": "c"}, {"name": "b", "v": 2}]),
                json!([{"p": 1, "x": 3}, {"name": "c"}, {"name": "b", "v": 2, "x": 2}]),
            ),
            (json!([]), json!([])),
            // Without a name a changed item is another one.
            (
                json!([{"name": "a"}, {"name": "b", "v": 1}, {"p": 2}]),
                json!([{"name": "a", "x": 1}, {"name": "b", "v": 1, "x": 2}, {"p": 2}]),
            ),
        ];
        for (after, expected) in cases {
            assert_eq!(laid(&raw, &before, &after), expected, "{after}");
        }
    }

    #[test]
    fn items_of_the_same_name_keep_their_order() {
        let raw = json!([{"name": "dns", "protocol": "UDP", "x": 1}, {"name": "dns", "protocol": "TCP", "x": 2}]);
        let before = json!([{"name": "dns", "protocol": "UDP"}, {"name": "dns", "protocol": "TCP"}]);
        let after = json!([{"name": "dns", "protocol": "TCP"}]);
        assert_eq!(
            laid(&raw, &before, &after),
            json!([{"name": "dns", "protocol": "TCP", "x": 2}])
        );
    }
}
