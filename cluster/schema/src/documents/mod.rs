//! Trees from documents, and documents from trees.

pub(crate) mod bounds;
pub(crate) mod crd;
pub(crate) mod crd_defaults;
pub(crate) mod crd_node;
pub(crate) mod crd_reader;
pub(crate) mod custom_node;
pub(crate) mod field_path;
pub(crate) mod inliner;
pub(crate) mod known_formats;
pub(crate) mod limits;
pub(crate) mod openapi;
pub(crate) mod published;
pub(crate) mod rust_types;
pub(crate) mod schema_error;
