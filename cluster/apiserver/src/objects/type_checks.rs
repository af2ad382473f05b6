//! Whether an object is of the version and kind that its path names; both are set where an object of a built-in kind leaves them
//! out. Other fields only decide how a refusal is worded.

use cluster_fields::FieldError;
use serde_json::Value;

use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::objects::incoming::{Source, refuse, unrecognized};
use crate::state::context::Context;
use crate::wire::negotiation::go_package;
use crate::wire::status::Status;

/// Sets apiVersion and kind where they are missing; what differs from the path is refused. A custom resource must have
/// both.
pub(super) fn check_type(context: &Context, object: &mut Value, source: Source<'_>) -> Result<(), Status> {
    let info = context.served.info();
    let api_version = info.api_version(context.version());
    let given = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (given("apiVersion"), given("kind"));
    if context.served.role == Role::Custom {
        return match source {
            Source::Body if version != api_version => Err(Status::bad_request(format!(
                "the API version in the data ({version}) does not match the expected API version ({api_version})"
            ))),
            Source::Body if kind != info.kind => Err(another_kind(context, object, kind)),
            Source::Body => Ok(()),
            _ => check_custom_patch(context, object, &api_version),
        };
    }
    let version = if version.is_empty() { &api_version } else { version };
    let kind = if kind.is_empty() { &info.kind } else { kind };
    if version != api_version || kind != info.kind {
        return Err(of_another_type(context, object, source, (version, kind)));
    }
    let (api_version, kind) = (Value::String(api_version), Value::from(&*info.kind));
    if let Some(fields) = object.as_object_mut() {
        fields.insert("apiVersion".to_owned(), api_version);
        fields.insert("kind".to_owned(), kind);
    }
    Ok(())
}

/// The unknown fields of a custom resource in a version that its kind does not have: all but those that every object has.
pub(super) fn unknown_in_version(context: &Context, object: &Value) -> Vec<String> {
    let info = context.served.info();
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or_default();
    if group != &*info.group || text("kind") != &*info.kind || context.served.version(version).is_some() {
        return Vec::new();
    }
    let fields = object.as_object().into_iter().flat_map(|fields| fields.keys());
    let unknown = fields.filter(|field| !matches!(field.as_str(), "apiVersion" | "kind" | "metadata"));
    unknown.map(|field| format!("unknown field \"{field}\"")).collect()
}

/// Refuses a patch that changes version or kind of a custom resource.
fn check_custom_patch(context: &Context, object: &Value, api_version: &str) -> Result<(), Status> {
    let info = context.served.info();
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    let mut errors = Vec::new();
    if kind != info.kind {
        errors.push(FieldError::invalid("kind", kind, format!("must be {}", info.kind)));
    }
    if version != api_version {
        errors.push(FieldError::invalid(
            "apiVersion",
            version,
            format!("must be {api_version}"),
        ));
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid(
            &info.group,
            kind,
            metadata::text(object, "name"),
            &errors,
        )),
    }
}

/// The refusal of a custom resource of another kind than the path's. An update must first name the version it replaces.
fn another_kind(context: &Context, object: &Value, kind: &str) -> Status {
    let info = context.served.info();
    let updates = context.target.name.is_some();
    if updates && metadata::text(object, "resourceVersion").is_empty() {
        return context.version_required(context.name());
    }
    let error = FieldError::invalid("kind", kind, format!("must be {}", info.kind));
    Status::invalid(&info.group, kind, metadata::text(object, "name"), &[error])
}

/// The refusal of a body or a patch of another type: one that is known cannot be converted, others are not known.
fn of_another_type(context: &Context, object: &Value, source: Source<'_>, (version, kind): (&str, &str)) -> Status {
    if version.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {version}");
        return unrecognized(context, &why, object.to_string().as_bytes());
    }
    let (group, number) = version.split_once('/').unwrap_or(("", version));
    let kinds = context.server.registry.snapshot();
    let known = kinds
        .of_group(group)
        .find(|known| known.info().kind == kind && known.version(number).is_some());
    let why = match known {
        Some(_) => {
            let info = context.served.info();
            let package = go_package(&info.group);
            format!(
                "converting ({number}.{kind}) to ({package}.{}): unknown conversion",
                info.kind
            )
        }
        None => {
            format!("no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\"")
        }
    };
    refuse(context, source, object, &why)
}

/// What is applied must name its version and kind.
pub(super) fn check_applied_type(context: &Context, object: &Value) -> Result<(), Status> {
    let info = context.served.info();
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (text("apiVersion"), text("kind"));
    if version == info.api_version(context.version()) && kind == info.kind {
        return Ok(());
    }
    let (version, kind) = if version.matches('/').count() > 1 {
        ("", "")
    } else {
        (version, kind)
    };
    let slash = if version.contains('/') { "" } else { "/" };
    let message = format!("invalid object type: {slash}{version}, Kind={kind}");
    Err(Status::bad_request(message))
}
