//! What an object gets that is created: metadata of the server's choice, the finalizers of its kind, an empty status. It stores
//! nothing.

use serde_json::Value;

use crate::kinds::metadata;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Empties the status of a new object, which its creator may not set. An object of a Go type always has one.
pub(crate) fn reset_status(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert("status".to_owned(), Value::Object(serde_json::Map::new()));
    }
}

/// Sets the metadata that the server chooses. Errors: 500 for a resourceVersion, 400 for a namespace that is not the path's.
pub(crate) fn prepare_metadata(context: &Context, object: &mut Value) -> Result<(), Status> {
    let now = metadata::timestamp(context.now);
    let served = &context.served;
    let metadata = metadata::of_mut(object)?;
    if metadata
        .get("resourceVersion")
        .and_then(Value::as_str)
        .is_some_and(|version| !version.is_empty())
    {
        let message = "resourceVersion should not be set on objects to be created";
        return Err(Status::new(http::StatusCode::INTERNAL_SERVER_ERROR, "", message));
    }
    for field in ["resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        metadata.remove(field);
    }
    match context.namespace() {
        None => {
            metadata.remove("namespace");
        }
        Some(namespace) => {
            let given = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default();
            if !given.is_empty() && given != namespace {
                return Err(Status::bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request",
                ));
            }
            metadata.insert("namespace".to_owned(), Value::String(namespace.to_owned()));
        }
    }
    metadata.insert("creationTimestamp".to_owned(), Value::String(now));
    metadata.insert("uid".to_owned(), Value::String(context.server.entropy.uid()));
    if served.kind.has_generation() {
        metadata.insert("generation".to_owned(), Value::from(1));
    }
    Ok(())
}

/// Adds the finalizers of every new object of the kind.
pub(crate) fn add_finalizers(context: &Context, object: &mut Value) -> Result<(), Status> {
    let wanted = context.served.kind.initial_finalizers();
    if !wanted.is_empty() {
        let mut finalizers: Vec<String> = metadata::finalizers(object).into_iter().map(str::to_owned).collect();
        for finalizer in wanted {
            if !finalizers.iter().any(|own| own == finalizer) {
                finalizers.push((*finalizer).to_owned());
            }
        }
        metadata::set_finalizers(metadata::of_mut(object)?, &finalizers);
    }
    Ok(())
}
