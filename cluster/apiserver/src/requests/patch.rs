//! PATCH: four types of patch, chosen by content type, over one loop of read, change, write.

use base_yaml::go::json_kind;
use cluster_fields::FieldError;
use cluster_patch::{
    ApplyOptions, PatchError, json_patch, merge_patch, server_side_apply_in, strategic_merge, strategic_shown,
};
use cluster_schema::Schema;
use cluster_store::Entry;
use http::StatusCode;
use kube::client::Body;
use serde_json::{Map, Value};

use crate::kinds::registry::Role;
use crate::kinds::{conversion, metadata};
use crate::objects::incoming::{self, Incoming, Source};
use crate::requests::managed_fields::KindVersions;
use crate::requests::path_match::check_matches_path;
use crate::requests::read;
use crate::requests::write::{Refusal, WRITE_ATTEMPTS_MAX, overtaken};
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::answer::Answer;
use crate::wire::decode::{Encoding, media_type, read_body, try_decode, try_decode_exactly, unsupported_media_type};
use crate::wire::negotiation::Expected;
use crate::wire::query::FieldValidation;
use crate::wire::status::{Cause, Status};

/// How often an apply creates its object when others create and delete it in between, as kube-apiserver.
const TRIES_MAX: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatchType {
    Json,
    Merge,
    Strategic,
    Apply,
}

pub(crate) async fn patch(context: &Context, body: Body) -> Result<Answer, Status> {
    let patch_type = patch_type(context)?;
    let shape = context.shape(Expected::Object)?;
    check_options(context, patch_type)?;
    let validation = context.query.field_validation();
    let (patch, problems) = decode_patch(context, patch_type, &read_body(body).await?)?;
    let request = Request {
        patch_type,
        validation,
        force: context.query.flag("force"),
        patch,
        problems,
    };
    let (code, entry, warnings) = request.run(context).await?;
    Ok(read::answer(context, code, &entry, shape).await?.warn(warnings))
}

fn check_options(context: &Context, patch_type: PatchType) -> Result<(), Status> {
    let mut errors = Vec::new();
    let manager = context.query.get("fieldManager").unwrap_or_default();
    if patch_type == PatchType::Apply && manager.is_empty() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    if patch_type != PatchType::Apply && context.query.get("force").is_some() {
        let why = "may not be specified for non-apply patch";
        errors.push(FieldError::forbidden("force", why));
    }
    context.query.check("PatchOptions", errors)
}

fn patch_type(context: &Context) -> Result<PatchType, Status> {
    let custom = context.served.role == Role::Custom;
    match media_type(&context.headers).as_str() {
        "application/json-patch+json" => Ok(PatchType::Json),
        "application/merge-patch+json" => Ok(PatchType::Merge),
        "application/strategic-merge-patch+json" if !custom => Ok(PatchType::Strategic),
        "application/apply-patch+yaml" => Ok(PatchType::Apply),
        _ if custom => Err(unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
        )),
        _ => Err(Status::unknown_patch()),
    }
}

/// The patch, and what strict decoding refuses in it.
fn decode_patch(context: &Context, patch_type: PatchType, bytes: &[u8]) -> Result<(Value, Vec<String>), Status> {
    let validation = context.query.field_validation();
    let undecodable = |why: &str| {
        Status::bad_request(match patch_type {
            PatchType::Json | PatchType::Merge => format!("error decoding patch: {why}"),
            PatchType::Strategic => why.to_owned(),
            PatchType::Apply => format!("error decoding YAML: {why}"),
        })
    };
    let mistyped = |why: &str| match patch_type {
        PatchType::Apply => undecodable(&format!("error unmarshaling JSON: while decoding JSON: {why}")),
        _ => undecodable(why),
    };
    let schema = context.served.kind.schema(context.version());
    let is_read_by_go = schema.is_some_and(|schema| schema.is_of_go());
    let decoded = match patch_type {
        PatchType::Json | PatchType::Merge if is_read_by_go => try_decode_exactly(bytes, Encoding::Json),
        _ => try_decode(bytes, Encoding::Json),
    };
    let decoded = match decoded {
        // JSON is YAML too, but its own decoder is faster.
        Err(_) if patch_type == PatchType::Apply => try_decode(bytes, Encoding::Yaml),
        decoded => decoded,
    };
    let decoded = decoded.map_err(|why| undecodable(&why))?;
    let mut problems = decoded.problems();
    let wrong = match patch_type {
        PatchType::Json => wrong_operations(&decoded.value),
        _ if decoded.value.is_object() || decoded.value.is_null() => None,
        _ => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(&decoded.value)
        )),
    };
    if let Some(why) = wrong.filter(|_| {
        validation != FieldValidation::Ignore || matches!(patch_type, PatchType::Strategic | PatchType::Apply)
    }) {
        return Err(mistyped(&why));
    }
    if patch_type == PatchType::Json {
        problems.extend(unknown_in_operations(&decoded.value));
        problems = problems
            .into_iter()
            .map(|problem| format!("json patch {problem}"))
            .collect();
    }
    let empty = decoded.value.is_null() && patch_type == PatchType::Strategic;
    Ok((
        if empty {
            Value::Object(Map::new())
        } else {
            decoded.value
        },
        problems,
    ))
}

/// Why a value is no list of operations, as Go's decoder reports it.
fn wrong_operations(patch: &Value) -> Option<String> {
    let into =
        |value: &Value, wanted: &str| Some(format!("json: cannot unmarshal {} into Go {wanted}", json_kind(value)));
    let operations = match patch {
        Value::Null => return None,
        Value::Array(operations) => operations,
        other => return into(other, "value of type []handlers.jsonPatchOp"),
    };
    operations
        .iter()
        .filter(|operation| !operation.is_null())
        .find_map(|operation| {
            if !operation.is_object() {
                return into(operation, "value of type handlers.jsonPatchOp");
            }
            ["op", "path", "from"].into_iter().find_map(|field| {
                let value = operation
                    .get(field)
                    .filter(|value| !value.is_string() && !value.is_null())?;
                into(value, &format!("struct field jsonPatchOp.{field} of type string"))
            })
        })
}

/// Unknown fields in the operations of a JSON patch.
fn unknown_in_operations(patch: &Value) -> Vec<String> {
    let known = ["op", "path", "from", "value"];
    let operations = patch.as_array().into_iter().flatten().enumerate();
    let unknown = operations.flat_map(|(index, operation)| {
        let fields = operation.as_object().into_iter().flat_map(|fields| fields.keys());
        let unknown = fields.filter(|field| !known.contains(&field.as_str()));
        unknown.map(move |field| format!("unknown field \"[{index}].{field}\""))
    });
    unknown.take(incoming::SHOWN_MAX).collect()
}

struct Request {
    patch_type: PatchType,
    validation: FieldValidation,
    force: bool,
    patch: Value,
    problems: Vec<String>,
}

impl Request {
    async fn run(&self, context: &Context) -> Result<(StatusCode, Entry, Vec<String>), Status> {
        let name = context.name();
        let pinned = self.patch_type != PatchType::Json && !metadata::text(&self.patch, "resourceVersion").is_empty();
        for attempt in 1.. {
            let live = context.server.store.get(&context.key(name)).await;
            let live = live.map_err(|error| context.store_status(name, error))?;
            let mut write = Write::new(context);
            let Some(live) = live else {
                if self.patch_type != PatchType::Apply || context.subresource().is_some() {
                    return Err(context.not_found(name));
                }
                context.check_create().await?;
                match self.create(context, &mut write).await {
                    Err(status) if status.reason() == "AlreadyExists" && attempt < TRIES_MAX => continue,
                    outcome => return Ok((StatusCode::CREATED, outcome?, write.warnings)),
                }
            };
            let incoming = self.patched(context, &mut write, Some(&live)).await?;
            write.warnings = incoming.warnings;
            match write.replace(&live, incoming.object).await {
                Ok(written) => return Ok((StatusCode::OK, written.entry().clone(), write.warnings)),
                Err(Refusal::Overtaken) if attempt < WRITE_ATTEMPTS_MAX => {}
                Err(Refusal::Overtaken) => return Err(overtaken()),
                // kube-apiserver's store applies the patch again without a limit: others' writes are no reason to refuse it.
                Err(Refusal::Stale) if !pinned && attempt < WRITE_ATTEMPTS_MAX => {}
                Err(Refusal::Stale) => break,
                Err(Refusal::Status(status)) => return Err(status),
            }
        }
        Err(context.modified(name))
    }

    async fn create(&self, context: &Context, write: &mut Write<'_>) -> Result<Entry, Status> {
        let uid = metadata::text(&self.patch, "uid");
        if !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            let served = &context.served;
            return Err(Status::conflict(served.group(), served.plural(), context.name(), &why));
        }
        let incoming = self.patched(context, write, None).await?;
        write.warnings = incoming.warnings;
        write.create(incoming.object).await
    }

    /// The object after the patch, in the client's version.
    async fn patched(
        &self,
        context: &Context,
        write: &mut Write<'_>,
        live: Option<&Entry>,
    ) -> Result<Incoming, Status> {
        let live = match live {
            Some(live) => Some(
                conversion::entry_as_value(&context.server.network, &context.served, context.version(), live).await?,
            ),
            None => None,
        };
        let schema = context
            .served
            .kind
            .schema(context.version())
            .unwrap_or_else(Schema::any);
        let nothing = Value::Null;
        let before = live.as_ref().unwrap_or(&nothing);
        let object = match self.patch_type {
            PatchType::Json => json_patch(before, &self.patch),
            PatchType::Merge => merge_patch(before, &self.patch),
            PatchType::Strategic => strategic_merge(before, &self.patch, &schema),
            PatchType::Apply => {
                write.manager = None;
                return self.applied(context, live.as_ref(), &schema).await;
            }
        };
        let object = object.map_err(|error| patch_status(&error))?;
        let shown = match self.patch_type {
            PatchType::Strategic => strategic_shown(before, &self.patch),
            _ => Value::Null,
        };
        let source = match self.patch_type {
            PatchType::Strategic => Source::Strategic(&shown),
            PatchType::Merge => Source::Merged(&self.patch),
            PatchType::Json => Source::Operated(&self.patch),
            PatchType::Apply => Source::Applied(&self.patch),
        };
        let incoming = incoming::accept(context, object, self.problems.clone(), self.validation, source)?;
        match check_matches_path(context, &incoming.object) {
            Ok(()) => Ok(incoming),
            Err(status) => Err(status.warned(incoming.warnings)),
        }
    }

    async fn applied(&self, context: &Context, live: Option<&Value>, schema: &Schema) -> Result<Incoming, Status> {
        let checked = incoming::check_applied(context, self.patch.clone())?;
        let manager = context.manager();
        let api_version = context.served.info().api_version(context.version());
        let reset = reset_fields(context, &checked);
        let options = ApplyOptions {
            manager: &manager,
            force: self.force,
            subresource: context.subresource().unwrap_or_default(),
            time: context.now,
            api_version: &api_version,
            reset: &reset,
        };
        let object = server_side_apply_in(live, &checked, options, schema, &KindVersions(context)).await;
        let mut object = object.map_err(|error| patch_status(&error))?;
        // What was applied may pin a version; otherwise the version that was read stays, and is the current one. A version
        // of an object that does not exist yet is ignored.
        let pinned = metadata::text(&self.patch, "resourceVersion");
        let metadata = metadata::of_mut(&mut object)?;
        if live.is_none() {
            metadata.remove("resourceVersion");
        } else if !pinned.is_empty() {
            metadata.insert("resourceVersion".to_owned(), Value::String(pinned.to_owned()));
        }
        let accepted = incoming::accept(
            context,
            object,
            Vec::new(),
            FieldValidation::Ignore,
            Source::Applied(&self.patch),
        )?;
        check_matches_path(context, &accepted.object)?;
        let mut warnings = Vec::new();
        match self.validation {
            FieldValidation::Ignore => {}
            FieldValidation::Warn => warnings.extend(self.problems.iter().cloned()),
            FieldValidation::Strict if self.problems.is_empty() => {}
            FieldValidation::Strict => {
                let problems = self.problems.join(", ");
                return Err(Status::bad_request(format!("error strict decoding YAML: {problems}")));
            }
        }
        Ok(Incoming {
            object: accepted.object,
            warnings,
        })
    }
}

/// Top-level fields that a request to this path cannot change.
fn reset_fields<'a>(context: &Context, applied: &'a Value) -> Vec<&'a str> {
    match context.subresource() {
        None if context.has_status() => vec!["status"],
        // Other top-level fields of a custom resource are not written, but count as applied.
        Some("status") if context.served.role == Role::Custom => vec!["spec"],
        Some("status") => {
            let fields = applied.as_object().into_iter().flat_map(|fields| fields.keys());
            fields
                .map(String::as_str)
                .filter(|field| !matches!(*field, "apiVersion" | "kind" | "status"))
                .collect()
        }
        _ => Vec::new(),
    }
}

pub(crate) fn patch_status(error: &PatchError) -> Status {
    match error {
        PatchError::Malformed(why) => Status::bad_request(why.clone()),
        PatchError::NotApplicable(_) => Status::patch_refused(),
        PatchError::Failed(why) => Status::failed(why.clone()),
        PatchError::TooLarge(why) => Status::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", why.clone()),
        PatchError::Conflicts(conflicts) => {
            let status = Status::new(StatusCode::CONFLICT, "Conflict", conflicts.to_string());
            conflicts.list.iter().fold(status, |status, conflict| {
                status.because(Cause {
                    reason: "FieldManagerConflict".to_owned(),
                    message: conflict.cause(),
                    field: conflict.path.clone(),
                })
            })
        }
    }
}
