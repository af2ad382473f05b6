//! Names and rules of Go's types, as far as templates can distinguish them.

use std::fmt;

pub(super) const ANY: &str = "interface {}";
pub(super) const BOOL: &str = "bool";
pub(super) const FLOAT: &str = "float64";
pub(super) const COMPLEX: &str = "complex128";
pub(super) const STRING: &str = "string";
pub(super) const BYTES: &str = "[]uint8";
const REFLECT: &str = "reflect.Value";

/// A signed integer's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntKind {
    /// `int`, of 64 bits
    Int,
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
}

impl IntKind {
    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Int => "int",
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
        }
    }
}

/// An unsigned integer's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UintKind {
    /// `uint`, of 64 bits
    Uint,
    /// `uint8`
    Uint8,
    /// `uint16`
    Uint16,
    /// `uint32`
    Uint32,
    /// `uint64`
    Uint64,
}

impl UintKind {
    /// The name of the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Uint => "uint",
            Self::Uint8 => "uint8",
            Self::Uint16 => "uint16",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
        }
    }
}

/// The type of a parameter, or of what a list or a map holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// `reflect.Value`: what templates' own functions take, which see whether there is a value at all
    Reflect,
    /// `interface {}`
    Any,
    /// `bool`
    Bool,
    /// A signed integer
    Int(IntKind),
    /// An unsigned integer
    Uint(UintKind),
    /// `float64`
    Float,
    /// `string`
    Str,
    /// `[]uint8`
    Bytes,
    /// A slice of that type
    List(Box<Type>),
    /// A map from strings to that type
    Map(Box<Type>),
    /// The type of an [`super::Object`]
    Named(&'static str),
}

impl Type {
    /// `int`
    pub const INT: Self = Self::Int(IntKind::Int);

    /// Whether a parameter of this type accepts the untyped nil.
    pub(crate) fn can_be_nil(&self) -> bool {
        match self {
            Self::Reflect | Self::Any | Self::Bytes | Self::List(_) | Self::Map(_) => true,
            Self::Named(name) => is_pointer(name),
            _ => false,
        }
    }
}

/// Whether the type of that name is a pointer, which can be nil.
pub(crate) fn is_pointer(type_name: &str) -> bool {
    type_name.starts_with('*')
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reflect => f.write_str(REFLECT),
            Self::Any => f.write_str(ANY),
            Self::Bool => f.write_str(BOOL),
            Self::Int(kind) => f.write_str(kind.name()),
            Self::Uint(kind) => f.write_str(kind.name()),
            Self::Float => f.write_str(FLOAT),
            Self::Str => f.write_str(STRING),
            Self::Bytes => f.write_str(BYTES),
            Self::List(of) => write!(f, "[]{of}"),
            Self::Map(of) => write!(f, "map[string]{of}"),
            Self::Named(name) => f.write_str(name),
        }
    }
}
