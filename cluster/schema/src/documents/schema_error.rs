//! The errors of a schema.

use cluster_fields::FieldError;

/// A schema that cannot be served, with everything that is wrong with it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", cluster_fields::aggregate(.errors))]
pub struct SchemaError {
    /// What is wrong, each at its path inside the schema document.
    pub errors: Vec<FieldError>,
}
