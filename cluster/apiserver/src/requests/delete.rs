//! DELETE of one object: preconditions, propagation, grace, finalizers. What follows from a deletion (dependents,
//! the content of a namespace) is for controllers.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go,
//! pkg/registry/generic/registry/store.go)

use std::sync::Arc;

use cluster_fields::FieldError;
use cluster_store::{Entry, Object, StoreError};
use http::StatusCode;
use jiff::{SignedDuration, Timestamp};
use kube::client::Body;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::admission::{confirmation, deletion, gatekeeping, namespace_lifecycle, node_restriction};
use crate::kinds::kind::{Operation, Review};
use crate::kinds::metadata::{self, timestamp};
use crate::kinds::registry::Role;
use crate::kinds::{conversion, definition, namespaces, pods, strategies};
use crate::requests::read;
use crate::requests::write::{WRITE_ATTEMPTS_MAX, overtaken};
use crate::state::context::{Context, ExclusiveWrite};
use crate::state::reader::Reader;
use crate::wire::answer::Answer;
use crate::wire::decode::{decode, encoding, read_body};
use crate::wire::negotiation::Expected;
use crate::wire::query::{check_dry_run, refuse};
use crate::wire::status::Status;

/// How often a deletion without preconditions is tried again when others write in between.
const TRIES_MAX: usize = 16;
/// The finalizer that keeps an object until its dependents are gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer that keeps an object until its dependents have been orphaned.
pub(crate) const ORPHAN: &str = "orphan";

/// `meta/v1` DeleteOptions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct DeleteOptions {
    pub(crate) grace_period_seconds: Option<i64>,
    pub(crate) preconditions: Option<Preconditions>,
    pub(crate) orphan_dependents: Option<bool>,
    pub(crate) propagation_policy: Option<String>,
    pub(crate) dry_run: Option<Vec<String>>,
    /// The uid in the preconditions was not set by the client.
    #[serde(skip)]
    narrowed: bool,
}

/// What must be true of the object for the deletion to begin.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Preconditions {
    uid: Option<String>,
    resource_version: Option<String>,
}

impl DeleteOptions {
    /// From the body, else from the query.
    pub(crate) async fn read(context: &Context, body: Body) -> Result<Self, Status> {
        let bytes = read_body(body).await?;
        let options = if bytes.is_empty() {
            Self {
                grace_period_seconds: context.query.number("gracePeriodSeconds")?,
                propagation_policy: context.query.get("propagationPolicy").map(str::to_owned),
                orphan_dependents: context
                    .query
                    .get("orphanDependents")
                    .map(|_| context.query.flag("orphanDependents")),
                dry_run: Some(context.query.all("dryRun").map(str::to_owned).collect()),
                preconditions: None,
                narrowed: false,
            }
        } else {
            let value = decode(&bytes, encoding(&context.headers)?)?.value;
            check_kind(&value)?;
            serde_json::from_value(value).map_err(|error| Status::bad_request(format!("DeleteOptions: {error}")))?
        };
        options.check()?;
        Ok(options)
    }

    pub(crate) fn check(&self) -> Result<(), Status> {
        let mut errors = Vec::new();
        let policy = self.propagation_policy.as_deref();
        if policy.is_some() && self.orphan_dependents.is_some() {
            let why = "orphanDependents and deletionPropagation cannot be both set";
            errors.push(FieldError::invalid("propagationPolicy", policy, why));
        }
        if !matches!(policy, None | Some("" | "Orphan" | "Background" | "Foreground")) {
            let allowed = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported("propagationPolicy", policy, &allowed));
        }
        let dry_runs: Vec<&str> = self.dry_run.iter().flatten().map(String::as_str).collect();
        check_dry_run(&dry_runs, &mut errors);
        refuse("DeleteOptions", &errors)
    }

    /// The same for the object of this uid alone, unless they name another.
    pub(crate) fn only(mut self, uid: &str) -> Self {
        let preconditions = self.preconditions.get_or_insert_default();
        if preconditions.uid.is_none() {
            preconditions.uid = Some(uid.to_owned());
            self.narrowed = true;
        }
        self
    }

    /// As a client would write them.
    fn value(&self) -> Value {
        let mut value = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
        let preconditions = self.preconditions.as_ref().filter(|_| !self.narrowed).map(|it| {
            let named = [("uid", &it.uid), ("resourceVersion", &it.resource_version)];
            let given = named
                .into_iter()
                .filter_map(|(field, value)| Some((field.to_owned(), json!(value.as_ref()?))));
            Value::Object(given.collect())
        });
        let dry = self.dry_run.as_ref().filter(|values| !values.is_empty());
        for (field, given) in [
            ("gracePeriodSeconds", self.grace_period_seconds.map(Value::from)),
            ("preconditions", preconditions),
            ("orphanDependents", self.orphan_dependents.map(Value::from)),
            ("propagationPolicy", self.propagation_policy.as_deref().map(Value::from)),
            ("dryRun", dry.map(|values| json!(values))),
        ] {
            if let Some(given) = given {
                value[field] = given;
            }
        }
        value
    }

    pub(crate) fn is_dry(&self) -> bool {
        self.dry_run.as_ref().is_some_and(|values| !values.is_empty())
    }

    /// The finalizers after this deletion has begun: propagation shows as one of two special ones.
    fn finalizers(&self, current: &[String], orphans: bool) -> Vec<String> {
        let undecided = || {
            !current
                .iter()
                .any(|finalizer| matches!(finalizer.as_str(), FOREGROUND | ORPHAN))
        };
        let wanted = match (self.propagation_policy.as_deref(), self.orphan_dependents) {
            (Some("Foreground"), _) => Some(FOREGROUND),
            (Some("Orphan"), _) | (_, Some(true)) => Some(ORPHAN),
            (Some("Background"), _) | (_, Some(false)) => None,
            _ if orphans && undecided() => Some(ORPHAN),
            _ => return current.to_vec(),
        };
        let keep = |finalizer: &&String| !matches!(finalizer.as_str(), FOREGROUND | ORPHAN);
        let remaining = current.iter().filter(keep).cloned();
        remaining.chain(wanted.map(str::to_owned)).collect()
    }

    fn check_preconditions(&self, context: &Context, entry: &Entry) -> Result<(), Status> {
        let Some(preconditions) = &self.preconditions else {
            return Ok(());
        };
        let info = context.served.info();
        let conflict = |why: String| Err(Status::conflict(&info.group, &info.kind, &entry.key.name, &why));
        let uid = &entry.object.meta().uid;
        if let Some(wanted) = preconditions.uid.as_ref().filter(|wanted| *wanted != uid) {
            return conflict(format!(
                "the UID in the precondition ({wanted}) does not match the UID in record ({uid}). The object might \
                 have been deleted and then recreated"
            ));
        }
        let version = entry.revision.to_string();
        match preconditions
            .resource_version
            .as_ref()
            .filter(|wanted| **wanted != version)
        {
            Some(wanted) => conflict(format!(
                "the ResourceVersion in the precondition ({wanted}) does not match the ResourceVersion in record \
                 ({version}). The object might have been modified"
            )),
            None => Ok(()),
        }
    }
}

/// Refuses a body of another kind than DeleteOptions.
fn check_kind(value: &Value) -> Result<(), Status> {
    let text = |field: &str| value.get(field).and_then(Value::as_str).unwrap_or_default();
    match (text("kind"), text("apiVersion")) {
        ("" | "DeleteOptions", _) => Ok(()),
        (kind, version) => {
            let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
            Err(Status::bad_request(format!(
                "no kind {kind:?} is registered for version {version:?} in scheme \"pkg/runtime/scheme.go:111\""
            )))
        }
    }
}

/// How far a deletion got.
pub(crate) enum Deleted {
    /// The object is gone; its last state.
    Gone(Entry),
    /// The object stays for its finalizers, its grace period, its content.
    Waiting(Entry),
}

pub(crate) async fn delete(context: &Context, body: Body) -> Result<Answer, Status> {
    let shape = context.shape(Expected::Object)?;
    let options = DeleteOptions::read(context, body).await?;
    let (deleted, warnings) = remove(context, context.name(), &options).await?;
    let answer = match &deleted {
        Deleted::Waiting(entry) => read::answer(context, StatusCode::OK, entry, shape).await?,
        Deleted::Gone(entry) if returns_object(context) => read::answer(context, StatusCode::OK, entry, shape).await?,
        Deleted::Gone(entry) => Answer::value(StatusCode::OK, &success(context, entry)),
    };
    Ok(answer.warn(warnings))
}

/// Kinds whose last state is the answer (their stores set ReturnDeletedObject).
fn returns_object(context: &Context) -> bool {
    context.served.group().is_empty()
        && matches!(
            context.served.plural(),
            "pods"
                | "persistentvolumeclaims"
                | "persistentvolumes"
                | "podtemplates"
                | "resourcequotas"
                | "serviceaccounts"
                | "services"
        )
}

fn success(context: &Context, entry: &Entry) -> Value {
    let served = &context.served;
    let mut details = json!({"name": &*entry.key.name, "kind": served.plural(), "uid": entry.object.meta().uid});
    if !served.group().is_empty() {
        details["group"] = Value::from(served.group());
    }
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

/// Deletes one object of the request's resource. Returns warnings too, which a refusal has as well.
pub(crate) async fn remove(
    context: &Context,
    name: &str,
    options: &DeleteOptions,
) -> Result<(Deleted, Vec<String>), Status> {
    let mut warnings = Vec::new();
    match admit_and_remove(context, name, options, &mut warnings).await {
        Ok(deleted) => Ok((deleted, warnings)),
        Err(status) => Err(status.warned(warnings)),
    }
}

async fn admit_and_remove(
    context: &Context,
    name: &str,
    options: &DeleteOptions,
    warnings: &mut Vec<String>,
) -> Result<Deleted, Status> {
    for attempt in 1.. {
        let entry = context.current(name).await?;
        options.check_preconditions(context, &entry)?;
        let old = conversion::value_for_next_write(&context.server.network, &context.served, context.version(), &entry)
            .await?;
        let call = context.call(Operation::Delete, name, options.is_dry());
        node_restriction::restrict(context, None, Some(&old))?;
        gatekeeping::admit(context, name, None, Some(&old)).await?;
        confirmation::check(context, &old)?;
        let reader = Reader::new(&context.server);
        // Warnings of an earlier attempt go, also when this one is refused.
        warnings.clear();
        *warnings = deletion::review_deletion(context, &old, options.value(), options.is_dry()).await?;
        let exclusive = context.begin_exclusive_write(&call).await?;
        let review = Review {
            call,
            object: None,
            old: Some(&old),
            objects: &reader,
        };
        warnings.extend(context.served.kind.review(review).await?);
        if options.propagation_policy.is_none() && options.orphan_dependents.is_none() {
            warnings.extend(
                default_orphans(context)
                    .filter(|warning| !warning.is_empty())
                    .map(str::to_owned),
            );
        }
        namespace_lifecycle::check_deletable(context, name)?;
        match try_remove(context, &exclusive, &entry, old, options).await {
            Ok(deleted) => return Ok(deleted),
            Err(StoreError::Overtaken) if attempt < WRITE_ATTEMPTS_MAX => {}
            Err(StoreError::Overtaken) => return Err(overtaken()),
            Err(StoreError::Conflict { .. }) if attempt < TRIES_MAX => {}
            Err(error) => return Err(context.store_status(name, error)),
        }
    }
    Err(context.modified(name))
}

/// The warning if dependents are orphaned by default, which may be empty; none if they are not.
fn default_orphans(context: &Context) -> Option<&'static str> {
    let served = &context.served;
    strategies::orphans(served.group(), &served.info().kind).filter(|_| served.role == Role::Ordinary)
}

async fn try_remove(
    context: &Context,
    exclusive: &ExclusiveWrite<'_>,
    entry: &Entry,
    old: Value,
    options: &DeleteOptions,
) -> Result<Deleted, StoreError> {
    let orphans = default_orphans(context).is_some();
    let finalizers = options.finalizers(&entry.object.meta().finalizers, orphans);
    let grace = grace(context, &old, options);
    let mut object = old;
    if !begin(context, &mut object, &finalizers, grace) {
        return Ok(Deleted::Waiting(entry.clone()));
    }
    let waits = match context.served.role {
        Role::Namespace => namespaces::begin_deletion(&mut object),
        Role::CustomResourceDefinition => {
            definition::begin_deletion(&mut object, context.now);
            true
        }
        _ => false,
    };
    let waits = waits || !metadata::finalizers(&object).is_empty() || grace > 0;
    let object = Object::from_value(object)?;
    let store = &exclusive.store;
    // An object that is deleted at once is returned as it was stored.
    let marked = waits || context.served.role == Role::Pod;
    let next = Entry {
        object: if marked {
            Arc::new(object.clone())
        } else {
            entry.object.clone()
        },
        ..entry.clone()
    };
    match (waits, options.is_dry()) {
        (true, true) => Ok(Deleted::Waiting(next)),
        (false, true) => Ok(Deleted::Gone(next)),
        // Deletion had begun, and this request changes nothing about it.
        (true, false) if next.object.bytes() == entry.object.bytes() => Ok(Deleted::Waiting(next)),
        (true, false) => {
            let entry = store.update(&entry.key, entry.revision, object).await?;
            context.server.observe_own_write(&context.served, &entry, false);
            Ok(Deleted::Waiting(entry))
        }
        (false, false) => {
            let gone = store.delete(&entry.key, entry.revision).await?;
            context.server.observe_own_write(&context.served, &gone, true);
            Ok(Deleted::Gone(Entry {
                revision: gone.revision,
                ..next
            }))
        }
    }
}

/// Seconds the object is given; 0 for all kinds but pods.
fn grace(context: &Context, object: &Value, options: &DeleteOptions) -> i64 {
    let requested = options.grace_period_seconds.filter(|seconds| *seconds >= 0);
    if context.served.role == Role::Pod {
        pods::grace_seconds(object, requested)
    } else {
        0
    }
}

/// Writes deletion into the metadata. False: nothing changes, as it had begun already and no earlier end is requested.
fn begin(context: &Context, object: &mut Value, finalizers: &[String], grace: i64) -> bool {
    let begun = metadata::is_deleting(object);
    let left = metadata::number(object, "deletionGracePeriodSeconds");
    let same_finalizers = metadata::finalizers(object) == finalizers;
    if begun && same_finalizers && grace >= left && !finalizers.is_empty() {
        return false;
    }
    if begun && grace > 0 && grace >= left {
        return false;
    }
    let generation = metadata::number(object, "generation");
    let end = end_of_grace(context.now, grace);
    let Ok(metadata) = metadata::of_mut(object) else {
        return false;
    };
    metadata::set_finalizers(metadata, finalizers);
    if !begun || grace < left {
        metadata.insert("deletionTimestamp".to_owned(), Value::String(timestamp(end)));
        // Namespaces have no grace period.
        if context.served.role != Role::Namespace {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), Value::from(grace));
        }
        if !begun && generation > 0 {
            metadata.insert("generation".to_owned(), Value::from(generation + 1));
        }
    }
    true
}

fn end_of_grace(now: Timestamp, grace_seconds: i64) -> Timestamp {
    now.checked_add(SignedDuration::from_secs(grace_seconds)).unwrap_or(now)
}
