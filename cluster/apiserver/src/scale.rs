//! The `scale` subresource: an `autoscaling/v1` Scale as a view of an object.
//! (kubernetes/kubernetes v1.35 pkg/registry/apps/deployment/storage, apiextensions-apiserver pkg/registry/customresource)

use cluster_patch::{ApplyOptions, json_patch, merge_patch, server_side_apply};
use cluster_schema::{FieldError, Schema, taken_apart};
use cluster_store::Entry;
use http::StatusCode;
use kube::client::Body;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::context::Context;
use crate::decode::{Encoding, decode, encoding, media_type, read_body};
use crate::patch::{check_names, patch_status};
use crate::registry::Role;
use crate::resource::ScalePaths;
use crate::status::Status;
use crate::write::{Refusal, Write};
use crate::{conversion, metadata, read};

/// The media type of server-side apply.
const APPLY: &str = "application/apply-patch+yaml";
/// How often a change is tried again when others write in between.
const TRIES_MAX: usize = 16;

pub(crate) async fn answer(context: &Context, paths: &ScalePaths, verb: &str, body: Body) -> Result<Answer, Status> {
    match verb {
        "get" => {
            let entry = read::current(context, context.name()).await?;
            let object = conversion::value(&context.server, &context.served, context.working_version(), &entry).await?;
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
            check_names(context, &wanted)?;
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

/// Refuses what a patch has made of a Scale if it cannot be read as one. `apart` is what the patch went through.
fn check_patched(scale: &Value, apart: &Value) -> Result<(), Status> {
    let schema = cluster_schema::builtin::schema("autoscaling", "v1", "Scale").unwrap_or_else(Schema::any);
    match schema.unreadable(scale) {
        Some(why) => {
            let error = FieldError::invalid("patch", schema.print_patched(scale, apart), why);
            Err(Status::invalid("", "", "", &[error]))
        }
        None => Ok(()),
    }
}

/// Applies the number of replicas, as a configuration of the object that says nothing else.
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
        let live = read::current(context, name).await?;
        let object = conversion::value(&context.server, served, context.version(), &live).await?;
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
        match write.replace(&live, merged).await {
            Ok(written) => {
                let scale = scale_of(context, written.entry(), paths).await?;
                return Ok(Answer::value(StatusCode::OK, &scale).warn(write.warnings));
            }
            Err(Refusal::Stale | Refusal::Overtaken) => {}
            Err(Refusal::Status(status)) => return Err(status),
        }
    }
    Err(context.modified(name))
}

/// The value at a path such as `.spec.replicas`.
fn at<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.')
        .filter(|part| !part.is_empty())
        .try_fold(object, |value, part| value.get(part))
}

pub(crate) fn set(object: &mut Value, path: &str, value: Value) -> bool {
    let mut here = object;
    let parts: Vec<&str> = path.split('.').filter(|part| !part.is_empty()).collect();
    let Some((last, parents)) = parts.split_last() else {
        return false;
    };
    for part in parents {
        let Some(fields) = here.as_object_mut() else {
            return false;
        };
        here = fields.entry(*part).or_insert_with(|| json!({}));
    }
    here.as_object_mut()
        .map(|fields| fields.insert((*last).to_owned(), value))
        .is_some()
}

/// What the object is in the version of the request, as a Scale.
async fn scale_of(context: &Context, entry: &Entry, paths: &ScalePaths) -> Result<Value, Status> {
    let object = conversion::value(&context.server, &context.served, context.working_version(), entry).await?;
    Ok(view(&object, paths))
}

/// The object as a Scale.
pub(crate) fn view(object: &Value, paths: &ScalePaths) -> Value {
    let mut shown = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.pointer(&format!("/metadata/{field}")) {
            shown[field] = value.clone();
        }
    }
    let replicas = at(object, &paths.spec_replicas).and_then(Value::as_i64);
    let current = at(object, &paths.status_replicas)
        .and_then(Value::as_i64)
        .unwrap_or_default();
    let mut status = json!({"replicas": current});
    if let Some(selector) = paths
        .selector
        .as_ref()
        .and_then(|path| at(object, path))
        .and_then(selector_text)
    {
        status["selector"] = Value::String(selector);
    }
    // Go leaves out a number that is zero.
    let replicas = replicas.filter(|replicas| *replicas != 0);
    let spec = replicas.map_or_else(|| json!({}), |replicas| json!({"replicas": replicas}));
    json!({"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": shown, "spec": spec, "status": status})
}

/// A label selector as text, sorted by key.
fn selector_text(selector: &Value) -> Option<String> {
    if let Some(text) = selector.as_str() {
        return Some(text.to_owned());
    }
    let mut parts: Vec<String> = Vec::new();
    for (key, value) in selector
        .get("matchLabels")
        .and_then(Value::as_object)
        .into_iter()
        .flatten()
    {
        parts.push(format!("{key}={}", value.as_str().unwrap_or_default()));
    }
    for expression in selector
        .get("matchExpressions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        let key = expression.get("key").and_then(Value::as_str)?;
        let values: Vec<&str> = expression
            .get("values")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        parts.push(match expression.get("operator").and_then(Value::as_str)? {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort();
    Some(parts.join(","))
}

/// The number a Scale asks for; 0 when it says nothing, as upstream. Errors: it is no Scale, or says something else.
pub(crate) fn replicas_of(scale: &Value) -> Result<i32, Status> {
    let refuse = |why: String| Err(Status::bad_request(why));
    if !scale.is_object() {
        return refuse("the body is no Scale but a list or a single value: send a JSON object".to_owned());
    }
    for (field, wanted) in [("kind", "Scale"), ("apiVersion", "autoscaling/v1")] {
        match scale.get(field) {
            None | Some(Value::Null) => {}
            Some(given) if given == wanted => {}
            Some(given) => {
                return refuse(format!(
                    "{field} {given} is not {wanted:?}: send a Scale of autoscaling/v1"
                ));
            }
        }
    }
    let given = match scale.get("spec") {
        None | Some(Value::Null) => None,
        Some(Value::Object(spec)) => spec.get("replicas").filter(|given| !given.is_null()),
        Some(other) => return refuse(format!("spec {other} is not a JSON object")),
    };
    let Some(given) = given else { return Ok(0) };
    match given.as_i64().map(i32::try_from) {
        Some(Ok(replicas)) => Ok(replicas),
        _ => refuse(format!("spec.replicas {given} is not a whole number of 32 bits")),
    }
}

/// Where managers have the replicas among their fields.
struct ManagedPlace(Vec<String>);

impl ManagedPlace {
    fn new(replicas: &str) -> Self {
        let parts = replicas.split('.').filter(|part| !part.is_empty());
        Self(parts.map(|part| format!("f:{part}")).collect())
    }

    /// Whether somebody has them. Of a Scale that nobody manages none is noted as its manager
    /// (apimachinery v0.35 `pkg/util/managedfields/internal/skipnonapplied.go`).
    fn is_managed(&self, object: &Value) -> bool {
        let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
        entries.into_iter().flatten().any(|entry| {
            let mut parts = self.0.iter();
            let found = parts.try_fold(&entry["fieldsV1"], |fields, part| fields.get(part));
            found.is_some()
        })
    }

    /// Takes them from all who have them; who has nothing else is no manager any more.
    fn forget(&self, object: &mut Value) {
        let entries = object
            .pointer_mut("/metadata/managedFields")
            .and_then(Value::as_array_mut);
        let Some(entries) = entries else { return };
        for entry in entries.iter_mut() {
            without(&mut entry["fieldsV1"], &self.0);
        }
        entries.retain(|entry| entry["fieldsV1"].as_object().is_none_or(|fields| !fields.is_empty()));
    }
}

/// Takes the field away, and what is empty without it.
fn without(fields: &mut Value, place: &[String]) {
    let (Some((first, rest)), Some(fields)) = (place.split_first(), fields.as_object_mut()) else {
        return;
    };
    if let Some(below) = fields.get_mut(first).filter(|_| !rest.is_empty()) {
        without(below, rest);
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
        let live = read::current(context, name).await?;
        let scale = wanted(&scale_of(context, &live, paths).await?)?;
        let version = metadata::text(&scale, "resourceVersion");
        if !version.is_empty() && version != live.revision.to_string() {
            return Err(context.modified(name));
        }
        let replicas = replicas_of(&scale)?;
        // A custom resource is judged as a whole.
        if replicas < 0 && context.served.role != Role::Custom {
            let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
            return Err(Status::invalid("autoscaling", "Scale", name, &[error]));
        }
        let mut object = conversion::value(&context.server, &context.served, context.version(), &live).await?;
        let before = at(&object, &paths.spec_replicas).and_then(Value::as_i64);
        if !set(&mut object, &paths.spec_replicas, Value::from(replicas)) {
            return Err(Status::internal("the object has no place for its replicas"));
        }
        let mut write = Write::new(context);
        let place = ManagedPlace::new(&paths.spec_replicas);
        if replicas == 0 && before != Some(0) {
            // A Scale says nothing of zero, so that nobody has the field.
            place.forget(&mut object);
            write.manager = None;
        } else if !place.is_managed(&object) {
            write.manager = None;
        }
        match write.replace(&live, object).await {
            Ok(written) => {
                let scale = scale_of(context, written.entry(), paths).await?;
                return Ok(Answer::value(StatusCode::OK, &scale).warn(write.warnings));
            }
            Err(Refusal::Stale | Refusal::Overtaken) => {}
            Err(Refusal::Status(status)) => return Err(status),
        }
    }
    Err(context.modified(name))
}
