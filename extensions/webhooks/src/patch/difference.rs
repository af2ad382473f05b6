//! The difference of two JSON values as operations of a JSON patch (RFC 6902): only what differs, at the deepest place.

use serde_json::{Value, json};

use super::overlay::identity;

/// Comparisons of items of two lists; beyond it a list is replaced as a whole.
const COMPARISONS_MAX: usize = 1_000_000;

/// The operations that make `new` of `old`, to be applied in order. None where they are equal.
#[must_use]
pub fn difference(old: &Value, new: &Value) -> Vec<Value> {
    let mut operations = Vec::new();
    compare("", old, new, &mut operations);
    operations
}

fn compare(path: &str, old: &Value, new: &Value, operations: &mut Vec<Value>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                operations.push(json!({"op": "remove", "path": below(path, key)}));
            }
            for (key, value) in new {
                match old.get(key) {
                    Some(before) => compare(&below(path, key), before, value, operations),
                    None => operations.push(json!({"op": "add", "path": below(path, key), "value": value})),
                }
            }
        }
        (Value::Array(old), Value::Array(new)) => lists(path, old, new, operations),
        _ => operations.push(json!({"op": "replace", "path": path, "value": new})),
    }
}

/// The path of a member (RFC 6901).
fn below(path: &str, key: &str) -> String {
    format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"))
}

/// A piece of two lists: items that stand in both places, or what stands between such items.
struct Gap {
    old: std::ops::Range<usize>,
    new: std::ops::Range<usize>,
}

fn lists(path: &str, old: &[Value], new: &[Value], operations: &mut Vec<Value>) {
    let Some(pairs) = pairs(old, new) else {
        operations.push(json!({"op": "replace", "path": path, "value": new}));
        return;
    };
    // From the end to the beginning: what is done at an index moves none of those before it.
    let mut end = (old.len(), new.len());
    for pair in pairs.iter().rev().map(Some).chain([None]) {
        let begin = pair.map_or((0, 0), |(old, new)| (old + 1, new + 1));
        let gap = Gap {
            old: begin.0..end.0,
            new: begin.1..end.1,
        };
        between(path, (old, new), &gap, operations);
        if let Some((at, of)) = pair {
            compare(&format!("{path}/{at}"), &old[*at], &new[*of], operations);
            end = (*at, *of);
        }
    }
}

/// What becomes of items that stand in one list alone.
fn between(path: &str, (old, new): (&[Value], &[Value]), gap: &Gap, operations: &mut Vec<Value>) {
    let replaced = gap.old.len().min(gap.new.len());
    let (old_rest, new_rest) = (gap.old.start + replaced, gap.new.start + replaced);
    for at in (old_rest..gap.old.end).rev() {
        operations.push(json!({"op": "remove", "path": format!("{path}/{at}")}));
    }
    for value in new[new_rest..gap.new.end].iter().rev() {
        operations.push(json!({"op": "add", "path": format!("{path}/{old_rest}"), "value": value}));
    }
    for offset in (0..replaced).rev() {
        let (at, before, value) = (
            gap.old.start + offset,
            &old[gap.old.start + offset],
            &new[gap.new.start + offset],
        );
        let path = format!("{path}/{at}");
        match identity(before) == identity(value) {
            true => compare(&path, before, value, operations),
            false => operations.push(json!({"op": "replace", "path": path, "value": value})),
        }
    }
}

/// Indexes of items that are the same in both lists, in the order of both: as many as possible. None: there are too many items.
fn pairs(old: &[Value], new: &[Value]) -> Option<Vec<(usize, usize)>> {
    let begin = old.iter().zip(new).take_while(|(old, new)| same(old, new)).count();
    let (old_rest, new_rest) = (&old[begin..], &new[begin..]);
    let ends = old_rest.iter().rev().zip(new_rest.iter().rev());
    let end = ends.take_while(|(old, new)| same(old, new)).count();
    let middle = (&old_rest[..old_rest.len() - end], &new_rest[..new_rest.len() - end]);
    let mut pairs: Vec<_> = (0..begin).map(|at| (at, at)).collect();
    let common = longest_common(middle.0, middle.1)?;
    pairs.extend(common.into_iter().map(|(old, new)| (old + begin, new + begin)));
    pairs.extend((0..end).map(|at| (old.len() - end + at, new.len() - end + at)));
    Some(pairs)
}

/// The longest common subsequence of two lists.
fn longest_common(old: &[Value], new: &[Value]) -> Option<Vec<(usize, usize)>> {
    if old.len().saturating_mul(new.len()) > COMPARISONS_MAX {
        return None;
    }
    let width = new.len() + 1;
    // Lengths for the rests of both lists, of which the last ones are empty.
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for (at, item) in old.iter().enumerate().rev() {
        for (of, other) in new.iter().enumerate().rev() {
            let here = at * width + of;
            lengths[here] = match same(item, other) {
                true => lengths[here + width + 1] + 1,
                false => lengths[here + width].max(lengths[here + 1]),
            };
        }
    }
    let (mut at, mut of, mut pairs) = (0, 0, Vec::new());
    while at < old.len() && of < new.len() {
        let here = at * width + of;
        if same(&old[at], &new[of]) {
            pairs.push((at, of));
            (at, of) = (at + 1, of + 1);
        } else if lengths[here + width] >= lengths[here + 1] {
            at += 1;
        } else {
            of += 1;
        }
    }
    Some(pairs)
}

/// Whether two items of lists are one that may have changed.
fn same(old: &Value, new: &Value) -> bool {
    match (identity(old), identity(new)) {
        (Some(old), Some(new)) => old == new,
        (None, None) => old == new,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use json_patch::Patch;
    use proptest::prelude::*;

    use super::*;

    fn applied(old: &Value, operations: &[Value]) -> Value {
        let patch: Patch = serde_json::from_value(Value::Array(operations.to_vec())).unwrap();
        let mut patched = old.clone();
        json_patch::patch(&mut patched, &patch).unwrap();
        patched
    }

    /// Each operation as "op path", and that they make `new` of `old`.
    fn operations(old: &Value, new: &Value) -> Vec<String> {
        let operations = difference(old, new);
        assert_eq!(applied(old, &operations), *new);
        let shown = |it: &Value| format!("{} {}", it["op"].as_str().unwrap(), it["path"].as_str().unwrap());
        operations.iter().map(shown).collect()
    }

    #[test]
    fn operations_are_few_and_name_the_deepest_place() {
        let flags = json!({"c": [{"name": "kcm", "command": ["kcm", "--a=1", "--b=2", "--c=3"]}]});
        let cases = [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (
                json!({"a": {"b/c": 1, "d~": 2}}),
                json!({"a": {"b/c": 2}}),
                vec!["remove /a/d~0", "replace /a/b~1c"],
            ),
            (json!({}), json!({"a": {"b": 1}}), vec!["add /a"]),
            (json!({"a": null}), json!({"a": []}), vec!["replace /a"]),
            (
                flags.clone(),
                json!({"c": [{"name": "kcm", "command": ["kcm", "--a=1", "--b=2", "--c=3", "--d=4"]}]}),
                vec!["add /c/0/command/4"],
            ),
            (
                flags.clone(),
                json!({"c": [{"name": "kcm", "command": ["kcm", "--b=9", "--c=3"]}]}),
                vec!["remove /c/0/command/2", "replace /c/0/command/1"],
            ),
            // A container in front of another leaves that one alone.
            (
                flags.clone(),
                json!({"c": [{"name": "side"}, flags["c"][0]]}),
                vec!["add /c/0"],
            ),
            (
                json!([{"name": "a"}, {"name": "b", "v": 1}, {"name": "c"}]),
                json!([{"name": "b", "v": 2}, {"name": "c"}, {"name": "d"}]),
                vec!["add /3", "replace /1/v", "remove /0"],
            ),
            (json!([1, 2, 3]), json!([3]), vec!["remove /1", "remove /0"]),
            (json!([1]), json!([1, 1, 1]), vec!["add /1", "add /1"]),
            (json!([{"a": 1}]), json!([{"a": 2}]), vec!["replace /0/a"]),
            (json!([{"name": "a"}]), json!([{"name": "b"}]), vec!["replace /0"]),
        ];
        for (old, new, expected) in cases {
            assert_eq!(operations(&old, &new), expected, "{old} {new}");
        }
    }

    #[test]
    fn lists_beyond_the_limit_are_replaced() {
        let many = |from: usize| Value::from((from..from + 1001).collect::<Vec<_>>());
        let (old, new) = (json!({"l": many(0)}), json!({"l": many(5000)}));
        assert_eq!(operations(&old, &new), ["replace /l"]);
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            (0..3_i64).prop_map(Value::from),
            "[a/~]{0,2}".prop_map(Value::from)
        ];
        leaf.prop_recursive(3, 24, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ab/~]|name", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_difference_applied_to_the_old_value_gives_the_new_one(old in values(), new in values()) {
            prop_assert_eq!(applied(&old, &difference(&old, &new)), new);
        }
    }
}
