//! What a client sent, made fit for the kind: the right group, version and kind; unknown fields dropped and
//! reported as `fieldValidation` requests; defaults filled in. It stores nothing.

use base_yaml::go::json_kind;
use cluster_fields::{FieldError, FieldErrorKind};
use cluster_patch::go_text;
use cluster_schema::{DEFAULTS_BYTES_MAX, Schema, TooManyDefaults, taken_apart, without_points};
use serde_json::Value;

use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::objects::type_checks::{check_applied_type, check_type, unknown_in_version};
use crate::objects::unversioned;
use crate::state::context::Context;
use crate::wire::decode::{Decoded, Encoding, try_decode, try_decode_exactly, undecodable};
use crate::wire::query::FieldValidation;
use crate::wire::status::Status;

/// Strict errors and type errors shown in one text; more would not help.
pub(crate) const SHOWN_MAX: usize = 10;

/// The type that the error for a number with too many bits for its field names.
const OVERFLOWN: &str = "int32";

/// How much of a body that cannot be read is shown.
const SUMMARY_BYTES: usize = 30;

/// An object in the client's version, pruned and defaulted.
pub(crate) struct Incoming {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// Where an object comes from: a body that cannot be taken is refused with 400, the result of a patch with 422.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Source<'a> {
    Body,
    /// The result of this merge patch.
    Merged(&'a Value),
    /// The result of these operations.
    Operated(&'a Value),
    /// The result of this strategic patch.
    Strategic(&'a Value),
    /// Merged from what is stored and this, which was applied: neither is read again.
    Applied(&'a Value),
}

/// Reads the object of a create or an update. Errors: 400 with the beginning of what cannot be read.
pub(crate) fn decode_object(context: &Context, bytes: &[u8], encoding: Encoding) -> Result<Decoded, Status> {
    let schema = context.served.kind.schema(context.version());
    let decoded = match schema.is_some_and(|schema| schema.is_of_go()) {
        true => try_decode_exactly(bytes, encoding),
        false => try_decode(bytes, encoding),
    };
    decoded.map_err(|why| {
        let why = match encoding {
            Encoding::Yaml => why,
            Encoding::Json | Encoding::Protobuf => undecodable(encoding, &why),
        };
        unrecognized(context, &why, bytes)
    })
}

/// 400 for what is no object of this kind at all.
pub(super) fn unrecognized(context: &Context, why: &str, bytes: &[u8]) -> Status {
    let kind = &context.served.info().kind;
    let message = format!("the object provided is unrecognized (must be of type {kind}): {why}");
    // The beginning of a Secret is not shown.
    if kind == "Secret" {
        return Status::bad_request(message);
    }
    Status::bad_request(format!("{message} ({})", summary(bytes)))
}

/// The first bytes of a body: as text when they look like JSON, else in hexadecimal.
fn summary(bytes: &[u8]) -> String {
    let (shown, more) = match bytes.split_at_checked(SUMMARY_BYTES) {
        Some((shown, rest)) if !rest.is_empty() => (shown, " ..."),
        _ => (bytes, ""),
    };
    match shown.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let digits: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{digits}{more}")
        }
    }
}

/// Accepts an object, or refuses it. `problems` are those that decoding it has found.
pub(crate) fn accept(
    context: &Context,
    mut object: Value,
    mut problems: Vec<String>,
    validation: FieldValidation,
    source: Source<'_>,
) -> Result<Incoming, Status> {
    let is_custom = context.served.role == Role::Custom;
    // Go reads `null` into its types by leaving them empty.
    if object.is_null() && source == Source::Body && !is_custom {
        object = Value::Object(serde_json::Map::new());
    }
    if !object.is_object() {
        return Err(no_object(context, &object, source));
    }
    let schema = context.served.kind.schema(context.version());
    let read = if is_custom { read_custom } else { read_built_in };
    let object_for_refusal = read(
        context,
        schema.as_ref(),
        &mut object,
        &mut problems,
        (source, validation),
    )?;
    let shown = object_for_refusal.as_ref().unwrap_or(&object);
    let warnings = apply_field_validation(context, problems, validation, (source, shown))?;
    fill_defaults(context, schema.as_ref(), source, &mut object)?;
    metadata::normalize(metadata::of_mut(&mut object)?);
    Ok(Incoming { object, warnings })
}

/// Reads a custom resource: checks its type and drops unknown fields, which become problems. Returns the object that a refusal
/// for these shows, if it is not the object itself.
fn read_custom(
    context: &Context,
    schema: Option<&Schema>,
    object: &mut Value,
    problems: &mut Vec<String>,
    (source, validation): (Source<'_>, FieldValidation),
) -> Result<Option<Value>, Status> {
    check_kind_and_metadata(context, schema, object, (source, validation))?;
    let replaced = replaced(object, source);
    if let Err(refused) = check_type(context, object, source) {
        // It was parsed before its kind was checked.
        problems.extend(unknown_in_version(context, object));
        let problems = std::mem::take(problems);
        return Err(refused.warned(apply_field_validation(
            context,
            problems,
            validation,
            (source, &*object),
        )?));
    }
    metadata::of_mut(object)?;
    context.served.kind.accept(context.version(), object);
    let Some(schema) = schema else { return Ok(None) };
    let object_for_refusal = unpruned(object, replaced, (source, validation));
    prune(schema, object, problems);
    Ok(object_for_refusal)
}

/// As [`read_custom`], for an object of another kind. It is normalized as Go's types do it besides.
fn read_built_in(
    context: &Context,
    schema: Option<&Schema>,
    object: &mut Value,
    problems: &mut Vec<String>,
    (source, validation): (Source<'_>, FieldValidation),
) -> Result<Option<Value>, Status> {
    let go_schema = schema.filter(|schema| schema.is_of_go());
    // A refusal shows the object as it was patched.
    let mut object_for_refusal = None;
    let mut replaced = replaced(object, source);
    if let Some(schema) = go_schema.filter(|_| is_patched(source) && unversioned::is_unversioned(object)) {
        object_for_refusal = Some(object.clone());
        replaced = None;
        problems.extend(unversioned::read(schema, object));
    }
    check_type(context, object, source)?;
    metadata::of_mut(object)?;
    context.served.kind.accept(context.version(), object);
    let Some(schema) = schema else {
        return Ok(object_for_refusal);
    };
    // Go drops nothing before it has read all.
    if let Some(schema) = go_schema {
        check_leaf_types(context, schema, replaced.as_ref().unwrap_or(object), source)?;
        without_points(object);
    }
    let object_for_refusal = object_for_refusal.or_else(|| unpruned(object, replaced, (source, validation)));
    prune(schema, object, problems);
    schema.normalize(object);
    if go_schema.is_none() {
        check_leaf_types(context, schema, object, source)?;
    }
    Ok(object_for_refusal)
}

/// Drops unknown fields, which become problems.
fn prune(schema: &Schema, object: &mut Value, problems: &mut Vec<String>) {
    let unknown = schema.prune(object);
    problems.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
}

/// The patched object as it is before it is pruned, for a patch that unknown fields refuse.
fn unpruned(
    object: &Value,
    replaced: Option<Value>,
    (source, validation): (Source<'_>, FieldValidation),
) -> Option<Value> {
    let may_refuse = validation == FieldValidation::Strict && is_patched(source);
    may_refuse.then(|| replaced.unwrap_or_else(|| object.clone()))
}

fn is_patched(source: Source<'_>) -> bool {
    matches!(source, Source::Merged(_) | Source::Operated(_))
}

/// Whether a JSON patch puts something else in the place of the whole object.
fn replaces_all(operations: &Value) -> bool {
    let operations = operations.as_array().map(Vec::as_slice).unwrap_or_default();
    operations.iter().any(|operation| operation["path"] == "")
}

/// What a JSON patch has put in the place of the whole object, as a refusal shows it: without the kind and the metadata that
/// it is read with.
fn replaced(object: &Value, source: Source<'_>) -> Option<Value> {
    let is_bare = || {
        ["apiVersion", "kind", "metadata"]
            .iter()
            .any(|field| object.get(field).is_none())
    };
    (matches!(source, Source::Operated(_)) && is_bare()).then(|| object.clone())
}

/// Fills in defaults.
fn fill_defaults(
    context: &Context,
    schema: Option<&Schema>,
    source: Source<'_>,
    object: &mut Value,
) -> Result<(), Status> {
    let is_custom = context.served.role == Role::Custom;
    match schema {
        Some(schema) if is_custom => match source {
            Source::Applied(_) => {
                schema.fill(object).map_err(too_many)?;
                if let (Some(schema), Some(metadata)) = (schema.field("metadata"), object.get_mut("metadata")) {
                    schema.normalize(metadata);
                }
            }
            _ => schema.default(object).map_err(too_many)?,
        },
        Some(schema) => schema.fill(object).map_err(too_many)?,
        None => {}
    }
    context.served.kind.default(context.version(), object);
    if let Some(schema) = schema.filter(|_| !is_custom) {
        schema.fill_zeros(object);
    }
    Ok(())
}

/// 413 for an object that is small without its defaults, but not with them.
fn too_many(error: TooManyDefaults) -> Status {
    Status::too_large(DEFAULTS_BYTES_MAX).led_by(&format!("{error}: "))
}

/// Unknown and duplicate fields as warnings, or as a refusal that shows the object.
fn apply_field_validation(
    context: &Context,
    problems: Vec<String>,
    validation: FieldValidation,
    (source, object): (Source<'_>, &Value),
) -> Result<Vec<String>, Status> {
    match validation {
        _ if problems.is_empty() => Ok(problems),
        FieldValidation::Ignore => Ok(Vec::new()),
        FieldValidation::Warn => Ok(problems),
        FieldValidation::Strict => {
            let shown = problems[..problems.len().min(SHOWN_MAX)].join(", ");
            let why = format!("strict decoding error: {shown}");
            Err(refuse(context, source, object, &why))
        }
    }
}

/// What is applied, as this version of its kind spells it, without defaults: those have no owner.
pub(crate) fn check_applied(context: &Context, mut object: Value) -> Result<Value, Status> {
    check_applied_type(context, &object)?;
    context.served.kind.accept(context.version(), &mut object);
    Ok(object)
}

/// Refuses an object that cannot be taken for one of its kind.
pub(super) fn refuse(context: &Context, source: Source<'_>, object: &Value, why: &str) -> Status {
    let patched = |shown: String| Status::invalid("", "", "", &[FieldError::invalid("patch", shown, why)]);
    match source {
        Source::Applied(_) => patched(object.to_string()),
        Source::Merged(patch) => patched(printed(context, object, patch)),
        Source::Operated(operations) if replaces_all(operations) => patched(object.to_string()),
        Source::Operated(operations) => patched(printed(context, object, &taken_apart(operations))),
        Source::Strategic(patch) => patched(go_text(patch)),
        Source::Body => {
            let (wanted, text) = (&context.served.info().kind, |field: &str| {
                object.get(field).and_then(Value::as_str)
            });
            let kind = text("kind").filter(|kind| !kind.is_empty()).unwrap_or(wanted);
            let version = text("apiVersion").filter(|version| !version.is_empty());
            let version = version.map_or(context.version(), |version| {
                version.rsplit('/').next().unwrap_or_default()
            });
            Status::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {wanted}: {why}"
            ))
        }
    }
}

/// A patched object as kube-apiserver prints it.
fn printed(context: &Context, object: &Value, apart: &Value) -> String {
    match context.served.kind.schema(context.version()) {
        Some(schema) => schema.print_patched(object, apart),
        None => object.to_string(),
    }
}

fn no_object(context: &Context, value: &Value, source: Source<'_>) -> Status {
    let fields =
        r#"struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }"#;
    let why = format!(
        "json: cannot unmarshal {} into Go value of type {fields}",
        json_kind(value)
    );
    let why = undecodable(Encoding::Json, &why);
    match source {
        Source::Body => unrecognized(context, &why, value.to_string().as_bytes()),
        _ => refuse(context, source, value, &why),
    }
}

/// A custom resource must name its kind, and have metadata that Go's types can read.
fn check_kind_and_metadata(
    context: &Context,
    schema: Option<&Schema>,
    object: &Value,
    (source, validation): (Source<'_>, FieldValidation),
) -> Result<(), Status> {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    if kind.is_empty() {
        let body = object.to_string();
        let why = format!("Object 'Kind' is missing in '{body}'");
        return Err(match source {
            Source::Body if validation != FieldValidation::Ignore => unrecognized(context, &why, body.as_bytes()),
            _ => refuse(context, source, object, &why),
        });
    }
    let why = schema.and_then(|schema| schema.unreadable_metadata(object));
    why.map_or(Ok(()), |why| Err(refuse(context, source, object, &why)))
}

/// A typed kind cannot even be read when a field has another JSON type: 400, not 422.
fn check_leaf_types(context: &Context, schema: &Schema, object: &Value, source: Source<'_>) -> Result<(), Status> {
    let why = match source {
        _ if !schema.is_of_go() => wrong_types(schema, object, |path, found, wanted| {
            format!("json: cannot unmarshal {found} into field {path}: must be of type {wanted}")
        }),
        Source::Strategic(_) => schema.unconvertible(object),
        Source::Applied(applied) => {
            let Some(why) = schema.unconvertible(object) else {
                return Ok(());
            };
            let info = context.served.info();
            let version = info.api_version(context.version());
            let slash = if version.contains('/') { "" } else { "/" };
            let kind = format!("{slash}{version}, Kind={}", info.kind);
            return Err(Status::failed(format!(
                "failed to convert new object ({}/{}; {kind}) to proper version: unable to convert unstructured object to {kind}: {why}",
                metadata::text(applied, "namespace"),
                metadata::text(applied, "name")
            )));
        }
        _ => schema.unreadable(object),
    };
    why.map_or(Ok(()), |why| Err(refuse(context, source, object, &why)))
}

/// The fields whose value has another JSON type, each described by `describe` from its path and the types found and wanted.
fn wrong_types(schema: &Schema, object: &Value, describe: impl Fn(&str, &str, &str) -> String) -> Option<String> {
    let errors = schema.validate(object, None);
    let wrong = errors
        .iter()
        .filter(|error| error.kind == FieldErrorKind::TypeInvalid || error.wanted.as_deref() == Some(OVERFLOWN));
    let wrong: Vec<String> = wrong
        .take(SHOWN_MAX)
        .map(|error| {
            if error.value.is_none() {
                return error.detail.clone();
            }
            // The value itself may be a secret.
            let found = error.value.as_ref().and_then(Value::as_str).unwrap_or("value");
            describe(&error.path, found, error.wanted.as_deref().unwrap_or(&error.detail))
        })
        .collect();
    (!wrong.is_empty()).then(|| wrong.join(", "))
}
