//! Sets of fields, such as those that a manager owns: their algebra, and FieldsV1, their form in JSON.
//! This file knows no schema and no object.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::element::Element;

/// What FieldsV1 calls the field itself beside fields below it.
const SELF: &str = ".";

/// A set of fields below one field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(BTreeMap<Element, Branch>);

/// Whether a field is in the set, and which fields below it are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Branch {
    /// The field itself is in the set.
    pub member: bool,
    /// Fields below it.
    pub below: FieldSet,
}

impl Branch {
    /// A field alone.
    pub fn leaf() -> Self {
        Branch {
            member: true,
            below: FieldSet::default(),
        }
    }

    /// Nothing is in the set here or below.
    pub fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }
}

impl FieldSet {
    /// Whether no field is in the set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The branch of one step.
    pub fn get(&self, element: &Element) -> Option<&Branch> {
        self.0.get(element)
    }

    /// The steps of this level.
    pub fn iter(&self) -> impl Iterator<Item = (&Element, &Branch)> {
        self.0.iter()
    }

    /// Puts a branch where none is; an empty one is left out.
    pub fn put(&mut self, element: Element, branch: Branch) {
        if !branch.is_empty() {
            self.0.insert(element, branch);
        }
    }

    /// Removes a field of the first level, with all that is below it.
    pub fn remove_field(&mut self, name: &str) {
        self.0.remove(&Element::field(name));
    }

    /// Adds one field.
    pub fn insert(&mut self, path: &[Element]) {
        if let [first, rest @ ..] = path {
            let branch = self.0.entry(first.clone()).or_default();
            if rest.is_empty() {
                branch.member = true;
            } else {
                branch.below.insert(rest);
            }
        }
    }

    /// Whether the field itself is in the set.
    pub fn has(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.0.get(last).is_some_and(|branch| branch.member),
            [first, rest @ ..] => self.0.get(first).is_some_and(|branch| branch.below.has(rest)),
        }
    }

    /// Fields in either.
    #[must_use]
    pub fn union(mut self, other: &FieldSet) -> FieldSet {
        for (element, theirs) in &other.0 {
            let ours = self.0.entry(element.clone()).or_default();
            ours.member |= theirs.member;
            ours.below = std::mem::take(&mut ours.below).union(&theirs.below);
        }
        self
    }

    /// Fields in both.
    #[must_use]
    pub fn intersection(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |ours, theirs| {
            let theirs = theirs?;
            Some(Branch {
                member: ours.member && theirs.member,
                below: ours.below.intersection(&theirs.below),
            })
        })
    }

    /// Fields in this set and not in the other. A field below one that the other set has stays.
    #[must_use]
    pub fn difference(&self, other: &FieldSet) -> FieldSet {
        self.combine(other, |ours, theirs| match theirs {
            None => Some(ours.clone()),
            Some(theirs) => Some(Branch {
                member: ours.member && !theirs.member,
                below: ours.below.difference(&theirs.below),
            }),
        })
    }

    fn combine(&self, other: &FieldSet, rule: impl Fn(&Branch, Option<&Branch>) -> Option<Branch>) -> FieldSet {
        let branches = self.0.iter().filter_map(|(element, ours)| {
            let branch = rule(ours, other.0.get(element))?;
            (!branch.is_empty()).then(|| (element.clone(), branch))
        });
        FieldSet(branches.collect())
    }

    /// Every field in the set as people read it: of each level those in the set first, as upstream goes through it.
    pub fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, prefix: &str, into: &mut Vec<String>) {
        let members = self.0.iter().filter(|(_, branch)| branch.member);
        into.extend(members.map(|(element, _)| format!("{prefix}{element}")));
        for (element, branch) in &self.0 {
            branch.below.collect_paths(&format!("{prefix}{element}"), into);
        }
    }

    /// The set as FieldsV1.
    pub fn to_json(&self) -> Value {
        let print = |(element, branch): (&Element, &Branch)| {
            let mut fields = match branch.below.to_json() {
                Value::Object(fields) => fields,
                _ => Map::new(),
            };
            if branch.member && !fields.is_empty() {
                fields.insert(SELF.to_owned(), Value::Object(Map::new()));
            }
            (element.print(), Value::Object(fields))
        };
        Value::Object(self.0.iter().map(print).collect())
    }

    /// Reads FieldsV1; none when it is not that.
    pub fn from_json(json: &Value) -> Option<FieldSet> {
        let mut set = FieldSet::default();
        for (text, below) in json.as_object()? {
            if text == SELF {
                // Only meaningful below a field, where the caller has read it.
                continue;
            }
            let fields = below.as_object()?;
            let branch = Branch {
                member: fields.is_empty() || fields.contains_key(SELF),
                below: FieldSet::from_json(below)?,
            };
            set.put(Element::parse(text)?, branch);
        }
        Some(set)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(json: Value) -> FieldSet {
        FieldSet::from_json(&json).expect("FieldsV1")
    }

    #[test]
    fn fields_v1_round_trips_with_adversarial_names() {
        let text = json!({
            "f:metadata": {"f:labels": {".": {}, "f:.": {}, "f:f:x": {}, "f:a/b": {}, "f:": {}}},
            "f:spec": {"f:ports": {r#"k:{"port":80,"protocol":"TCP"}"#: {".": {}, "f:port": {}}, "i:0": {}}},
            r#"v:"x""#: {},
        });
        assert_eq!(set(text.clone()).to_json(), text);
        assert_eq!(
            set(text).paths(),
            [
                r#"[="x"]"#,
                ".metadata.labels",
                ".metadata.labels.",
                ".metadata.labels..",
                ".metadata.labels.a/b",
                ".metadata.labels.f:x",
                r#".spec.ports[port=80,protocol="TCP"]"#,
                ".spec.ports[0]",
                r#".spec.ports[port=80,protocol="TCP"].port"#,
            ]
        );
        for broken in [
            json!([]),
            json!({"x": {}}),
            json!({"f:a": 1}),
            json!({"f:a": {"k:1": {}}}),
        ] {
            assert_eq!(FieldSet::from_json(&broken), None, "{broken}");
        }
    }

    #[test]
    fn difference_and_intersection_look_at_fields_not_at_subtrees() {
        let left = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let right = set(json!({"f:a": {}, "f:c": {"f:d": {}}}));
        assert_eq!(left.difference(&right), set(json!({"f:a": {"f:b": {}}, "f:c": {}})));
        assert_eq!(left.intersection(&right), set(json!({"f:a": {}})));
        assert_eq!(
            left.clone().union(&right),
            set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {".": {}, "f:d": {}}}))
        );
        assert!(left.difference(&left).is_empty());
    }
}
