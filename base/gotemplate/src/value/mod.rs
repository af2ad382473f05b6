//! What templates work on: Go's values as far as Helm passes them, with Go's names of their types. Clones are cheap: the
//! contents are shared. Nothing here prints values: that is [`crate::print`].

mod assignment;
mod collections;
pub(crate) mod function;
mod measure;
mod object;
pub(crate) mod template;
mod types;

pub use collections::{List, Map, Named};
pub use object::Object;
pub(crate) use types::is_pointer;
pub use types::{IntKind, Type, UintKind};

use std::borrow::Cow;
use std::sync::Arc;

use crate::text::Str;

/// A value of Go.
#[derive(Clone, Debug)]
pub enum Value {
    /// Nothing at all: Go's zero `reflect.Value`, what a missing key of a map is. Prints as `<no value>`.
    Absent,
    /// An interface that holds nothing: what `null` is in a list or a map.
    Nil,
    /// `bool`
    Bool(bool),
    /// A signed integer of that kind
    Int(IntKind, i64),
    /// An unsigned integer of that kind
    Uint(UintKind, u64),
    /// `float64`
    Float(f64),
    /// `complex128`, from a constant such as `1i`: real and imaginary part
    Complex(f64, f64),
    /// `string`: usually UTF-8, but not always
    Str(Str),
    /// `[]uint8`
    Bytes(Str),
    /// A slice
    List(List),
    /// A map with keys that are strings. Clones are the same map: what one changes, all see.
    Map(Map),
    /// Something with fields and methods of its own
    Object(Arc<dyn Object>),
}

impl Value {
    /// An `int`.
    pub fn int(value: i64) -> Self {
        Self::Int(IntKind::Int, value)
    }

    /// A string.
    pub fn string(text: impl Into<Str>) -> Self {
        Self::Str(text.into())
    }

    /// A `[]interface {}`.
    pub fn list(items: Vec<Value>) -> Self {
        Self::List(List::new(Type::Any, items))
    }

    /// A `map[string]interface {}`.
    pub fn map<K: Into<Str>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Map(Map::new(Type::Any, entries))
    }

    /// The name of the type as Go prints it: of nothing, that of the interface that holds nothing.
    pub fn type_name(&self) -> Cow<'_, str> {
        match self {
            Self::Absent | Self::Nil => Cow::Borrowed(types::ANY),
            Self::Bool(_) => Cow::Borrowed(types::BOOL),
            Self::Int(kind, _) => Cow::Borrowed(kind.name()),
            Self::Uint(kind, _) => Cow::Borrowed(kind.name()),
            Self::Float(_) => Cow::Borrowed(types::FLOAT),
            Self::Complex(..) => Cow::Borrowed(types::COMPLEX),
            Self::Str(_) => Cow::Borrowed(types::STRING),
            Self::Bytes(_) => Cow::Borrowed(types::BYTES),
            Self::List(list) => Cow::Owned(list.type_of().to_string()),
            Self::Map(map) => Cow::Owned(map.type_of().to_string()),
            Self::Object(object) => Cow::Borrowed(object.type_name()),
        }
    }

    /// Whether it is true for `if`: text/template's `IsTrue` of Go 1.26.
    pub fn is_true(&self) -> bool {
        match self {
            Self::Absent | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(_, value) => *value != 0,
            Self::Uint(_, value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Complex(real, imaginary) => *real != 0.0 || *imaginary != 0.0,
            Self::Str(text) | Self::Bytes(text) => !text.is_empty(),
            Self::List(list) => !list.is_empty(),
            Self::Map(map) => !map.is_empty(),
            Self::Object(object) => object.is_true(),
        }
    }

    /// Whether there is nothing: absent or an interface that holds nothing.
    pub fn is_nil(&self) -> bool {
        matches!(self, Self::Absent | Self::Nil)
    }

    /// Whether it is nil by Go's `==`: nothing, or a slice or map that is nil.
    pub(crate) fn is_go_nil(&self) -> bool {
        match self {
            Self::List(list) => list.is_nil(),
            Self::Map(map) => map.is_nil(),
            value => value.is_nil(),
        }
    }

    /// What it holds if it is a slice.
    pub(crate) fn items(&self) -> Option<Vec<Self>> {
        match self {
            Self::List(list) => Some(list.items().to_vec()),
            Self::Bytes(bytes) => {
                let bytes = bytes.iter().map(|byte| u64::from(*byte));
                Some(bytes.map(|byte| Self::Uint(UintKind::Uint8, byte)).collect())
            }
            _ => None,
        }
    }

    /// The object that it is, if it is one of that type.
    pub(crate) fn object<T: Object>(&self) -> Option<&T> {
        match self {
            Self::Object(object) => object.as_type(),
            _ => None,
        }
    }

    /// What the interface holds: of one that holds nothing, nothing at all.
    pub(crate) fn unwrapped(self) -> Self {
        match self {
            Self::Nil => Self::Absent,
            value => value,
        }
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::string(text)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::string(text)
    }
}
