//! Fields of Kubernetes objects by themselves: paths, errors as Kubernetes words them, and what single texts must be (names,
//! formats, quantities, patterns). It knows no schema, no kind and no object, and does no I/O.
//!
//! # Layers
//! A file imports only from its own layer and from layers earlier in this table; `cargo xtask tidy` holds it.
//!
//! | layer | what is in it |
//! |---|---|
//! | `path` | the path of a field |
//! | `error` | field errors, and what validation of an object found |
//! | `names` | rules of names, labels, annotations, ports, keys |
//! | `formats` | the formats of texts (`format` in a schema) |
//! | `pattern` | regular expressions, compiled within limits of memory |
//! | `quantity` | `resource.Quantity` |

mod error;
pub mod formats;
pub mod names;
mod path;
mod pattern;
pub mod quantity;

pub use error::{ERRORS_MAX, FieldError, FieldErrorKind, ValidationResult, aggregate};
pub use path::{FieldPath, ROOT_SHOWN};
pub use pattern::{Pattern, PatternError, Patterns, pattern_syntax_error};
