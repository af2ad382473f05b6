//! Field trees from the schema of a CustomResourceDefinition: of a new one, with all checks of Kubernetes, and of a stored one
//! that is served.

use cluster_cel::Work;
use cluster_fields::{ERRORS_MAX, FieldError, FieldPath};
use serde_json::Value;

use crate::documents::crd_defaults::check_defaults;
use crate::documents::crd_reader::{Level, Reader};
use crate::documents::limits::SCHEMA_BYTES_MAX;
use crate::documents::schema_error::SchemaError;
use crate::tree::schema::Schema;

impl Schema {
    /// The tree of a CRD's `openAPIV3Schema`. Its root gets `apiVersion`, `kind` and `metadata` as every object has
    /// them. Errors name paths below `at` (for example `spec.versions[0].schema.openAPIV3Schema`). `unchanged`: the document is
    /// stored as it is, so that no single rule is refused for its cost. `work` counts for all versions of the definition.
    pub fn from_crd_at(document: &Value, at: &str, unchanged: bool, work: &mut Work) -> Result<Schema, SchemaError> {
        let path = FieldPath::Root;
        let path = path.field(at);
        check_size(document, path)?;
        let mut reader = Reader::checking(unchanged);
        std::mem::swap(&mut reader.total.work, work);
        let root = reader.structural(document, &path, Level::Root, 0);
        std::mem::swap(&mut reader.total.work, work);
        let is_structural = reader.is_structural();
        let mut errors = reader.errors();
        if is_structural {
            let before = errors.len();
            check_defaults(&root, &path, &mut errors);
            // Errors of rules are reported once all else is valid.
            if errors.len() == before {
                errors.append(&mut reader.rules);
                reader.total.validate(&path, &mut errors);
            }
        }
        if errors.is_empty() {
            return Ok(root.with_type_and_object_meta());
        }
        errors.truncate(ERRORS_MAX);
        Err(SchemaError { errors })
    }

    /// The tree of a stored schema, perhaps accepted by a version with fewer checks: it fails only where no tree can be made. The
    /// errors beside the tree are of rules that are left out because they cannot be parsed.
    pub fn from_stored_crd(document: &Value) -> Result<(Schema, Vec<FieldError>), SchemaError> {
        let path = FieldPath::Root;
        let path = path.field("openAPIV3Schema");
        check_size(document, path)?;
        let mut reader = Reader::serving();
        let root = reader.structural(document, &path, Level::Root, 0);
        if reader.structure.is_empty() {
            return Ok((root.with_type_and_object_meta(), reader.rules));
        }
        Err(SchemaError {
            errors: reader.structure,
        })
    }

    /// As [`Schema::from_crd_at`], with paths below `openAPIV3Schema`.
    pub fn from_crd(document: &Value) -> Result<Schema, SchemaError> {
        Self::from_crd_at(document, "openAPIV3Schema", false, &mut Work::of_definition())
    }
}

fn check_size(document: &Value, path: FieldPath<'_>) -> Result<(), SchemaError> {
    if document.to_string().len() <= SCHEMA_BYTES_MAX {
        return Ok(());
    }
    let errors = vec![FieldError::too_long(path, SCHEMA_BYTES_MAX)];
    Err(SchemaError { errors })
}
