//! Between the generic values an API server moves and the typed objects that rules read. It loses nothing that the
//! types know, and names the object that could not be read.

use api_meta::Fault;
use cluster_apiserver::Status;
use cluster_apiserver::fields::{FieldError, FieldErrorKind};
use http::StatusCode;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::value::MapDeserializer;
use serde_json::Value;

/// API group of most of the garden's kinds.
pub(crate) const CORE: &str = "core.gardener.cloud";
pub(crate) const SECURITY: &str = "security.gardener.cloud";
pub(crate) const SEED_MANAGEMENT: &str = "seedmanagement.gardener.cloud";

/// Reads an object as its type, without its `managedFields`, which no rule looks at: of a large object they are a large part.
/// The error is the client's.
pub(crate) fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, FieldError> {
    read(object).map_err(|error| unreadable(&error))
}

/// The same with its `managedFields`, for conversions: what is read becomes the object in the other version.
pub(crate) fn decode_whole<T: DeserializeOwned>(object: &Value) -> Result<T, FieldError> {
    T::deserialize(object).map_err(|error| unreadable(&error))
}

fn unreadable(error: &serde_json::Error) -> FieldError {
    let words = format!("the object cannot be read: {error}");
    FieldError::new("<nil>", FieldErrorKind::Invalid, None, words)
}

/// Reads a stored object of this server, which must be readable, likewise.
pub(crate) fn decode_stored<T: DeserializeOwned>(what: &str, object: &Value) -> Result<T, Status> {
    read(object).map_err(|error| Status::internal(format!("could not read stored {what}: {error}")))
}

fn read<T: DeserializeOwned>(object: &Value) -> Result<T, serde_json::Error> {
    const MANAGED_FIELDS: &str = "managedFields";
    let metadata = object.get("metadata").and_then(Value::as_object);
    let managed = metadata.filter(|metadata| metadata.contains_key(MANAGED_FIELDS));
    let (Value::Object(fields), Some(metadata)) = (object, managed) else {
        return T::deserialize(object);
    };
    let retained = metadata.iter().filter(|(name, _)| *name != MANAGED_FIELDS);
    let metadata = Value::Object(retained.map(|(name, value)| (name.clone(), value.clone())).collect());
    let fields = fields.iter().map(|(name, value)| match name.as_str() {
        "metadata" => ("metadata", &metadata),
        name => (name, value),
    });
    T::deserialize(MapDeserializer::new(fields))
}

/// Writes the typed object over `object`, whose metadata and status stay as they are: no defaults touch those.
pub(crate) fn encode_over<T: Serialize>(typed: &T, object: &mut Value) {
    let Ok(Value::Object(mut written)) = serde_json::to_value(typed) else {
        return;
    };
    for field in ["metadata", "status"] {
        written.remove(field);
        if let Some(retained) = object.get_mut(field) {
            written.insert(field.to_owned(), retained.take());
        }
    }
    *object = Value::Object(written);
}

/// Errors of `api/rules` as the server's.
pub(crate) fn field_errors(errors: Vec<api_rules::FieldError>) -> Vec<FieldError> {
    errors.into_iter().map(field_error).collect()
}

fn field_error(error: api_rules::FieldError) -> FieldError {
    let api_rules::FieldError {
        path,
        kind,
        value,
        detail,
    } = error;
    let kind = match kind {
        api_rules::FieldErrorKind::Required => FieldErrorKind::Required,
        api_rules::FieldErrorKind::Invalid => FieldErrorKind::Invalid,
        api_rules::FieldErrorKind::NotSupported => FieldErrorKind::NotSupported,
        api_rules::FieldErrorKind::Duplicate => FieldErrorKind::Duplicate,
        api_rules::FieldErrorKind::Forbidden => FieldErrorKind::Forbidden,
        api_rules::FieldErrorKind::NotFound => FieldErrorKind::NotFound,
        api_rules::FieldErrorKind::TooLong => FieldErrorKind::TooLong,
    };
    let silent = matches!(
        kind,
        FieldErrorKind::Required | FieldErrorKind::Forbidden | FieldErrorKind::TooLong
    );
    FieldError::new(path, kind, (!silent).then_some(value), detail)
}

/// Errors that an answer lists at most: more than a person corrects at once, and far less than an answer of megabytes.
/// Gardener lists all.
pub(crate) const ERRORS_SHOWN_MAX: usize = 100;

/// The first errors, and one that counts the others.
pub(crate) fn bounded(errors: &[FieldError]) -> Vec<FieldError> {
    let shown = &errors[..errors.len().min(ERRORS_SHOWN_MAX)];
    let mut bounded = shown.to_vec();
    let more = errors.len() - shown.len();
    if more > 0 {
        let words = format!("{more} more errors are not listed; correct the listed ones first");
        bounded.push(FieldError::new("<nil>", FieldErrorKind::TooMany, None, words));
    }
    bounded
}

/// Refuses with 422 when there are errors.
pub(crate) fn refuse(kind: &str, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    if errors.is_empty() {
        Ok(())
    } else {
        Err(Status::invalid(CORE, kind, name, &bounded(errors)))
    }
}

/// Refuses with 403 when there are errors, as Gardener's admission plug-ins do: the fields stand in the message alone.
pub(crate) fn forbid(group: &str, resource: &str, name: &str, errors: &[FieldError]) -> Result<(), Status> {
    let all: Vec<String> = bounded(errors).iter().map(ToString::to_string).collect();
    match all.as_slice() {
        [] => Ok(()),
        [one] => Err(Status::forbidden(group, resource, name, one)),
        many => Err(Status::forbidden(
            group,
            resource,
            name,
            &format!("[{}]", many.join(", ")),
        )),
    }
}

/// 500 without a reason, as an API server in Go answers an error that it gives no code.
pub(crate) fn uncoded(why: impl Into<String>) -> Status {
    Status::new(StatusCode::INTERNAL_SERVER_ERROR, "", why)
}

/// A fault of our own making as a refusal.
pub(crate) fn internal(doing: &str, fault: impl Into<Fault>) -> Status {
    Status::internal(format!("{doing}: {}", fault.into()))
}

/// A text somewhere below; empty when it is missing.
pub(crate) fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The list at a pointer; empty if there is none, or no object.
pub(crate) fn list<'v>(object: impl Into<Option<&'v Value>>, pointer: &str) -> &'v [Value] {
    let found = object.into().and_then(|object| object.pointer(pointer));
    found.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// An annotation; empty when it is missing.
pub(crate) fn annotation<'v>(object: &'v Value, key: &str) -> &'v str {
    object["metadata"]["annotations"]
        .get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// Whether deletion was requested.
pub(crate) fn is_leaving(object: &Value) -> bool {
    object
        .pointer("/metadata/deletionTimestamp")
        .is_some_and(|at| !at.is_null())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn object_is_read_whole_but_for_its_managed_fields() {
        let object = serde_json::json!({
            "apiVersion": "core.gardener.cloud/v1beta1", "kind": "Shoot",
            "metadata": {"name": "s", "labels": {"a": "b"}, "managedFields": [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]},
            "spec": {"region": "north", "provider": {"type": "t", "workers": [{"name": "w", "minimum": 1, "maximum": 2}]}},
        });
        let read: api_core::v1beta1::Shoot = decode(&object).unwrap();
        let mut expected: api_core::v1beta1::Shoot = serde_json::from_value(object.clone()).unwrap();
        expected.metadata.managed_fields = None;
        assert_eq!(read, expected);
        let wrong = serde_json::json!({"metadata": {"name": 1}, "spec": {}});
        assert!(decode::<api_core::v1beta1::Shoot>(&wrong).is_err());
        assert!(decode::<api_core::v1beta1::Shoot>(&Value::Null).is_err());
    }

    #[test]
    fn an_answer_lists_a_hundred_errors_and_counts_the_others() {
        let errors = |count: usize| -> Vec<FieldError> {
            (0..count)
                .map(|at| FieldError::forbidden(format!("spec.list[{at}]"), "leave it out"))
                .collect()
        };
        assert_eq!(bounded(&errors(100)), errors(100));
        let many = bounded(&errors(10_000));
        assert_eq!(many[..100], errors(100));
        let last: Vec<String> = many[100..].iter().map(ToString::to_string).collect();
        assert_eq!(
            last,
            ["<nil>: Too many: 9900 more errors are not listed; correct the listed ones first"]
        );
        let refusal = forbid(CORE, "shoots", "s", &errors(101)).unwrap_err().to_string();
        assert!(
            refusal.contains("spec.list[99]") && refusal.contains("1 more errors"),
            "{refusal}"
        );
        assert!(!refusal.contains("spec.list[100]"), "{refusal}");
    }
}
