//! Validation of an object that is about to be stored: by its schema, then by its kind. Custom resources are validated in the
//! version of the request, of a write of their status only that part. It stores nothing.

use cluster_fields::{ERRORS_MAX, FieldError, ValidationResult};
use serde_json::Value;

use crate::kinds::kind::Call;
use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::state::pending_write::Write;
use crate::wire::status::Status;

impl Write<'_> {
    /// What is wrong with the object beside its metadata; warnings are added to those of the answer.
    pub(crate) fn validate(&mut self, call: &Call<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let (served, custom) = (&self.context.served, self.context.served.role == Role::Custom);
        let schema = served.kind.schema(self.context.working_version());
        let result = match (&schema, call.subresource) {
            (None, _) => ValidationResult::default(),
            (Some(schema), Some("status")) if custom => schema.validate_part("status", object, old),
            (Some(schema), _) => schema.validate_with_warnings(object, old),
        };
        self.warnings.extend(result.warnings);
        if custom && call.subresource.is_none() {
            self.warnings.extend(metadata::finalizer_warnings(object, old));
        }
        let mut errors = result.errors;
        // Strategies may rely on the shape the schema promises.
        if custom || errors.is_empty() {
            errors.extend(served.kind.validate(call, object, old));
        }
        errors
    }

    /// Refuses the write when there are errors; each is reported once.
    pub(crate) fn refuse(&self, name: &str, all: Vec<FieldError>) -> Result<(), Status> {
        let info = self.context.served.info();
        let mut errors: Vec<FieldError> = Vec::new();
        for error in all {
            if errors.len() == ERRORS_MAX {
                break;
            }
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(Status::invalid(&info.group, &info.kind, name, &errors))
        }
    }

    /// Errors of a change of metadata are reported twice, as in kube-apiserver: before the errors of the kind, and among them.
    pub(crate) fn refuse_update(
        &self,
        name: &str,
        changes: Vec<FieldError>,
        others: Vec<FieldError>,
    ) -> Result<(), Status> {
        if changes.is_empty() {
            return self.refuse(name, others);
        }
        let info = self.context.served.info();
        let all: Vec<FieldError> = changes
            .iter()
            .chain(&changes)
            .chain(&others)
            .take(ERRORS_MAX)
            .cloned()
            .collect();
        Err(Status::invalid(&info.group, &info.kind, name, &all))
    }
}
