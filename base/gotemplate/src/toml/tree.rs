//! Tables while they are read: they grow, and are shared.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::text::Str;
use crate::value::{List, Map, Type, Value};

/// A table. Clones are the same one.
#[derive(Clone, Default)]
pub(super) struct Table(Rc<RefCell<BTreeMap<Str, Node>>>);

/// What stands under a key.
#[derive(Clone)]
pub(super) enum Node {
    Table(Table),
    /// What `[[key]]` makes
    Tables(Rc<RefCell<Vec<Table>>>),
    Array(Rc<Vec<Node>>),
    Plain(Value),
}

impl Table {
    pub(super) fn get(&self, key: &[u8]) -> Option<Node> {
        self.0.borrow().get(key).cloned()
    }

    pub(super) fn set(&self, key: Str, node: Node) {
        self.0.borrow_mut().insert(key, node);
    }

    /// As a value. The reader limits how deep tables nest, which this calls itself for.
    pub(super) fn value(&self) -> Value {
        Value::Map(self.map())
    }

    fn map(&self) -> Map {
        let table = self.0.borrow();
        let entries = table.iter().map(|(key, node)| (key.clone(), node.value()));
        Map::new(Type::Any, entries.collect::<Vec<_>>())
    }
}

impl Node {
    /// The table that keys behind this one go into: of many, the last.
    pub(super) fn table(&self) -> Option<Table> {
        match self {
            Self::Table(table) => Some(table.clone()),
            Self::Tables(tables) => tables.borrow().last().cloned(),
            _ => None,
        }
    }

    fn value(&self) -> Value {
        match self {
            Self::Table(table) => table.value(),
            Self::Tables(tables) => {
                let tables = tables.borrow();
                let values = tables.iter().map(Table::value).collect();
                Value::List(List::new(Type::Map(Box::new(Type::Any)), values))
            }
            Self::Array(items) => Value::list(items.iter().map(Self::value).collect()),
            Self::Plain(value) => value.clone(),
        }
    }
}
