//! Values with fields and methods of their own: what Helm passes as structs and as maps with methods.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Value;
use super::function::Function;

/// A value of a type that the caller makes. By default it has no fields and no methods, is true, and prints
/// as a struct without fields.
pub trait Object: Any + Send + Sync + fmt::Debug {
    /// The name of the type, as errors and `%T` print it.
    fn type_name(&self) -> &'static str;

    /// The method of that name, bound to this value.
    fn method(&self, name: &str) -> Option<Arc<Function>> {
        let _ = name;
        None
    }

    /// The exported field of that name.
    fn field(&self, name: &str) -> Option<Value> {
        let _ = name;
        None
    }

    /// The fields in the order of their declaration, for printing; those that [`Self::field`] does not give are unexported.
    fn fields(&self) -> Vec<(&'static str, Value)> {
        Vec::new()
    }

    /// What the type's `String` or `Error` method returns, if it has one.
    fn text(&self) -> Option<String> {
        None
    }

    /// What the type's `MarshalText` returns, if it has one: what JSON and YAML have in place of the value.
    fn marshalled(&self) -> Option<String> {
        None
    }

    /// The value of the type's underlying map, slice or plain type; none if it is a struct.
    fn underlying(&self) -> Option<Value> {
        None
    }

    /// What it becomes when it is passed as an `interface {}`, if that is something else: it loses the methods that a pointer
    /// to it has.
    fn passed(&self) -> Option<Arc<dyn Object>> {
        None
    }

    /// What `%#v` prints, if the type has a `GoString` method.
    fn in_go(&self) -> Option<String> {
        None
    }

    /// Whether they are equal by Go's `==`, if they are not one object.
    fn equals(&self, other: &dyn Object) -> bool {
        let _ = other;
        false
    }

    /// Whether they are equal by `reflect.DeepEqual`, if they are not one object.
    fn is_like(&self, other: &dyn Object) -> bool {
        self.equals(other)
    }

    /// Whether it is true for `if`: structs are.
    fn is_true(&self) -> bool {
        self.underlying().is_none_or(|value| value.is_true())
    }
}

impl dyn Object {
    /// It, if it is of that type.
    pub(crate) fn as_type<T: Object>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}
