//! How large values can be by their schema (kubernetes/kubernetes v1.35
//! `staging/src/k8s.io/apiserver/pkg/cel/common/schemas.go`, `pkg/cel/types.go`).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ptr::from_ref;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::estimate::range::Range;
use crate::typing::declared::{Declared, Shape};

/// Largest request that estimates assume, in bytes.
const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;

/// The JSON of a schema's object.
type Node = Map<String, Value>;

/// A value that expressions are about, and what is known of the sizes of its parts. The smallest size of an object is the sum
/// over all required fields; expressions need it at each use of a name, so it is cached.
pub(crate) struct Sizes<'s> {
    this: Declared<'s>,
    /// The fewest bytes of objects, by the address of their schema, which is borrowed beside them so that it stays valid.
    objects: RefCell<HashMap<*const Node, (&'s Node, u64)>>,
}

impl<'s> Sizes<'s> {
    pub(crate) fn of(this: Declared<'s>) -> Self {
        Self {
            this,
            objects: RefCell::default(),
        }
    }

    /// The size of a part of the value; the first name of the path is not looked at.
    pub(crate) fn at(&self, path: &[Arc<str>]) -> Option<Range> {
        let mut here = self.this;
        for part in path.split_first()?.1 {
            here = match &**part {
                "@items" | "@values" => here.elements()?,
                "@keys" => here.keys()?,
                field => here.spelled_field(field)?,
            };
        }
        Some(Range {
            min: 0,
            max: self.elements_max(here),
        })
    }

    /// How often a value of it can stand in one request.
    pub(crate) fn times_max(&self) -> u64 {
        REQUEST_BYTES_MAX / (self.bytes_min(self.this) + 1)
    }

    /// How many elements or characters a value can have; nothing where size means nothing.
    fn elements_max(&self, of: Declared<'s>) -> u64 {
        const QUOTES: u64 = 2;
        let Some(shape) = of.shape().filter(|_| !matches!(of, Declared::Key)) else {
            return 0;
        };
        match shape {
            // A character has up to four bytes.
            Shape::Dyn => of
                .bound("maxLength")
                .map_or(REQUEST_BYTES_MAX - QUOTES, |length| length.saturating_mul(4)),
            Shape::String => match (of.bound("maxLength"), longest_choice(of)) {
                (Some(length), _) => length.saturating_mul(4),
                (None, Some(longest)) => longest,
                (None, None) => REQUEST_BYTES_MAX - QUOTES,
            },
            Shape::Bytes => of.bound("maxLength").unwrap_or(REQUEST_BYTES_MAX - QUOTES),
            Shape::Duration | Shape::DateTime => 32,
            Shape::Date => 12,
            Shape::Bool | Shape::Double | Shape::Int | Shape::Object => 0,
            Shape::List(items) => of
                .bound("maxItems")
                .unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (self.bytes_min(items) + 1)),
            // A key takes two quotes, a colon, a comma and at least two characters.
            Shape::Map(values) => of
                .bound("maxProperties")
                .unwrap_or_else(|| (REQUEST_BYTES_MAX - 2) / (self.bytes_min(values) + 6)),
        }
    }

    /// The fewest bytes of JSON that a value has.
    fn bytes_min(&self, of: Declared<'s>) -> u64 {
        let Some(shape) = of.shape() else { return 0 };
        match shape {
            Shape::Dyn | Shape::Double | Shape::Int => 1,
            Shape::String | Shape::Bytes | Shape::List(_) | Shape::Map(_) => 2,
            Shape::Duration => 3,
            Shape::Date => 12,
            Shape::DateTime => 21,
            Shape::Bool => 4,
            Shape::Object => self.object_bytes_min(of),
        }
    }

    fn object_bytes_min(&self, of: Declared<'s>) -> u64 {
        let Declared::Node { json, .. } = of else { return 2 };
        if let Some((_, known)) = self.objects.borrow().get(&from_ref(json)) {
            return *known;
        }
        let required = json.get("required").and_then(Value::as_array);
        let fields = json.get("properties").and_then(Value::as_object);
        let mut names: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
        names.sort_unstable();
        names.dedup();
        let of_field = |name: &str| {
            let field = of.raw_field(name)?;
            field.shape()?;
            let has_default = || {
                let default = fields?.get(name)?.get("default")?;
                (!default.is_null()).then_some(())
            };
            match field {
                Declared::Node { .. } if has_default().is_some() => None,
                // Quotes, a colon and a comma.
                _ => Some(name.len() as u64 + self.bytes_min(field) + 4),
            }
        };
        let least = 2 + names.into_iter().filter_map(of_field).sum::<u64>();
        self.objects.borrow_mut().insert(from_ref(json), (json, least));
        least
    }
}

fn longest_choice(of: Declared<'_>) -> Option<u64> {
    let Declared::Node { json, .. } = of else { return None };
    let choices = json.get("enum")?.as_array().filter(|choices| !choices.is_empty())?;
    let lengths = choices.iter().filter_map(Value::as_str).map(str::len);
    Some(lengths.max().unwrap_or(0) as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn smallest_sizes_are_sums_of_required_fields_and_are_cached() {
        let inner = json!({"type": "object", "required": ["on", "off"], "properties": {
            "on": {"type": "boolean"}, "off": {"type": "boolean", "default": true}, "free": {"type": "string"}}});
        let schema = json!({"type": "object", "required": ["inner", "inner", "gone"], "properties": {"inner": inner}});
        let this = Declared::Node {
            json: schema.as_object().unwrap(),
            root: false,
        };
        let known = Sizes::of(this);
        // Upstream counts two quotes, a colon and a comma for each field; braces are two bytes.
        assert_eq!(known.bytes_min(this), 2 + (5 + 4) + (2 + (2 + 4) + 4));

        let objects: Vec<_> = known.objects.borrow().keys().copied().collect();
        assert_eq!(objects.len(), 2, "{objects:?}");
        for (_, least) in known.objects.borrow_mut().values_mut() {
            *least = 7;
        }
        assert_eq!(
            known.times_max(),
            REQUEST_BYTES_MAX / 8,
            "a cached size is not computed again"
        );
    }
}
