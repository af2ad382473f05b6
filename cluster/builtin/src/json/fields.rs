//! Reading and setting single fields of objects, with the rules by which Go takes a field for unset.

use serde_json::Value;

/// The elements of a list field; none when the field is missing.
pub(crate) fn elements<'v>(object: &'v Value, name: &str) -> impl Iterator<Item = &'v Value> {
    object.get(name).and_then(Value::as_array).into_iter().flatten()
}

/// As [`elements`], to be changed.
pub(crate) fn elements_mut<'v>(object: &'v mut Value, name: &str) -> impl Iterator<Item = &'v mut Value> {
    object.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// The text of a field; empty when it is missing.
pub(crate) fn text<'v>(object: &'v Value, name: &str) -> &'v str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Gives an object the field that another one has, or takes it away if that has none.
pub(crate) fn copy_field(from: &Value, to: &mut Value, name: &str) {
    if let Some(to) = to.as_object_mut() {
        match from.get(name) {
            Some(value) => drop(to.insert(name.to_owned(), value.clone())),
            None => drop(to.remove(name)),
        }
    }
}

/// Whether Go would see the zero value in the field.
pub(crate) fn is_unset(object: &Value, name: &str) -> bool {
    match object.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.is_empty(),
        _ => false,
    }
}

/// Set a field that is missing or an empty text.
pub(crate) fn set_default(object: &mut Value, name: &str, value: impl Into<Value>) {
    if is_unset(object, name)
        && let Some(map) = object.as_object_mut()
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// Set a field that is missing, where Go has a pointer: an empty text is a value there.
pub(crate) fn set_default_of_pointer(object: &mut Value, name: &str, value: impl Into<Value>) {
    if object.get(name).is_none_or(Value::is_null) {
        set_default(object, name, value);
    }
}

/// Set a number that is missing or zero.
pub(crate) fn set_default_number(object: &mut Value, name: &str, value: i64) {
    if object
        .get(name)
        .is_none_or(|old| old.is_null() || old == &Value::from(0))
        && let Some(map) = object.as_object_mut()
    {
        map.insert(name.to_owned(), value.into());
    }
}

/// The object below a field, made when it is missing; `None` when something else is there.
pub(crate) fn child<'v>(object: &'v mut Value, name: &str) -> Option<&'v mut Value> {
    let map = object.as_object_mut()?;
    let field = map.entry(name).or_insert_with(|| Value::Object(serde_json::Map::new()));
    if field.is_null() {
        *field = Value::Object(serde_json::Map::new());
    }
    field.is_object().then_some(field)
}
