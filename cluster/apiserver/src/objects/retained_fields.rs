//! What an update keeps of the stored object, whatever the client has sent: metadata that it may not change, and the parts that
//! are written by themselves. It stores nothing.

use serde_json::{Map, Value};

use crate::kinds::builtin::EPHEMERAL_CONTAINERS;
use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::state::context::Context;
use crate::wire::status::Status;

/// What this update cannot change comes from the stored object.
pub(crate) fn keep_stored(context: &Context, object: &mut Value, old: &Value) -> Result<(), Status> {
    keep_metadata(object, old)?;
    keep_other_parts(context, object, old)
}

/// What no update may change comes from the stored object; missing names are filled in.
fn keep_metadata(object: &mut Value, old: &Value) -> Result<(), Status> {
    let retained: Vec<(&str, Option<Value>)> = [
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ]
    .into_iter()
    .map(|field| (field, old.pointer(&format!("/metadata/{field}")).cloned()))
    .collect();
    let metadata = metadata::of_mut(object)?;
    for (field, value) in retained {
        match value {
            Some(value) => metadata.insert(field.to_owned(), value),
            None => metadata.remove(field),
        };
    }
    for field in ["name", "namespace", "uid"] {
        let missing = metadata
            .get(field)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .is_empty();
        if let Some(value) = old.pointer(&format!("/metadata/{field}")).filter(|_| missing) {
            metadata.insert(field.to_owned(), value.clone());
        }
    }
    Ok(())
}

/// Writes of `status` keep all but the status and the annotations that belong to it, writes of the object keep the status;
/// those of ephemeral containers keep all but these.
fn keep_other_parts(context: &Context, object: &mut Value, old: &Value) -> Result<(), Status> {
    let has_status = context.has_status();
    match context.subresource() {
        Some("status") => {
            let prefix = context.served.kind.annotations_of_status();
            let given = prefix.map(|prefix| annotations_of(object, prefix));
            keep_all_but(object, old, &["status"])?;
            match (prefix, given) {
                (Some(prefix), Some(given)) => put_annotations(object, prefix, given),
                _ => Ok(()),
            }
        }
        Some(EPHEMERAL_CONTAINERS) if context.served.role == Role::Pod => {
            keep_all_but(object, old, &["spec", "ephemeralContainers"])
        }
        None if has_status => {
            let Some(fields) = object.as_object_mut() else {
                return Ok(());
            };
            match old.get("status") {
                Some(status) => fields.insert("status".to_owned(), status.clone()),
                None => fields.remove("status"),
            };
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The annotations whose names begin with `prefix`.
fn annotations_of(object: &Value, prefix: &str) -> Map<String, Value> {
    let all = object.pointer("/metadata/annotations").and_then(Value::as_object);
    let of_prefix = all.into_iter().flatten().filter(|(name, _)| name.starts_with(prefix));
    of_prefix.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// Writes `given` in place of the annotations whose names begin with `prefix`.
fn put_annotations(object: &mut Value, prefix: &str, given: Map<String, Value>) -> Result<(), Status> {
    let metadata = metadata::of_mut(object)?;
    let present = metadata.get("annotations").and_then(Value::as_object).cloned();
    let mut annotations = present.unwrap_or_default();
    annotations.retain(|name, _| !name.starts_with(prefix));
    annotations.extend(given);
    if annotations.is_empty() {
        metadata.remove("annotations");
    } else {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    Ok(())
}

/// The stored object with one part and the managed fields of another.
fn keep_all_but(object: &mut Value, old: &Value, path: &[&str]) -> Result<(), Status> {
    let managed = object.pointer("/metadata/managedFields").cloned();
    let part = path.iter().try_fold(&*object, |value, field| value.get(field)).cloned();
    // A client names by it the object that it means; a mismatch is refused with the other errors.
    let uid = object.pointer("/metadata/uid").cloned();
    let mut whole = old.clone();
    if let [above @ .., last] = path
        && let Some(holder) = above.iter().try_fold(&mut whole, |value, field| value.get_mut(field))
        && let Some(fields) = holder.as_object_mut()
    {
        match part {
            Some(part) => fields.insert((*last).to_owned(), part),
            None => fields.remove(*last),
        };
    }
    let metadata = metadata::of_mut(&mut whole)?;
    match managed {
        Some(managed) => metadata.insert("managedFields".to_owned(), managed),
        None => metadata.remove("managedFields"),
    };
    metadata.extend(uid.map(|uid| ("uid".to_owned(), uid)));
    *object = whole;
    Ok(())
}
