//! Which values a parameter of a type accepts, and the zero of a type.

use super::{List, Map, Type, Value};

impl Type {
    /// The type's own zero: what a missing key is under `missingkey=zero`, and nil where the type can be nil.
    pub(crate) fn zero(&self) -> Value {
        match self {
            Self::Reflect => Value::Absent,
            Self::Any | Self::Named(_) => Value::Nil,
            Self::Bool => Value::Bool(false),
            Self::Int(kind) => Value::Int(*kind, 0),
            Self::Uint(kind) => Value::Uint(*kind, 0),
            Self::Float => Value::Float(0.0),
            Self::Str => Value::string(""),
            Self::Bytes => Value::Bytes("".into()),
            Self::List(of) => Value::List(List::nil((**of).clone())),
            Self::Map(of) => Value::Map(Map::nil((**of).clone())),
        }
    }

    /// Whether a parameter of this type accepts a value that is not absent.
    pub(crate) fn takes(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::Reflect | Self::Any, _)
            | (Self::Bool, Value::Bool(_))
            | (Self::Float, Value::Float(_))
            | (Self::Str, Value::Str(_))
            | (Self::Bytes, Value::Bytes(_)) => true,
            (Self::Int(kind), Value::Int(given, _)) => kind == given,
            (Self::Uint(kind), Value::Uint(given, _)) => kind == given,
            (Self::List(of), Value::List(list)) => **of == *list.element(),
            (Self::Map(of), Value::Map(map)) => **of == *map.element(),
            (Self::Named(name), Value::Object(object)) => *name == object.type_name(),
            _ => false,
        }
    }
}
