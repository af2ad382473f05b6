//! Lists in strategic merge patches: merged by key, as sets, or replaced; deletions and the order of elements.

use std::collections::{HashMap, HashSet};

use cluster_schema::Schema;
use serde_json::{Map, Value};

use crate::error::{PatchError, go_text};
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

    /// What distinguishes an element from others: the value of its merge key, or the element itself.
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

/// Where elements stand in a list, so that long lists are not searched again for each element.
struct Places(HashMap<String, Vec<usize>>);

impl Places {
    fn of(list: &[Value], rule: &ListRule<'_>) -> Self {
        let mut places = Places(HashMap::with_capacity(list.len()));
        for (place, element) in list.iter().enumerate() {
            if let Some(identity) = rule.identity(element) {
                places.add(identity, place);
            }
        }
        places
    }

    fn add(&mut self, identity: &Value, place: usize) {
        self.0.entry(identity.to_string()).or_default().push(place);
    }

    fn first(&self, identity: &Value) -> Option<usize> {
        self.0.get(&identity.to_string())?.first().copied()
    }

    fn first_of(&self, element: &Value, rule: &ListRule<'_>) -> Option<usize> {
        self.first(rule.identity(element)?)
    }

    fn remove(&mut self, identity: &Value) -> Vec<usize> {
        self.0.remove(&identity.to_string()).unwrap_or_default()
    }
}

/// Merges a patch's list into the old one. Without an order of its own the patch's elements keep the patch's order and
/// stand before server-only ones that they have no order with: new elements come first, as upstream.
pub(crate) fn merge_list(old: Vec<Value>, patch: &[Value], rule: &ListRule<'_>) -> Result<Vec<Value>, PatchError> {
    if !rule.merge {
        return Ok(patch.to_vec());
    }
    if patch.iter().all(|item| !item.is_object()) && old.iter().all(|item| !item.is_object()) {
        return Ok(in_order(merge_set(old.clone(), patch), patch, &old, rule));
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
                return Err(PatchError::Failed(format!(
                    "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
                    go_text(&Value::from(patch.unwrap_or_default())),
                    go_text(&Value::from(order))
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
    let mut there: HashSet<String> = old.iter().map(Value::to_string).collect();
    for value in patch {
        if there.insert(value.to_string()) {
            old.push(value.clone());
        }
    }
    old
}

fn merge_elements(old: Vec<Value>, patch: &[Value], rule: &ListRule<'_>) -> Result<Vec<Value>, PatchError> {
    let Some(key) = rule.key else {
        return Err(PatchError::Failed(
            "cannot merge lists of objects without a merge key".to_owned(),
        ));
    };
    if patch
        .iter()
        .any(|item| item.get(PATCH).and_then(Value::as_str) == Some("replace"))
    {
        return Ok(patch.iter().filter(|item| item.get(PATCH).is_none()).cloned().collect());
    }
    let mut places = Places::of(&old, rule);
    let mut merged: Vec<Option<Value>> = old.into_iter().map(Some).collect();
    for item in patch {
        let Value::Object(fields) = item else {
            return Err(PatchError::Failed(format!(
                "list element types are not identical: a list of objects cannot be merged with {item}"
            )));
        };
        let Some(identity) = fields.get(key) else {
            return Err(PatchError::Failed(format!(
                "map: {} does not contain declared merge key: {key}",
                go_text(item)
            )));
        };
        match fields.get(PATCH).map(|directive| (directive, directive.as_str())) {
            Some((_, Some("delete"))) => {
                for place in places.remove(identity) {
                    merged[place] = None;
                }
            }
            Some((_, Some("merge"))) => {
                let why = "merging lists cannot yet be specified in the patch";
                return Err(PatchError::Failed(why.to_owned()));
            }
            Some((directive, _)) => return Err(unknown_directive(directive, fields)),
            None => {
                let place = places.first(identity);
                let before = place.and_then(|place| merged[place].as_mut()).map(take_fields);
                let element = Value::Object(merge_map(before.unwrap_or_default(), fields, rule.items)?);
                match place {
                    Some(place) => merged[place] = Some(element),
                    None => {
                        places.add(identity, merged.len());
                        merged.push(Some(element));
                    }
                }
            }
        }
    }
    Ok(merged.into_iter().flatten().collect())
}

fn take_fields(value: &mut Value) -> Map<String, Value> {
    match value.take() {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

/// Puts elements named in `order` into that order and lets the others keep their place among the server's.
fn in_order(merged: Vec<Value>, order: &[Value], server: &[Value], rule: &ListRule<'_>) -> Vec<Value> {
    let (wanted, present) = (Places::of(order, rule), Places::of(server, rule));
    let (mut ordered, mut others) = (Vec::new(), Vec::new());
    for item in merged {
        match wanted.first_of(&item, rule) {
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
            (Some(other), Some(next)) => match (present.first_of(other, rule), present.first_of(next, rule)) {
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
pub(crate) fn delete_from_primitive_list(list: Option<&mut Value>, values: &Value) -> Result<(), PatchError> {
    let Some(Value::Array(items)) = list else {
        return Ok(());
    };
    let Some(values) = values.as_array() else {
        return Err(PatchError::Malformed(
            "invalid patch format of primitive list".to_owned(),
        ));
    };
    // As text, so that long lists are not searched again for each element.
    let values: HashSet<String> = values.iter().map(Value::to_string).collect();
    items.retain(|item| !values.contains(&item.to_string()));
    Ok(())
}
