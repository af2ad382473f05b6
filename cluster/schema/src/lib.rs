//! Field trees of kinds: what an object of a kind may hold, and what follows from that: pruning, defaulting, validation, the
//! keys by which lists and maps are merged. Trees come from CustomResourceDefinitions, from Rust types and from Kubernetes'
//! published OpenAPI documents; `cluster/builtin` has those documents. This crate does no I/O and never panics on hostile
//! input.
//!
//! # Layers
//! A file imports only from its own layer and from layers earlier in this table. `cargo xtask tidy` reads the table and
//! refuses an import from a later layer, and more than five files that import each other in a circle. `Schema` is data of the
//! layer `tree`; later layers add methods to it.
//!
//! | layer | what is in it |
//! |---|---|
//! | `tree` | the tree as data: nodes, metadata of all objects, structs of Go, items of old lists |
//! | `go` | objects as Go decodes, fills in and prints them, and the errors of its decoders |
//! | `objects` | objects changed by their tree: unknown fields pruned, defaults filled in |
//! | `validation` | objects validated by their tree: types, bounds, embedded objects, lists, rules in CEL |
//! | `documents` | trees from documents (CRDs, Rust types, published OpenAPI), and written as OpenAPI |

mod documents;
mod go;
mod objects;
mod tree;
mod validation;

pub use documents::field_path::find_field;
pub use documents::known_formats::unknown_formats;
pub use documents::limits::{DEPTH_MAX, NODES_MAX, SCHEMA_BYTES_MAX};
pub use documents::published::PublishedKinds;
pub use documents::schema_error::SchemaError;
pub use go::go_types::GoTypes;
pub use go::json_syntax::json_problem;
pub use go::print_patched::taken_apart;
pub use go::whole_numbers::{whole, without_points};
pub use objects::default::{DEFAULTS_BYTES_MAX, TooManyDefaults};
pub use tree::object_meta::object_meta;
pub use tree::schema::{Bounds, Kind, List, ListType, MapType, Node, Object, Patch, Scalar, Schema};
