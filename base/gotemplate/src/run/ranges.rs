//! The values that `range` iterates over.

use std::vec;

use super::{At, Failure, Flow, Machine, Outcome, Variable};
use crate::builtin::plain_value;
use crate::print::sprint;
use crate::text::Str;
use crate::value::template::Target;
use crate::value::{IntKind, List, Type, UintKind, Value};

/// A range that is being executed.
pub(super) struct Iteration {
    over: Over,
    /// The index of the element that is there now.
    index: Value,
    /// Whether elements are in an `interface {}`.
    is_wrapped: bool,
}

enum Over {
    List(List, usize),
    Bytes(Str, usize),
    Map(vec::IntoIter<(Str, Value)>),
    Ints(IntKind, i64, i64),
    Uints(UintKind, u64, u64),
}

impl Iteration {
    fn new(over: Over, is_wrapped: bool) -> Self {
        Self {
            over,
            index: Value::Absent,
            is_wrapped,
        }
    }

    fn next(&mut self) -> Option<Value> {
        match &mut self.over {
            Over::List(list, next) => {
                let item = list.items().get(*next)?.clone();
                self.index = Value::int(i64::try_from(*next).unwrap_or(i64::MAX));
                *next += 1;
                Some(item)
            }
            Over::Bytes(bytes, next) => {
                let byte = bytes.get(*next).copied()?;
                self.index = Value::int(i64::try_from(*next).unwrap_or(i64::MAX));
                *next += 1;
                Some(Value::Uint(UintKind::Uint8, u64::from(byte)))
            }
            Over::Map(entries) => {
                let (key, value) = entries.next()?;
                self.index = Value::Str(key);
                Some(value)
            }
            Over::Ints(kind, next, end) => {
                let value = (*next < *end).then_some(Value::Int(*kind, *next))?;
                *next += 1;
                Some(value)
            }
            Over::Uints(kind, next, end) => {
                let value = (*next < *end).then_some(Value::Uint(*kind, *next))?;
                *next += 1;
                Some(value)
            }
        }
    }
}

impl Machine<'_> {
    pub(super) fn range_start(&mut self, has_two: bool, otherwise: Target, at: At) -> Outcome {
        let value = plain_value(&self.pop());
        let iteration = match &value {
            Value::List(list) if !list.is_empty() => {
                Iteration::new(Over::List(list.clone(), 0), *list.element() == Type::Any)
            }
            Value::Bytes(bytes) if !bytes.is_empty() => Iteration::new(Over::Bytes(bytes.clone(), 0), false),
            Value::Map(map) if !map.is_empty() => {
                self.spend(map.len());
                let entries = map.entries().into_iter();
                Iteration::new(Over::Map(entries), *map.element() == Type::Any)
            }
            Value::Int(..) | Value::Uint(..) if has_two => {
                let shown = self.shown(&value)?;
                let what = format!("can't use {shown} to iterate over more than one variable");
                return Err(Failure::Message(what, at));
            }
            Value::Int(kind, end) if *end > 0 => Iteration::new(Over::Ints(*kind, 0, *end), false),
            Value::Uint(kind, end) if *end > 0 => Iteration::new(Over::Uints(*kind, 0, *end), false),
            Value::List(_)
            | Value::Bytes(_)
            | Value::Map(_)
            | Value::Int(..)
            | Value::Uint(..)
            | Value::Absent
            | Value::Nil => return Ok(Flow::Jump(otherwise)),
            _ => {
                let shown = self.shown(&value)?;
                return Err(Failure::Message(format!("range can't iterate over {shown}"), at));
            }
        };
        self.iterations.push(iteration);
        Ok(Flow::Next)
    }

    fn shown(&self, value: &Value) -> Outcome<String> {
        let shown = sprint(std::slice::from_ref(value), self.limits.string_bytes_max);
        let shown = shown.map_err(|why| Failure::Limit(why.into()))?;
        Ok(String::from_utf8_lossy(&shown).into_owned())
    }

    /// Stores the next element in a slot; after the last it leaves the range.
    pub(super) fn range_next(&mut self, slot: usize, end: Target) -> Flow {
        let Some(iteration) = self.iterations.last_mut() else {
            return Flow::Jump(end);
        };
        let is_wrapped = iteration.is_wrapped;
        match iteration.next() {
            Some(value) => {
                self.slots[slot] = Variable {
                    value: Some(value),
                    is_wrapped,
                };
                Flow::Next
            }
            None => {
                self.iterations.pop();
                Flow::Jump(end)
            }
        }
    }

    pub(super) fn range_index(&mut self) {
        let index = self.iterations.last().map(|iteration| iteration.index.clone());
        self.stack.push(index.unwrap_or(Value::Absent));
    }
}
