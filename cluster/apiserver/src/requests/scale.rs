//! The `scale` subresource: reads and writes of an object through its view as an `autoscaling/v1` Scale.
//! (kubernetes/kubernetes v1.35 pkg/registry/apps/deployment/storage, apiextensions-apiserver pkg/registry/customresource)

use cluster_fields::FieldError;
use cluster_patch::{ApplyOptions, json_patch, merge_patch, server_side_apply};
use cluster_schema::{Schema, taken_apart};
use cluster_store::Entry;
use http::StatusCode;
use kube::client::Body;
use serde_json::{Value, json};

use crate::kinds::registry::Role;
use crate::kinds::resource::ScalePaths;
use crate::kinds::{conversion, metadata};
use crate::objects::scale_view::{at, replicas_of, set, view};
use crate::requests::patch::patch_status;
use crate::requests::path_match::check_matches_path;
use crate::requests::write::Refusal;
use crate::state::context::Context;
use crate::state::pending_write::Write;
use crate::wire::answer::Answer;
use crate::wire::decode::{Encoding, decode, encoding, media_type, read_body};
use crate::wire::status::Status;

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";
/// How often a change is tried again when others write in between.
const TRIES_MAX: usize = 16;

pub(crate) async fn answer(context: &Context, paths: &ScalePaths, verb: &str, body: Body) -> Result<Answer, Status> {
    match verb {
        "get" => {
            let entry = context.current(context.name()).await?;
            let object = conversion::entry_as_value(
                &context.server.network,
                &context.served,
                context.working_version(),
                &entry,
            )
            .await?;
            let scale = view(&object, paths);
            if context.served.role == Role::Custom && at(&object, &paths.spec_replicas).is_none_or(Value::is_null) {
                let why = format!("the spec replicas field {:?} does not exist", paths.spec_replicas);
                return Err(Status::internal(why));
            }
            Ok(Answer::value(StatusCode::OK, &scale))
        }
        "update" => {
            context.query.check("UpdateOptions", Vec::new())?;
            let wanted = decode(&read_body(body).await?, encoding(&context.headers)?)?.value;
            check_matches_path(context, &wanted)?;
            change(context, paths, |_| Ok(wanted.clone())).await
        }
        "patch" if media_type(&context.headers) == APPLY => {
            let wanted = decode(&read_body(body).await?, Encoding::Yaml)?.value;
            apply(context, paths, &wanted).await
        }
        "patch" => {
            context.query.check("PatchOptions", Vec::new())?;
            let media = media_type(&context.headers);
            let patch = decode(&read_body(body).await?, Encoding::Json)?.value;
            change(context, paths, |scale| {
                let (patched, apart) = match media.as_str() {
                    "application/json-patch+json" => (json_patch(scale, &patch), taken_apart(&patch)),
                    "application/merge-patch+json" | "application/strategic-merge-patch+json" => {
                        (merge_patch(scale, &patch), patch.clone())
                    }
                    _ => return Err(Status::unknown_patch()),
                };
                let patched = patched.map_err(|error| patch_status(&error))?;
                check_patched(&patched, &apart)?;
                Ok(patched)
            })
            .await
        }
        _ => Err(Status::method_not_allowed()),
    }
}

/// Refuses the result of a patch that cannot be read as a Scale. `apart` has the fields through which the patch went.
fn check_patched(scale: &Value, apart: &Value) -> Result<(), Status> {
    let schema = cluster_builtin::schema("autoscaling", "v1", "Scale").unwrap_or_else(Schema::any);
    match schema.unreadable(scale) {
        Some(why) => {
            let error = FieldError::invalid("patch", schema.print_patched(scale, apart), why);
            Err(Status::invalid("", "", "", &[error]))
        }
        None => Ok(()),
    }
}

/// Applies the number of replicas, as a configuration of the object that has nothing else.
async fn apply(context: &Context, paths: &ScalePaths, wanted: &Value) -> Result<Answer, Status> {
    let (name, manager) = (context.name(), context.query.get("fieldManager").unwrap_or_default());
    let mut errors = Vec::new();
    if manager.is_empty() {
        errors.push(FieldError::required("fieldManager", "is required for apply patch"));
    }
    context.query.check("PatchOptions", errors)?;
    let replicas = replicas_of(wanted)?;
    let served = &context.served;
    let schema = served.kind.schema(context.version()).unwrap_or_else(Schema::any);
    for _ in 0..TRIES_MAX {
        let live = context.current(name).await?;
        let object = conversion::entry_as_value(&context.server.network, served, context.version(), &live).await?;
        let api_version = served.info().api_version(context.version());
        let mut applied = json!({"apiVersion": api_version, "kind": served.info().kind, "metadata": {"name": name}});
        if !set(&mut applied, &paths.spec_replicas, Value::from(replicas)) {
            return Err(Status::internal("the object has no place for its replicas"));
        }
        let options = ApplyOptions {
            manager,
            force: context.query.flag("force"),
            subresource: "scale",
            time: context.now,
            api_version: &api_version,
            reset: &[],
        };
        let merged = server_side_apply(Some(&object), &applied, options, &schema);
        let merged = merged.map_err(|error| patch_status(&error))?;
        let mut write = Write::new(context);
        write.manager = None;
        if let Some(answer) = replace(context, paths, write, &live, merged).await? {
            return Ok(answer);
        }
    }
    Err(context.modified(name))
}

/// Replaces the object, and answers with its Scale; none when another write was faster.
async fn replace(
    context: &Context,
    paths: &ScalePaths,
    mut write: Write<'_>,
    live: &Entry,
    object: Value,
) -> Result<Option<Answer>, Status> {
    match write.replace(live, object).await {
        Ok(written) => {
            let scale = scale_of(context, written.entry(), paths).await?;
            Ok(Some(Answer::value(StatusCode::OK, &scale).warn(write.warnings)))
        }
        Err(Refusal::Stale | Refusal::Overtaken) => Ok(None),
        Err(Refusal::Status(status)) => Err(status),
    }
}

/// The object as a Scale.
async fn scale_of(context: &Context, entry: &Entry, paths: &ScalePaths) -> Result<Value, Status> {
    let object = conversion::entry_as_value(
        &context.server.network,
        &context.served,
        context.working_version(),
        entry,
    )
    .await?;
    Ok(view(&object, paths))
}

/// The path of the replicas in managed fields.
struct ManagedPath(Vec<String>);

impl ManagedPath {
    fn new(replicas: &str) -> Self {
        let parts = replicas.split('.').filter(|part| !part.is_empty());
        Self(parts.map(|part| format!("f:{part}")).collect())
    }

    /// Whether any manager owns the replicas. Without one, a write of the Scale records no manager
    /// (apimachinery v0.35 `pkg/util/managedfields/internal/skipnonapplied.go`).
    fn is_managed(&self, object: &Value) -> bool {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        entries.into_iter().flatten().any(|entry| {
            let mut parts = self.0.iter();
            let found = parts.try_fold(&entry["fieldsV1"], |fields, part| fields.get(part));
            found.is_some()
        })
    }

    /// Removes them from all managers, and managers that own nothing else.
    fn remove(&self, object: &mut Value) {
        let entries = object
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut);
        let Some(entries) = entries else { return };
        for entry in entries.iter_mut() {
            remove_field(&mut entry["fieldsV1"], &self.0);
        }
        entries.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    }
}

/// Removes the field, and parents that are empty without it.
fn remove_field(fields: &mut Value, place: &[String]) {
    let (Some((first, rest)), Some(fields)) = (place.split_first(), fields.as_object_mut()) else {
        return;
    };
    if let Some(below) = fields.get_mut(first).filter(|_| !rest.is_empty()) {
        remove_field(below, rest);
        if below.as_object().is_none_or(|below| !below.is_empty()) {
            return;
        }
    }
    fields.remove(first);
}

async fn change(
    context: &Context,
    paths: &ScalePaths,
    wanted: impl Fn(&Value) -> Result<Value, Status>,
) -> Result<Answer, Status> {
    let name = context.name();
    for _ in 0..TRIES_MAX {
        let live = context.current(name).await?;
        let scale = wanted(&scale_of(context, &live, paths).await?)?;
        let version = metadata::text(&scale, "resourceVersion");
        if !version.is_empty() && version != live.revision.to_string() {
            return Err(context.modified(name));
        }
        let replicas = replicas_of(&scale)?;
        // A custom resource is validated as a whole.
        if replicas < 0 && context.served.role != Role::Custom {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", name, &[error]));
        }
        let mut object =
            conversion::entry_as_value(&context.server.network, &context.served, context.version(), &live).await?;
        let before = at(&object, &paths.spec_replicas).and_then(Value::as_i64);
        if !set(&mut object, &paths.spec_replicas, Value::from(replicas)) {
            return Err(Status::internal("the object has no place for its replicas"));
        }
        let mut write = Write::new(context);
        let place = ManagedPath::new(&paths.spec_replicas);
        if replicas == 0 && before != Some(0) {
            // A Scale leaves zero out, so no manager owns the field.
            place.remove(&mut object);
            write.manager = None;
        } else if !place.is_managed(&object) {
            write.manager = None;
        }
        if let Some(answer) = replace(context, paths, write, &live, object).await? {
            return Ok(answer);
        }
    }
    Err(context.modified(name))
}
