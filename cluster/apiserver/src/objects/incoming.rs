//! What a client sent, made fit for the kind: the right group, version and kind; unknown fields dropped and
//! reported as `fieldValidation` requests; defaults filled in. It stores nothing.

use base_yaml::go::json_kind;
use cluster_fields::{FieldError, FieldErrorKind};
use cluster_patch::go_text;
use cluster_schema::{DEFAULTS_BYTES_MAX, TooManyDefaults, taken_apart, without_points};
use serde_json::Value;

use crate::kinds::metadata;
use crate::kinds::registry::Role;
use crate::objects::unversioned;
use crate::state::context::Context;
use crate::wire::decode::{Decoded, Encoding, try_decode, try_decode_exactly, undecodable};
use crate::wire::negotiation::go_package;
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
fn unrecognized(context: &Context, why: &str, bytes: &[u8]) -> Status {
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
    // Go reads `null` into its types by leaving them empty.
    if object.is_null() && source == Source::Body && context.served.role != Role::Custom {
        object = Value::Object(serde_json::Map::new());
    }
    if !object.is_object() {
        return Err(no_object(context, &object, source));
    }
    let (version, kind) = (context.version(), &context.served.kind);
    let schema = kind.schema(version);
    if context.served.role == Role::Custom {
        check_readable(context, schema.as_ref(), &object, (source, validation))?;
    }
    // A refusal shows the object as it was patched.
    let mut whole = None;
    if let Some(schema) = schema.as_ref().filter(|schema| schema.is_of_go())
        && matches!(source, Source::Merged(_) | Source::Operated(_))
        && unversioned::is_unversioned(&object)
    {
        whole = Some(object.clone());
        problems.extend(unversioned::read(schema, &mut object));
    }
    let replaced = replaced(&object, source).filter(|_| whole.is_none());
    if let Err(refused) = check_type(context, &mut object, source) {
        if context.served.role != Role::Custom {
            return Err(refused);
        }
        // It was parsed before its kind was checked.
        problems.extend(unknown_in_version(context, &object));
        return Err(refused.warned(strictly(context, problems, validation, (source, &object))?));
    }
    metadata::of_mut(&mut object)?;
    kind.accept(version, &mut object);
    if let Some(schema) = &schema {
        // Go drops nothing before it has read all.
        if schema.is_of_go() {
            check_leaf_types(context, schema, replaced.as_ref().unwrap_or(&object), source)?;
            without_points(&mut object);
        }
        let is_patched = matches!(source, Source::Merged(_) | Source::Operated(_));
        if validation == FieldValidation::Strict && is_patched && whole.is_none() {
            whole = Some(replaced.unwrap_or_else(|| object.clone()));
        }
        let unknown = schema.prune(&mut object);
        problems.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        if context.served.role != Role::Custom {
            schema.normalize(&mut object);
            if !schema.is_of_go() {
                check_leaf_types(context, schema, &object, source)?;
            }
        }
    }
    let warnings = strictly(
        context,
        problems,
        validation,
        (source, whole.as_ref().unwrap_or(&object)),
    )?;
    complete(context, schema.as_ref(), source, &mut object)?;
    metadata::normalize(metadata::of_mut(&mut object)?);
    Ok(Incoming { object, warnings })
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
fn complete(
    context: &Context,
    schema: Option<&cluster_schema::Schema>,
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
fn strictly(
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
fn refuse(context: &Context, source: Source<'_>, object: &Value, why: &str) -> Status {
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
fn check_readable(
    context: &Context,
    schema: Option<&cluster_schema::Schema>,
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

/// Sets apiVersion and kind where they are missing; what differs from the path is refused. A custom resource must have
/// both.
fn check_type(context: &Context, object: &mut Value, source: Source<'_>) -> Result<(), Status> {
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
fn unknown_in_version(context: &Context, object: &Value) -> Vec<String> {
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
fn check_applied_type(context: &Context, object: &Value) -> Result<(), Status> {
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

/// A typed kind cannot even be read when a field has another JSON type: 400, not 422.
fn check_leaf_types(
    context: &Context,
    schema: &cluster_schema::Schema,
    object: &Value,
    source: Source<'_>,
) -> Result<(), Status> {
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
fn wrong_types(
    schema: &cluster_schema::Schema,
    object: &Value,
    describe: impl Fn(&str, &str, &str) -> String,
) -> Option<String> {
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
