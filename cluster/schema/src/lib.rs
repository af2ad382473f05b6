//! Field trees of kinds: what an object of a kind may hold, and what follows from that: pruning, defaulting,
//! validation, the keys by which lists and maps are merged. Trees come from CustomResourceDefinitions, from Rust types
//! and from Kubernetes' published OpenAPI documents. This crate does no I/O and never panics on hostile input.

mod bounds;
pub mod builtin;
mod correlation;
mod crd_defaults;
mod crd_reader;
mod default;
mod document;
mod from_crd;
mod from_root;
mod go;
mod go_internal;
mod go_json;
mod go_print;
mod go_read;
mod go_text;
mod known_formats;
mod limits;
mod openapi;
mod parts;
mod prune;
mod rules;
mod tree;
mod unified;
mod validate;
mod whole;

pub use default::{DEFAULTS_BYTES_MAX, TooManyDefaults};
pub use from_crd::SchemaError;
pub use go_json::json_problem;
pub use go_print::taken_apart;
pub use known_formats::unknown_formats;
pub use limits::{DEPTH_MAX, NODES_MAX, SCHEMA_BYTES_MAX};
pub use tree::{Bounds, Kind, List, ListType, MapType, Node, Object, Patch, Scalar, Schema, object_meta};
pub use whole::{whole, without_points};
