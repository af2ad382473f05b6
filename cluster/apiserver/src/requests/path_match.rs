//! Whether an object is the one that the path of its request names. It looks at name and namespace alone.

use serde_json::Value;

use crate::kinds::metadata;
use crate::state::context::Context;
use crate::wire::status::Status;

/// What is written has to be the object that the path names.
pub(crate) fn check_matches_path(context: &Context, object: &Value) -> Result<(), Status> {
    let (wanted, found) = (context.name(), metadata::text(object, "name"));
    check_namespace(context, object)?;
    if found.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({wanted} based on URL) was undeterminable: name must be provided"
        )));
    }
    if found != wanted {
        return Err(Status::bad_request(format!(
            "the name of the object ({found}) does not match the name on the URL ({wanted})"
        )));
    }
    Ok(())
}

/// A body that names a namespace has to name that of the path.
pub(crate) fn check_namespace(context: &Context, object: &Value) -> Result<(), Status> {
    let namespace = metadata::text(object, "namespace");
    if !namespace.is_empty() && context.namespace().is_some_and(|wanted| wanted != namespace) {
        return Err(Status::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    Ok(())
}
