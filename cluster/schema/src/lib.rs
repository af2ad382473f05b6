//! Field trees of kinds: what an object of a kind may hold, and what follows from that: pruning, defaulting,
//! validation, the keys by which lists and maps are merged. Trees come from CustomResourceDefinitions, from Rust types
//! and from Kubernetes' published OpenAPI documents. This crate does no I/O and never panics on hostile input.

mod bounds;
pub mod builtin;
pub mod cel;
mod correlation;
mod crd_defaults;
mod crd_reader;
mod default;
mod document;
mod error;
mod format;
mod from_crd;
mod from_root;
mod go;
mod go_internal;
mod go_json;
mod go_print;
mod go_read;
mod go_text;
mod limits;
pub mod names;
mod openapi;
mod parts;
mod prune;
mod tree;
mod unified;
mod validate;
mod whole;

pub use base_yaml::go::{go_type, json_kind as json_type};
pub use default::{DEFAULTS_BYTES_MAX, TooManyDefaults};
pub use error::{FieldError, FieldErrorKind, FieldPath, aggregate};
pub use format::unknown_formats;
pub use from_crd::SchemaError;
pub use go_json::json_problem;
pub use go_print::taken_apart;
pub use limits::{DEPTH_MAX, ERRORS_MAX, NODES_MAX, Pattern, PatternError, SCHEMA_BYTES_MAX};
pub use tree::{Bounds, Kind, List, ListType, MapType, Node, Object, Patch, Scalar, Schema, object_meta};
pub use validate::Verdict;
pub use whole::{whole, without_points};
