//! Objects seen through their field tree: which fields they have, how two of them merge and differ, and removing fields.
//!
//! The rules of structured-merge-diff v6 (`typed/`): scalars, atomic maps and atomic lists are leaves; other maps go
//! key by key, list-maps and sets element by element. What the tree does not know is deduced: maps go key by key, lists
//! are leaves. Lists whose elements cannot be distinguished are leaves too.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use cluster_schema::{Kind, ListType, MapType, Schema};
use serde_json::{Map, Value};

use crate::element::{Element, same};
use crate::set::{Branch, FieldSet};

/// How the fields of one value are identified.
enum Shape<'v> {
    Leaf,
    Map(&'v Map<String, Value>),
    List(Vec<(Element, &'v Value)>),
}

fn is_named(schema: Option<&Schema>, field: &str) -> bool {
    matches!(schema.map(Schema::kind), Some(Kind::Object(object)) if object.fields.contains_key(field))
}

pub(crate) fn field<'s>(schema: Option<&'s Schema>, name: &str) -> Option<&'s Schema> {
    schema.and_then(|schema| schema.field(name))
}

fn below<'s>(schema: Option<&'s Schema>, element: &Element) -> Option<&'s Schema> {
    match element {
        Element::Field(name) => field(schema, name),
        _ => schema.and_then(Schema::items),
    }
}

fn shape<'v>(schema: Option<&Schema>, value: &'v Value) -> Shape<'v> {
    match (value, schema.map(Schema::kind)) {
        (Value::Object(fields), Some(Kind::Object(object))) if object.map_type == MapType::Granular => {
            Shape::Map(fields)
        }
        (Value::Object(fields), None | Some(Kind::Any)) => Shape::Map(fields),
        (Value::Array(items), Some(Kind::List(_))) => match elements(schema, items) {
            Some(elements) => Shape::List(elements),
            None => Shape::Leaf,
        },
        _ => Shape::Leaf,
    }
}

/// The elements of a granular list; none when the list is atomic or an element has no identity.
fn elements<'v>(schema: Option<&Schema>, items: &'v [Value]) -> Option<Vec<(Element, &'v Value)>> {
    let schema = schema.filter(|schema| schema.list_type() != Some(&ListType::Atomic))?;
    items.iter().map(|item| Some((identity(schema, item)?, item))).collect()
}

/// What distinguishes an element of a list from the others; a missing key field has its default.
pub(crate) fn identity(schema: &Schema, item: &Value) -> Option<Element> {
    match schema.list_type()? {
        ListType::Atomic => None,
        ListType::Set => Some(Element::value(item)),
        ListType::Map { keys } => {
            let fields = item.as_object()?;
            let mut identity = Map::new();
            for key in keys {
                let default = || schema.items()?.field(key)?.value_if_missing();
                // A key field without a default is left out of the identity.
                if let Some(value) = fields.get(&**key).cloned().or_else(default) {
                    identity.insert(key.to_string(), value);
                }
            }
            (!identity.is_empty()).then(|| Element::key(identity))
        }
    }
}

/// The fields that a value has.
pub(crate) fn fields_of(schema: Option<&Schema>, value: &Value) -> Branch {
    let mut set = FieldSet::default();
    match shape(schema, value) {
        Shape::Leaf => return Branch::leaf(),
        Shape::Map(fields) => {
            for (name, child) in fields {
                let mut branch = fields_of(field(schema, name), child);
                let is_empty_map = child.as_object().is_some_and(Map::is_empty);
                branch.member |= is_empty_map || !is_named(schema, name);
                set.put(Element::field(name), branch);
            }
        }
        Shape::List(elements) => {
            let items = schema.and_then(Schema::items);
            for (element, child) in elements {
                // No manager can own a part of duplicate elements.
                let branch = match set.get(&element) {
                    Some(_) => Branch::leaf(),
                    None => Branch {
                        member: true,
                        ..fields_of(items, child)
                    },
                };
                set.put(element, branch);
            }
        }
    }
    Branch {
        member: false,
        below: set,
    }
}

/// The left value with everything that the right one has.
pub(crate) fn merge(schema: Option<&Schema>, left: &Value, right: &Value) -> Value {
    if same(left, right) {
        // 1 and 1.0 are no change.
        return left.clone();
    }
    let granular = |value| match shape(schema, value) {
        Shape::Leaf => false,
        Shape::Map(fields) => !fields.is_empty(),
        Shape::List(items) => !items.is_empty(),
    };
    match (left, right) {
        // A null changes nothing in what has content, and replaces what is empty.
        (_, Value::Null) if granular(left) => left.clone(),
        (Value::Object(old), Value::Object(new)) => match (shape(schema, left), shape(schema, right)) {
            (Shape::Map(_), Shape::Map(_)) => {
                let mut merged = old.clone();
                for (name, value) in new {
                    let value = match old.get(name) {
                        Some(old) => merge(field(schema, name), old, value),
                        None => value.clone(),
                    };
                    merged.insert(name.clone(), value);
                }
                Value::Object(merged)
            }
            _ => right.clone(),
        },
        (Value::Array(_), Value::Array(_)) => match (shape(schema, left), shape(schema, right)) {
            (Shape::List(old), Shape::List(new)) => Value::Array(merge_lists(schema, &old, &new)),
            _ => right.clone(),
        },
        _ => right.clone(),
    }
}

/// The right list's elements in its order; the left one's own elements keep their place among the shared ones. What the
/// left list has twice is the right one's as it stands (structured-merge-diff v6 `typed/merge.go`, `visitListItems`).
fn merge_lists(schema: Option<&Schema>, old: &[(Element, &Value)], new: &[(Element, &Value)]) -> Vec<Value> {
    let items = schema.and_then(Schema::items);
    let mut in_old: BTreeMap<&Element, Option<&Value>> = BTreeMap::new();
    for (element, value) in old {
        in_old
            .entry(element)
            .and_modify(|found| *found = None)
            .or_insert(Some(value));
    }
    let in_new: BTreeSet<&Element> = new.iter().map(|(element, _)| element).collect();
    let mut merged = Vec::new();
    // Elements that both have, in the right list's order: the first is the next that is waited for.
    let mut shared: VecDeque<&Element> = new.iter().map(|(element, _)| element).collect();
    shared.retain(|element| in_old.contains_key(element));
    let mut had: BTreeSet<&Element> = BTreeSet::new();
    let (mut old, mut new) = (old.iter().peekable(), new.iter().peekable());
    while old.peek().is_some() || new.peek().is_some() {
        if let Some((element, value)) = old.peek() {
            if !in_new.contains(element) {
                merged.push((*value).clone());
                old.next();
                continue;
            }
            let is_next = new.peek().is_some_and(|(next, _)| next == element);
            let is_waited_for = shared.front().is_none_or(|next| *next == element);
            if !is_next && !is_waited_for && new.peek().is_some() {
                old.next();
                continue;
            }
            if is_next || had.contains(element) {
                old.next();
            }
        }
        let Some((element, value)) = new.next() else { continue };
        had.insert(element);
        if shared.front() == Some(&element) {
            shared.pop_front();
        }
        merged.push(match in_old.get(element) {
            Some(Some(old)) => merge(items, old, value),
            _ => (*value).clone(),
        });
    }
    merged
}

/// How two versions of an object differ.
#[derive(Debug, Default)]
pub(crate) struct Difference {
    /// Fields that only the left one has, those below a value that became one of another type included.
    pub(crate) removed: FieldSet,
    /// Fields that both have with different values.
    pub(crate) modified: FieldSet,
    /// Fields that only the right one has.
    pub(crate) added: FieldSet,
}

impl Difference {
    /// Fields that the right one adds or changes.
    pub(crate) fn written(&self) -> FieldSet {
        self.modified.clone().union(&self.added)
    }
}

#[derive(Default)]
struct Branches {
    removed: Branch,
    modified: Branch,
    added: Branch,
}

/// What differs between two objects; none is an object without any field.
pub(crate) fn compare(schema: Option<&Schema>, left: Option<&Value>, right: &Value) -> Difference {
    let branches = match left {
        Some(left) => differ(schema, left, right),
        None => Branches {
            added: match right {
                Value::Object(fields) => written_fields(schema, fields),
                _ => Branch::default(),
            },
            ..Branches::default()
        },
    };
    let Branches {
        removed,
        modified,
        added,
    } = branches;
    Difference {
        removed: removed.below,
        modified: modified.below,
        added: added.below,
    }
}

/// Every field of a value, those on the way included.
pub(crate) fn present(schema: Option<&Schema>, value: &Value) -> Branch {
    let mut set = FieldSet::default();
    match shape(schema, value) {
        Shape::Leaf => {}
        Shape::Map(fields) => {
            for (name, child) in fields {
                set.put(Element::field(name), present(field(schema, name), child));
            }
        }
        Shape::List(elements) => {
            let items = schema.and_then(Schema::items);
            for (element, child) in elements {
                set.put(element, present(items, child));
            }
        }
    }
    Branch {
        member: true,
        below: set,
    }
}

/// What a value adds where there was none. Fields that Go always writes were there, empty: they count by what is in them.
fn written(schema: Option<&Schema>, value: &Value) -> Branch {
    if !schema.is_some_and(|schema| schema.node().always) {
        return present(schema, value);
    }
    match shape(schema, value) {
        Shape::Leaf => Branch {
            member: !is_zero(value),
            ..Branch::default()
        },
        Shape::Map(fields) => written_fields(schema, fields),
        Shape::List(_) => Branch {
            member: value.as_array().is_some_and(Vec::is_empty),
            ..present(schema, value)
        },
    }
}

fn written_fields(schema: Option<&Schema>, fields: &Map<String, Value>) -> Branch {
    let mut below = FieldSet::default();
    for (name, child) in fields {
        below.put(Element::field(name), written(field(schema, name), child));
    }
    Branch { member: false, below }
}

/// Go's zero value, which a field has that was never set.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(truth) => !truth,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(_) => false,
        Value::Object(fields) => fields.is_empty(),
    }
}

fn differ(schema: Option<&Schema>, left: &Value, right: &Value) -> Branches {
    let mut result = Branches::default();
    if same(left, right) {
        return result;
    }
    let (old, new) = match (shape(schema, left), shape(schema, right)) {
        (Shape::Map(old), Shape::Map(new)) => (named_fields(old), named_fields(new)),
        (Shape::List(old), Shape::List(new)) => (first_of_each(old), first_of_each(new)),
        // All that was in it is gone, and nothing took its place.
        (Shape::Map(old), Shape::Leaf) if right.is_null() && !old.is_empty() => (named_fields(old), BTreeMap::new()),
        (Shape::List(old), Shape::Leaf) if right.is_null() && !old.is_empty() => (first_of_each(old), BTreeMap::new()),
        // Nothing was in it, but it was there.
        (Shape::Leaf, Shape::Map(new)) if left.is_null() && !new.is_empty() => (BTreeMap::new(), named_fields(new)),
        (Shape::Leaf, Shape::List(new)) if left.is_null() && !new.is_empty() => (BTreeMap::new(), first_of_each(new)),
        (old, new) => {
            result.modified.member = true;
            // A leaf that takes the place of a tree, or the other way round, also takes its fields away or brings them.
            if !matches!(old, Shape::Leaf) {
                result.removed.below = present(schema, left).below;
            }
            if !matches!(new, Shape::Leaf) {
                result.added.below = present(schema, right).below;
            }
            return result;
        }
    };
    for (element, old) in &old {
        let schema = below(schema, element);
        match new.get(element) {
            None => result.removed.below.put(element.clone(), present(schema, old)),
            Some(new) => {
                let Branches {
                    removed,
                    modified,
                    added,
                } = differ(schema, old, new);
                result.removed.below.put(element.clone(), removed);
                result.modified.below.put(element.clone(), modified);
                result.added.below.put(element.clone(), added);
            }
        }
    }
    for (element, new) in &new {
        if !old.contains_key(element) {
            let schema = below(schema, element);
            let added = match element {
                Element::Field(_) => written(schema, new),
                _ => present(schema, new),
            };
            result.added.below.put(element.clone(), added);
        }
    }
    result
}

fn named_fields(fields: &Map<String, Value>) -> BTreeMap<Element, &Value> {
    fields
        .iter()
        .map(|(name, value)| (Element::field(name), value))
        .collect()
}

fn first_of_each(elements: Vec<(Element, &Value)>) -> BTreeMap<Element, &Value> {
    elements.into_iter().rev().collect()
}

/// The value without the fields of the set and all that is below them. What has lost all of its fields is null.
pub(crate) fn remove(schema: Option<&Schema>, value: &Value, fields: &FieldSet) -> Value {
    if fields.is_empty() {
        return value.clone();
    }
    let keep = |element: &Element, child: &Value| match fields.get(element) {
        None => Some(child.clone()),
        Some(branch) if branch.member => None,
        Some(branch) => Some(remove(below(schema, element), child, &branch.below)),
    };
    match shape(schema, value) {
        Shape::Leaf => value.clone(),
        Shape::Map(map) => {
            let remaining = map
                .iter()
                .filter_map(|(name, child)| Some((name.clone(), keep(&Element::field(name), child)?)));
            let remaining: Map<String, Value> = remaining.collect();
            match remaining.is_empty() {
                true => Value::Null,
                false => Value::Object(remaining),
            }
        }
        Shape::List(elements) => {
            let remaining = elements.iter().filter_map(|(element, child)| keep(element, child));
            let remaining: Vec<Value> = remaining.collect();
            match remaining.is_empty() {
                true => Value::Null,
                false => Value::Array(remaining),
            }
        }
    }
}

/// The set and every declared field on the way to one of its fields. The owner of `a.b.c` retains `a` when `a` is a
/// declared field, but not when it is a key of a map.
pub(crate) fn with_named_parents(schema: Option<&Schema>, set: &FieldSet) -> FieldSet {
    let mut result = FieldSet::default();
    for (element, branch) in set.iter() {
        let is_parent = matches!(element, Element::Field(name) if is_named(schema, name)) && !branch.below.is_empty();
        let below = with_named_parents(below(schema, element), &branch.below);
        result.put(
            element.clone(),
            Branch {
                member: branch.member || is_parent,
                below,
            },
        );
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use cluster_schema::Scalar;
    use serde_json::json;

    fn list_map() -> Schema {
        let item = Schema::object([
            ("name", Schema::scalar(Scalar::String)),
            ("v", Schema::scalar(Scalar::Integer)),
        ]);
        Schema::list(
            item,
            ListType::Map {
                keys: vec!["name".into()],
            },
        )
    }

    #[test]
    fn merged_list_keeps_the_applied_order_and_the_others_in_place() {
        let names = |value: &Value| -> String {
            value
                .as_array()
                .unwrap()
                .iter()
                .map(|item| item["name"].as_str().unwrap().to_owned())
                .collect()
        };
        let list = |names: &str| -> Value { names.chars().map(|name| json!({"name": name.to_string()})).collect() };
        for (old, new, expected) in [
            ("", "ab", "ab"),
            ("ab", "", "ab"),
            ("ab", "c", "abc"),
            ("axb", "ab", "axb"),
            ("axb", "ba", "xba"),
            ("abc", "cba", "cba"),
            ("xay", "za", "xzay"),
            ("abcx", "ca", "bcxa"),
            ("acb", "ba", "cba"),
            ("aab", "ba", "ba"),
            ("abab", "a", "abb"),
        ] {
            let merged = merge(Some(&list_map()), &list(old), &list(new));
            assert_eq!(names(&merged), expected, "{old} + {new}");
        }
    }

    #[test]
    fn elements_of_a_live_list_without_identity_make_it_a_leaf() {
        let schema = list_map();
        let odd = json!([{"v": 1}, {"name": "a"}]);
        assert_eq!(fields_of(Some(&schema), &odd), Branch::leaf());
        assert_eq!(
            merge(Some(&schema), &odd, &json!([{"name": "a"}])),
            json!([{"name": "a"}])
        );
        let twice = json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]);
        assert_eq!(
            fields_of(Some(&schema), &twice).below.to_json(),
            json!({r#"k:{"name":"a"}"#: {}})
        );
    }

    #[test]
    fn compare_names_leaves_and_the_way_to_added_ones() {
        let schema = Schema::object([(
            "spec",
            Schema::object([("items", list_map()), ("n", Schema::scalar(Scalar::Integer))]),
        )]);
        let left = json!({"spec": {"items": [{"name": "a", "v": 1}, {"name": "b"}], "n": 1.0}});
        let right = json!({"spec": {"items": [{"name": "c", "v": 3}, {"name": "a", "v": 2}], "n": 1}});
        let difference = compare(Some(&schema), Some(&left), &right);
        assert_eq!(difference.modified.paths(), [r#".spec.items[name="a"].v"#]);
        assert_eq!(
            difference.removed.paths(),
            [r#".spec.items[name="b"]"#, r#".spec.items[name="b"].name"#]
        );
        assert_eq!(
            difference.added.paths(),
            [
                r#".spec.items[name="c"]"#,
                r#".spec.items[name="c"].name"#,
                r#".spec.items[name="c"].v"#
            ]
        );
        let reordered = json!({"spec": {"items": [{"name": "b"}, {"name": "a", "v": 1}], "n": 1}});
        let difference = compare(Some(&schema), Some(&left), &reordered);
        let of_all = difference.removed.union(&difference.modified).union(&difference.added);
        assert!(of_all.is_empty(), "no manager owns the order of elements");
        let changed_type = compare(None, Some(&json!({"a": {"b": 1}})), &json!({"a": 1}));
        assert_eq!(
            (changed_type.modified.paths(), changed_type.removed.paths()),
            (vec![".a".to_owned()], vec![".a.b".to_owned()])
        );
    }
}
