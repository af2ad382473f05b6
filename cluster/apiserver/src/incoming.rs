//! What a client sent, made fit for the kind: the right group, version and kind; unknown fields dropped and
//! reported as `fieldValidation` asks; defaults filled in. It stores nothing.

use cluster_schema::FieldErrorKind;
use serde_json::Value;

use crate::context::Context;
use crate::metadata;
use crate::query::FieldValidation;
use crate::registry::Role;
use crate::status::Status;

/// Strict errors and type errors shown in one text; more help nobody.
pub(crate) const SHOWN_MAX: usize = 10;

/// How a schema says that a number has too many bits for its field.
const OVERFLOW: &str = "must be of type int32";

/// An object in the client's version, pruned and defaulted.
pub(crate) struct Incoming {
    pub(crate) object: Value,
    pub(crate) warnings: Vec<String>,
}

/// How strict errors are said: a body is refused with 400, the result of a patch with 422.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Body,
    Patched,
    /// Merged from what is stored and what was applied: neither is read again.
    Applied,
}

/// Accepts an object, or refuses it. `problems` are those that decoding it has found.
pub(crate) fn accept(
    context: &Context,
    mut object: Value,
    mut problems: Vec<String>,
    validation: FieldValidation,
    source: Source,
) -> Result<Incoming, Status> {
    let (version, kind) = (context.version(), &context.served.kind);
    let schema = kind.schema(version);
    if let Some(why) = schema.as_ref().and_then(|schema| schema.unreadable_metadata(&object)) {
        return Err(Status::bad_request(cannot_be_handled(context, &why)));
    }
    metadata::of_mut(&mut object)?;
    check_type(context, &mut object)?;
    kind.accept(version, &mut object);
    if let Some(schema) = &schema {
        let unknown = schema.prune(&mut object);
        problems.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
        if context.served.role != Role::Custom {
            schema.drop_nulls(&mut object);
            check_leaf_types(context, schema, &object)?;
        }
    }
    let mut warnings = Vec::new();
    if !problems.is_empty() {
        match validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings = problems,
            FieldValidation::Strict => return Err(strict_error(context, &object, &problems, source)),
        }
    }
    match &schema {
        Some(schema) if source == Source::Applied && context.served.role == Role::Custom => schema.fill(&mut object),
        Some(schema) => schema.default(&mut object),
        None => {}
    }
    kind.default(version, &mut object);
    metadata::tidy(metadata::of_mut(&mut object)?);
    Ok(Incoming { object, warnings })
}

/// What is applied, with its type set and unknown fields dropped, but without defaults: those belong to nobody.
pub(crate) fn check_applied(
    context: &Context,
    mut object: Value,
    schema: &cluster_schema::Schema,
    validation: FieldValidation,
) -> Result<Incoming, Status> {
    metadata::of_mut(&mut object)?;
    check_type(context, &mut object)?;
    context.served.kind.accept(context.version(), &mut object);
    let unknown = schema.prune(&mut object);
    let problems: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    if !problems.is_empty() {
        let fields: Vec<String> = unknown
            .iter()
            .take(SHOWN_MAX)
            .map(|path| format!(".{path}: field not declared in schema"))
            .collect();
        let message = format!("failed to create typed patch object: {}", fields.join(", "));
        return Err(Status::bad_request(message));
    }
    if context.served.role != Role::Custom {
        check_leaf_types(context, schema, &object)?;
    }
    let warnings = if validation == FieldValidation::Warn {
        problems
    } else {
        Vec::new()
    };
    Ok(Incoming { object, warnings })
}

fn strict_error(context: &Context, object: &Value, problems: &[String], source: Source) -> Status {
    let shown = problems[..problems.len().min(SHOWN_MAX)].join(", ");
    let error = format!("strict decoding error: {shown}");
    match source {
        Source::Body => Status::bad_request(cannot_be_handled(context, &error)),
        Source::Patched | Source::Applied => {
            let error = cluster_schema::FieldError::invalid("patch", object.to_string(), error);
            Status::invalid("", "", "", &[error])
        }
    }
}

fn cannot_be_handled(context: &Context, why: &str) -> String {
    let kind = &context.served.info().kind;
    format!(
        "{kind} in version \"{}\" cannot be handled as a {kind}: {why}",
        context.version()
    )
}

/// Sets apiVersion and kind where they are missing; anything else than what the path says is refused.
fn check_type(context: &Context, object: &mut Value) -> Result<(), Status> {
    let info = context.served.info();
    let api_version = info.api_version(context.version());
    let Some(fields) = object.as_object_mut() else {
        return Err(Status::bad_request("the body is not a JSON object"));
    };
    let given = |field: &str| {
        fields
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    };
    if let Some(given) = given("apiVersion").filter(|given| *given != api_version) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({api_version})"
        )));
    }
    if let Some(given) = given("kind").filter(|given| *given != info.kind) {
        let version = context.version();
        return Err(Status::bad_request(format!(
            "{given} in version {version:?} cannot be handled as a {}: the kind in the data does not match the path",
            info.kind
        )));
    }
    fields.insert("apiVersion".to_owned(), Value::String(api_version));
    fields.insert("kind".to_owned(), Value::String(info.kind.to_string()));
    Ok(())
}

/// A typed kind cannot even be read when a field has another JSON type: 400, not 422.
fn check_leaf_types(context: &Context, schema: &cluster_schema::Schema, object: &Value) -> Result<(), Status> {
    let errors = schema.validate(object, None);
    let wrong: Vec<String> = errors
        .iter()
        .filter(|error| error.kind == FieldErrorKind::TypeInvalid || error.detail.ends_with(OVERFLOW))
        .take(SHOWN_MAX)
        .map(|error| {
            // The value itself may be a secret.
            let found = error.value.as_ref().and_then(Value::as_str).unwrap_or("value");
            let wanted = error
                .detail
                .split_once(" in body ")
                .map_or(&*error.detail, |(_, wanted)| wanted);
            let wanted = wanted.split(": ").next().unwrap_or_default();
            format!("json: cannot unmarshal {found} into field {}: {wanted}", error.path)
        })
        .collect();
    if wrong.is_empty() {
        Ok(())
    } else {
        Err(Status::bad_request(cannot_be_handled(context, &wrong.join(", "))))
    }
}
