//! What came of admission apart from a write.

use crate::wire::status::Status;

/// What was asked and answered apart from a write: the warnings of all who let it pass, or the refusal with them before its
/// own.
pub(crate) fn with_warnings(outcome: Result<(), Status>, mut warnings: Vec<String>) -> Result<Vec<String>, Status> {
    match outcome {
        Ok(()) => Ok(warnings),
        Err(mut status) => {
            warnings.extend(status.take_warnings());
            Err(status.warned(warnings))
        }
    }
}
