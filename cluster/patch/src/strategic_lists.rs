//! Lists in strategic merge patches: merged by key, as sets, or replaced; deletions and the order of elements.

use cluster_schema::Schema;
use serde_json::{Map, Value};

use crate::error::PatchError;
use crate::strategic::{PATCH, merge_map, unknown_directive};

/// How two versions of a list become one.
pub(crate) struct ListRule<'a> {
    merge: bool,
    key: Option<&'a str>,
    items: Option<&'a Schema>,
}

impl<'a> ListRule<'a> {
    /// The rule of a list's schema; without one, lists are replaced.
    pub(crate) fn of(schema: Option<&'a Schema>) -> Self {
        let patch = schema.map(Schema::patch);
        ListRule {
            merge: patch.is_some_and(|patch| patch.merge),
            key: patch.and_then(|patch| patch.merge_key.as_deref()),
            items: schema.and_then(Schema::items),
        }
    }

    /// What tells an element from others: the value of its merge key, or the element itself.
    fn identity<'v>(&self, element: &'v Value) -> Option<&'v Value> {
        match (element, self.key) {
            (Value::Object(fields), Some(key)) => fields.get(key),
            (Value::Object(_), None) => None,
            (scalar, _) => Some(scalar),
        }
    }

    fn position(&self, list: &[Value], element: &Value) -> Option<usize> {
        let identity = self.identity(element)?;
        list.iter().position(|other| self.identity(other) == Some(identity))
    }
}

/// Merges a patch's list into the old one. Without an order of its own the patch's elements keep the patch's order and
/// stand before server-only ones that they have no order with: new elements come first, as upstream.
pub(crate) fn merge_list(old: Vec<Value>, patch: &[Value], rule: &ListRule<'_>) -> Result<Vec<Value>, PatchError> {
    if !rule.merge {
        return Ok(patch.to_vec());
    }
    if patch.iter().all(|item| !item.is_object()) && old.iter().all(|item| !item.is_object()) {
        return Ok(merge_set(old, patch));
    }
    let order: Vec<Value> = patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect();
    let merged = merge_elements(old.clone(), patch, rule)?;
    Ok(in_order(merged, &order, &old, rule))
}

/// As [`merge_list`], with `$setElementOrder`. Without values only the order changes.
pub(crate) fn merge_list_in_order(
    old: Vec<Value>,
    patch: Option<&[Value]>,
    order: &[Value],
    rule: &ListRule<'_>,
) -> Result<Vec<Value>, PatchError> {
    if !rule.merge {
        return Ok(patch.map_or(old, <[Value]>::to_vec));
    }
    let mut before = 0;
    for item in patch.into_iter().flatten().filter(|item| item.get(PATCH).is_none()) {
        // The order must name every element that the patch sets, in the patch's order.
        match rule.position(&order[before..], item) {
            Some(position) => before += position + 1,
            None => {
                return Err(PatchError::Malformed(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    Value::from(patch.unwrap_or_default()),
                    Value::from(order)
                )));
            }
        }
    }
    let merged = match patch {
        Some(patch) if patch.iter().any(Value::is_object) => merge_elements(old.clone(), patch, rule)?,
        Some(patch) => merge_set(old.clone(), patch),
        None => old.clone(),
    };
    Ok(in_order(merged, order, &old, rule))
}

fn merge_set(mut old: Vec<Value>, patch: &[Value]) -> Vec<Value> {
    for value in patch {
        if !old.contains(value) {
            old.push(value.clone());
        }
    }
    old
}

fn merge_elements(mut old: Vec<Value>, patch: &[Value], rule: &ListRule<'_>) -> Result<Vec<Value>, PatchError> {
    let Some(key) = rule.key else {
        return Err(PatchError::Malformed(
            "cannot merge lists of objects without a merge key".to_owned(),
        ));
    };
    if patch
        .iter()
        .any(|item| item.get(PATCH).and_then(Value::as_str) == Some("replace"))
    {
        return Ok(patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect());
    }
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(PatchError::Malformed(format!(
                "a list of objects cannot be merged with {item}"
            )));
        };
        let Some(identity) = fields.get(key) else {
            return Err(PatchError::Malformed(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        match fields.get(PATCH).map(|directive| (directive, directive.as_str())) {
            Some((_, Some("delete"))) => old.retain(|other| rule.identity(other) != Some(identity)),
            Some((directive, _)) => return Err(unknown_directive(directive)),
            None => match rule.position(&old, item) {
                Some(position) => {
                    let merged = merge_map(take_fields(&mut old[position]), fields, rule.items)?;
                    old[position] = Value::Object(merged);
                }
                None => old.push(Value::Object(merge_map(Map::new(), fields, rule.items)?)),
            },
        }
    }
    Ok(old)
}

fn take_fields(value: &mut Value) -> Map<String, Value> {
    match value.take() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Puts elements named in `order` into that order and lets the others keep their place among the server's.
fn in_order(merged: Vec<Value>, order: &[Value], server: &[Value], rule: &ListRule<'_>) -> Vec<Value> {
    let (mut ordered, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        match rule.position(order, &item) {
            Some(position) => ordered.push((position, item)),
            None => others.push(item),
        }
    }
    ordered.sort_by_key(|(position, _)| *position);
    let mut ordered = ordered.into_iter().map(|(_, item)| item).peekable();
    let mut others = others.into_iter().peekable();
    let mut result = Vec::new();
    loop {
        let other_first = match (others.peek(), ordered.peek()) {
            (Some(other), Some(next)) => match (rule.position(server, other), rule.position(server, next)) {
                (Some(other), Some(next)) => other < next,
                _ => false,
            },
            (other, _) => other.is_some(),
        };
        let next = if other_first { others.next() } else { ordered.next() };
        match next {
            Some(item) => result.push(item),
            None => return result,
        }
    }
}

/// Removes the patch's values from a list of scalars; without a list there is nothing to remove.
pub(crate) fn delete_from_primitive_list(
    list: Option<&mut Value>,
    values: &Value,
    key: &str,
) -> Result<(), PatchError> {
    let Some(values) = values.as_array() else {
        return Err(PatchError::Malformed(format!("{key} must be a list")));
    };
    if let Some(Value::Array(items)) = list {
        items.retain(|item| !values.contains(item));
    }
    Ok(())
}
