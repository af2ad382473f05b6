//! Field trees from Kubernetes' published OpenAPI v3 documents.

use serde_json::Value;

use crate::documents::inliner::{Dialect, Inliner};
use crate::documents::schema_error::SchemaError;
use crate::go::go_types::GoTypes;
use crate::tree::schema::Schema;

/// Reads the kinds of one document; definitions that several kinds refer to are read once.
pub struct PublishedKinds<'d>(Inliner<'d>);

impl<'d> PublishedKinds<'d> {
    /// Reads the kinds of a document, with the structs of Go from which it was made.
    pub fn new(document: &'d Value, types: &'d GoTypes) -> Self {
        Self(Inliner::new(document, Dialect::Kubernetes(types)))
    }

    /// The tree of a kind: the name of its definition, and the definition.
    ///
    /// # Errors
    /// It is too large or nested too deeply.
    pub fn read(&mut self, name: &str, definition: &'d Value) -> Result<Schema, SchemaError> {
        self.0.read_kind(name, definition)
    }
}
