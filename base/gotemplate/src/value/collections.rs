//! Slices and maps. A slice never changes; the clones of a map share their entries, as in Go: `set` changes all of them.
//!
//! Values can nest to any depth, so that nothing here calls itself for what is inside them, not even when they are dropped.

use std::collections::{BTreeMap, HashSet};
use std::mem;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use super::function::Function;
use super::{Type, Value};
use crate::text::Str;

/// A slice of Go.
#[derive(Clone, Debug)]
pub struct List(Arc<ListBody>);

#[derive(Debug)]
struct ListBody {
    element: Type,
    is_nil: bool,
    items: Vec<Value>,
}

impl List {
    /// A slice with elements of that type.
    pub fn new(element: Type, items: Vec<Value>) -> Self {
        Self(Arc::new(ListBody {
            element,
            is_nil: false,
            items,
        }))
    }

    /// Go's nil slice, which is empty; only `%#v` and JSON print it otherwise.
    pub fn nil(element: Type) -> Self {
        Self(Arc::new(ListBody {
            element,
            is_nil: true,
            items: Vec::new(),
        }))
    }

    /// Whether it is nil.
    pub fn is_nil(&self) -> bool {
        self.0.is_nil
    }

    /// What it holds.
    pub fn items(&self) -> &[Value] {
        &self.0.items
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.0.items.is_empty()
    }

    /// The type of its elements.
    pub fn element(&self) -> &Type {
        &self.0.element
    }

    /// Whether both are one slice.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its address in memory, which identifies it as long as there is a reference to it.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Its type.
    pub fn type_of(&self) -> Type {
        Type::List(Box::new(self.0.element.clone()))
    }
}

impl Drop for ListBody {
    fn drop(&mut self) {
        let items = self.items.iter_mut().filter_map(take_nested).collect();
        drop_flat(items);
    }
}

/// A map of Go with keys that are strings, ordered by their bytes.
#[derive(Clone, Debug)]
pub struct Map(Arc<MapBody>, Option<&'static Named>);

/// A map type of the caller: its name, and its methods.
#[derive(Debug)]
pub struct Named {
    /// As errors and `%T` print it
    pub name: &'static str,
    /// The method of a name, bound to a map
    pub method: fn(&Map, &str) -> Option<Arc<Function>>,
}

#[derive(Debug)]
struct MapBody {
    element: Type,
    is_nil: bool,
    entries: RwLock<Entries>,
}

/// A map that is not retained.
#[derive(Debug)]
pub(crate) struct WeakMap(Weak<MapBody>);

impl WeakMap {
    /// The map, unless it is gone.
    pub(crate) fn upgrade(&self) -> Option<Map> {
        self.0.upgrade().map(|body| Map(body, None))
    }

    /// Whether it is that map.
    pub(crate) fn is(&self, map: &Map) -> bool {
        self.0.as_ptr() == Arc::as_ptr(&map.0)
    }
}

type Entries = BTreeMap<Str, Value>;

impl Map {
    /// A map to values of that type.
    pub fn new<K: Into<Str>>(element: Type, entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        let entries = entries.into_iter().map(|(key, value)| (key.into(), value)).collect();
        let body = MapBody {
            element,
            is_nil: false,
            entries: RwLock::new(entries),
        };
        Self(Arc::new(body), None)
    }

    /// The same map as a value of that type.
    #[must_use]
    pub fn named(&self, name: &'static Named) -> Self {
        Self(Arc::clone(&self.0), Some(name))
    }

    /// The same map as a plain one.
    #[must_use]
    pub fn unnamed(&self) -> Self {
        Self(Arc::clone(&self.0), None)
    }

    /// The method of that name, if the map's type has methods.
    pub(crate) fn method(&self, name: &str) -> Option<Arc<Function>> {
        self.1.and_then(|named| (named.method)(self, name))
    }

    /// Go's nil map: empty, and nothing can be put into it.
    pub fn nil(element: Type) -> Self {
        let body = MapBody {
            element,
            is_nil: true,
            entries: RwLock::default(),
        };
        Self(Arc::new(body), None)
    }

    /// Whether it is nil: to be checked before it is changed.
    pub fn is_nil(&self) -> bool {
        self.0.is_nil
    }

    /// The type of its values.
    pub fn element(&self) -> &Type {
        &self.0.element
    }

    /// Its type.
    pub fn type_of(&self) -> Type {
        match self.1 {
            Some(named) => Type::Named(named.name),
            None => Type::Map(Box::new(self.0.element.clone())),
        }
    }

    /// The value under a key.
    pub fn get(&self, key: &[u8]) -> Option<Value> {
        self.read().get(key).cloned()
    }

    /// Whether there is that key.
    pub fn has(&self, key: &[u8]) -> bool {
        self.read().contains_key(key)
    }

    /// Puts a value under a key, in place of what was there. A nil map stays empty.
    pub fn set(&self, key: Str, value: Value) {
        if self.0.is_nil {
            return;
        }
        // The value before is dropped after the lock is released.
        let before = self.write().insert(key, value);
        drop(before);
    }

    /// Takes a key out.
    pub fn unset(&self, key: &[u8]) {
        let before = self.write().remove(key);
        drop(before);
    }

    pub(crate) fn downgrade(&self) -> WeakMap {
        WeakMap(Arc::downgrade(&self.0))
    }

    /// Empties maps and all maps in them. To be called on maps that templates have had and no caller needs any more: one
    /// that was put into itself would never be freed.
    pub(crate) fn dismantle(maps: impl IntoIterator<Item = Self>) {
        let mut open: Vec<Value> = maps.into_iter().map(Value::Map).collect();
        // A list may be in many places and stays as it is, so that it is visited once.
        let mut lists = Vec::new();
        let mut seen = HashSet::new();
        while let Some(value) = open.pop() {
            match value {
                Value::Map(map) => open.extend(mem::take(&mut *map.write()).into_values()),
                Value::List(list) if seen.insert(Arc::as_ptr(&list.0)) => {
                    open.extend_from_slice(list.items());
                    lists.push(list);
                }
                _ => {}
            }
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// What it holds now, ordered by key.
    pub fn entries(&self) -> Vec<(Str, Value)> {
        self.read()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// Whether both are one map.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Its address in memory, which identifies it as long as there is a reference to it.
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    // No panic can have left a map half changed: each change is one call of `BTreeMap`.
    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.0.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.0.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for MapBody {
    fn drop(&mut self) {
        let entries = self.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
        let nested = entries.values_mut().filter_map(take_nested).collect();
        drop_flat(nested);
    }
}

/// Takes a list or a map out of its place, and leaves any other value.
fn take_nested(value: &mut Value) -> Option<Value> {
    matches!(value, Value::List(_) | Value::Map(_)).then(|| mem::replace(value, Value::Nil))
}

/// Drops values one after the other: what has no other reference is emptied first, so that its own drop finds nothing.
fn drop_flat(mut values: Vec<Value>) {
    while let Some(value) = values.pop() {
        match value {
            Value::List(List(mut body)) => {
                if let Some(body) = Arc::get_mut(&mut body) {
                    values.extend(body.items.iter_mut().filter_map(take_nested));
                }
            }
            Value::Map(Map(mut body, _)) => {
                if let Some(body) = Arc::get_mut(&mut body) {
                    let entries = body.entries.get_mut().unwrap_or_else(PoisonError::into_inner);
                    values.extend(entries.values_mut().filter_map(take_nested));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Map, Type, Value};

    #[test]
    fn values_of_any_depth_are_dropped_without_running_out_of_stack() {
        let mut value = Value::Nil;
        for step in 0..200_000 {
            value = match step % 2 {
                0 => Value::list(vec![value]),
                _ => Value::map([("a", value)]),
            };
        }
        drop(value);
    }

    #[test]
    fn dismantle_empties_maps_that_contain_each_other() {
        let map = Map::new::<&str>(Type::Any, []);
        let inner = Map::new::<&str>(Type::Any, []);
        map.set("list".into(), Value::list(vec![Value::Map(inner.clone())]));
        inner.set("map".into(), Value::Map(map.clone()));
        Map::dismantle([map.clone()]);
        assert!(map.is_empty() && inner.is_empty());
    }

    #[test]
    fn clones_of_a_map_share_their_entries() {
        let map = Map::new::<&str>(Type::Any, []);
        let other = map.clone();
        map.set("a".into(), Value::int(1));
        assert!(other.has(b"a") && other.is(&map));
    }
}
