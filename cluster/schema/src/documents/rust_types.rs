//! Field trees from the JSON Schema that `schemars` derives for a Rust type.

use crate::documents::inliner::{Dialect, Inliner};
use crate::documents::schema_error::SchemaError;
use crate::tree::schema::Schema;

impl Schema {
    /// The tree of a Rust type, with `apiVersion`, `kind` and `metadata` as every object has them.
    pub fn from_root_schema(root: &schemars::Schema) -> Result<Schema, SchemaError> {
        let document = root.as_value();
        Inliner::new(document, Dialect::Rust)
            .read(document)
            .map(|schema| schema.with_type_and_object_meta())
    }
}
