//! How long a value would be as YAML, before it is written: lists and maps may hold the same one many times. It never calls
//! itself, however values nest.

use super::Value;
use super::function::Scope;
use crate::environment::error::Fault;

/// What an item takes at least: a dash, a space, a digit, a line feed.
const ITEM_BYTES_MIN: usize = 4;
/// By how many spaces a value is indented further than what it is in.
const INDENT: usize = 2;

/// A value, and where its lines begin.
struct Placed {
    value: Value,
    /// If it is a map
    map_indent: usize,
    /// If it is a list
    list_indent: usize,
    /// Whether its first line is indented, too; behind a dash it is not
    has_own_lines: bool,
}

impl Placed {
    fn under_key(value: Value, indent: usize) -> Self {
        Self {
            value,
            map_indent: indent + INDENT,
            list_indent: indent,
            has_own_lines: true,
        }
    }

    fn behind_dash(value: Value, indent: usize) -> Self {
        Self {
            value,
            map_indent: indent + INDENT,
            list_indent: indent + INDENT,
            has_own_lines: false,
        }
    }

    /// The least number of bytes of so many items, with their indentation.
    fn items(&self, count: usize, indent: usize) -> usize {
        let indented = if self.has_own_lines {
            count
        } else {
            count.saturating_sub(1)
        };
        count
            .saturating_mul(ITEM_BYTES_MIN)
            .saturating_add(indented.saturating_mul(indent))
    }
}

impl Scope<'_> {
    /// Refuses a value that would be longer than the limit as YAML: to be called before it is written. Each item is a step.
    ///
    /// # Errors
    /// It would be longer, or the search takes more steps than are left.
    pub fn check_yaml(&self, value: &Value) -> Result<(), Fault> {
        let mut open = vec![Placed {
            value: value.clone(),
            map_indent: 0,
            list_indent: 0,
            has_own_lines: true,
        }];
        let mut bytes = 0_usize;
        while let Some(placed) = open.pop() {
            let more = match &placed.value {
                Value::Str(text) | Value::Bytes(text) => text.len(),
                Value::List(list) => placed.items(list.items().len(), placed.list_indent),
                Value::Map(map) => placed.items(map.len(), placed.map_indent),
                _ => 0,
            };
            bytes = bytes.saturating_add(more);
            self.check_length(bytes)?;
            match &placed.value {
                Value::List(list) => {
                    self.spend(list.items().len())?;
                    let items = list.items().iter().cloned();
                    open.extend(items.map(|item| Placed::behind_dash(item, placed.list_indent)));
                }
                Value::Map(map) => {
                    self.spend(map.len())?;
                    for (key, value) in map.entries() {
                        bytes = bytes.saturating_add(key.len());
                        open.push(Placed::under_key(value, placed.map_indent));
                    }
                }
                _ => {}
            }
        }
        self.check_length(bytes)
    }
}
