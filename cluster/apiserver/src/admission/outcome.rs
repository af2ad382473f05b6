//! The result of admission of anything but a write.

use crate::wire::status::Status;

/// The warnings of all that admitted the request, or the refusal with these warnings before its own.
pub(crate) fn with_warnings(outcome: Result<(), Status>, mut warnings: Vec<String>) -> Result<Vec<String>, Status> {
    match outcome {
        Ok(()) => Ok(warnings),
        Err(mut status) => {
            warnings.extend(status.take_warnings());
            Err(status.warned(warnings))
        }
    }
}
