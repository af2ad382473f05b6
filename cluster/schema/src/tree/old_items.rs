//! Which item of an old list corresponds to a new one. It validates nothing.

use std::collections::HashMap;

use serde_json::Value;

use crate::tree::schema::ListType;

/// The items of an old list, found by the keys of a map list; items of other lists cannot be correlated.
pub(crate) struct OldItems<'l, 'o> {
    keys: &'l [Box<str>],
    items: HashMap<Vec<Option<&'o Value>>, &'o Value>,
}

impl<'l, 'o> OldItems<'l, 'o> {
    /// Indexes the old value of a list, if there was one.
    pub(crate) fn new(list_type: &'l ListType, old: Option<&'o Value>) -> Self {
        let (keys, old) = match (list_type, old.and_then(Value::as_array)) {
            (ListType::Map { keys }, Some(old)) => (&**keys, old.as_slice()),
            _ => (&[][..], &[][..]),
        };
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            items.entry(Self::identity(keys, item)).or_insert(item);
        }
        Self { keys, items }
    }

    fn identity<'v>(keys: &[Box<str>], item: &'v Value) -> Vec<Option<&'v Value>> {
        keys.iter().map(|key| item.get(&**key)).collect()
    }

    /// The old item that corresponds to a new one.
    pub(crate) fn of(&self, item: &Value) -> Option<&'o Value> {
        if self.items.is_empty() {
            return None;
        }
        self.items.get(&Self::identity(self.keys, item)).copied()
    }
}
