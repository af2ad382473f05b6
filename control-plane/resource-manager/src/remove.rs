//! Takes objects back from the target. Never deletes an object that is annotated to stay or whose origin is another
//! ManagedResource by now.

use api_meta::{Fault, GoDuration};
use api_resources::{ManagedResource, ObjectReference};
use base_client::{delete, fault_of, is_missing};
use base_controller::ObjectKey;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::Context;
use crate::naming::{ORIGIN, group_of, is_collectable, is_true, origin, wish};
use crate::owner::is_of_cluster;
use crate::prepare::object_at;
use crate::waits::Going;

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Its deletion is requested, but it still exists.
    pub(crate) pending: Vec<ObjectReference>,
    /// What could not be deleted, and why.
    pub(crate) failed: Vec<(ObjectReference, Fault)>,
}

/// Deletes all in the given order. Those that are not gone at once call for the ManagedResource when they are.
pub(crate) async fn remove_all(
    references: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Removed {
    let (mut removed, mut deleted, mut left) = (Removed::default(), Vec::new(), Vec::new());
    for reference in references {
        match remove_one(reference, resource, context).await {
            Ok(Some(going)) => deleted.push((reference, going)),
            Ok(None) => {}
            Err(fault) => removed.failed.push((reference.clone(), fault)),
        }
    }
    for (reference, going) in deleted {
        // An unreadable one may still be there.
        let found = going.api.get_opt(&going.name).await;
        if !found.is_ok_and(|live| live.is_none_or(|live| live.uid().as_ref() != Some(&going.uid))) {
            removed.pending.push(reference.clone());
            left.push(going);
        }
    }
    if !left.is_empty() {
        context.waits.start(ObjectKey::of(resource), left);
    }
    removed
}

/// Requests the deletion of one; returns what to wait for, if anything.
async fn remove_one(
    reference: &ObjectReference,
    resource: &ManagedResource,
    context: &Context,
) -> Result<Option<Going>, Fault> {
    let (version, kind) = (
        reference.api_version.as_deref().unwrap_or_default(),
        reference.kind.as_deref().unwrap_or_default(),
    );
    let name = reference.name.as_deref().unwrap_or_default();
    let served = context.kinds.find(version, kind).await?;
    let key = ObjectKey {
        namespace: match &served {
            Some(served) => served.namespace(reference.namespace.as_deref()),
            None => reference.namespace.clone(),
        },
        name: name.to_owned(),
    };
    // Retained, deleted or gone: what becomes of it is no drift.
    (context.drifts).forget(version, kind, &key, &ObjectKey::of(resource));
    // A kind that is no longer served has no objects.
    let Some(served) = served else {
        return Ok(None);
    };
    let api = context.kinds.api(&served, key.namespace.as_deref());
    let live = match api.get_opt(name).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(None),
        Err(error) => {
            // Not the object is missing, but its resource.
            if is_missing(&error) {
                context.kinds.forget(version, kind);
            }
            return Err(fault_of(error, "read it"));
        }
    };
    if stays(&live, reference, resource, context) {
        return Ok(None);
    }
    if resource.spec.delete_persistent_volume_claims == Some(true) {
        remove_claims(&live, reference, key.namespace.as_deref(), context).await?;
    }
    let uid = live.uid().unwrap_or_default();
    if live.metadata.deletion_timestamp.is_some() {
        finalize(&api, &live, reference, context).await?;
    } else {
        let preconditions = Preconditions {
            uid: Some(uid.clone()),
            resource_version: None,
        };
        match api
            .delete(name, &propagation(reference).preconditions(preconditions))
            .await
        {
            Ok(_) => {}
            Err(error) if is_missing(&error) => return Ok(None),
            Err(error) => return Err(fault_of(error, "delete it")),
        }
    }
    let name = name.to_owned();
    Ok(Some(Going { api, name, uid }))
}

/// Whether an object is not ours to delete: another's, one that is annotated to stay, or one that is garbage collected.
fn stays(live: &DynamicObject, reference: &ObjectReference, resource: &ManagedResource, context: &Context) -> bool {
    let own = live
        .annotations()
        .get(ORIGIN)
        .is_none_or(|other| *other == origin(&context.options.cluster_id, resource));
    let is_collected = context.options.garbage_collection && is_collectable(live, reference);
    let is_retained = is_true(live.metadata.annotations.as_ref(), wish::KEEP_OBJECT);
    !own || is_of_cluster(live, resource) || is_retained || is_collected
}

/// Requests the deletion of a StatefulSet's volume claims. They carry the labels of its selector, and names of a
/// template, the set and an ordinal.
async fn remove_claims(
    live: &DynamicObject,
    reference: &ObjectReference,
    namespace: Option<&str>,
    context: &Context,
) -> Result<(), Fault> {
    if reference.kind.as_deref() != Some("StatefulSet") || !matches!(&*group_of(reference), "apps" | "extensions") {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let templates = live
        .data
        .pointer("/spec/volumeClaimTemplates")
        .and_then(Value::as_array);
    let names = templates
        .into_iter()
        .flatten()
        .filter_map(|template| text(template.pointer("/metadata/name")?));
    let prefixes: Vec<String> = names.map(|name| format!("{name}-{}-", live.name_any())).collect();
    let labels = live
        .data
        .pointer("/spec/selector/matchLabels")
        .and_then(Value::as_object);
    let selector: Vec<String> = labels
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    if prefixes.is_empty() || selector.is_empty() {
        return Ok(());
    }
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(context.target.clone(), namespace.unwrap_or_default());
    let found = claims.list(&ListParams::default().labels(&selector.join(","))).await;
    for claim in found.map_err(|error| fault_of(error, "list its volume claims"))? {
        let name = claim.name_any();
        // Behind the prefix is the ordinal of a pod; the claims of a set with a longer name have more there.
        let is_ordinal = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        let is_its_own = |prefix: &String| name.strip_prefix(prefix.as_str()).is_some_and(is_ordinal);
        if claim.metadata.deletion_timestamp.is_none() && prefixes.iter().any(is_its_own) {
            delete(&claims, &name).await?;
        }
    }
    Ok(())
}

/// Takes off all finalizers of an object that has been going for longer than its annotation allows.
async fn finalize(
    api: &Api<DynamicObject>,
    live: &DynamicObject,
    reference: &ObjectReference,
    context: &Context,
) -> Result<(), Fault> {
    let Some(text) = live.annotations().get(wish::FINALIZE_DELETION_AFTER) else {
        return Ok(());
    };
    let grace: GoDuration = text.parse().map_err(|_| {
        let what = format!("annotation {} is no duration such as 1h", wish::FINALIZE_DELETION_AFTER);
        Fault::user(what).hint("correct the named annotation")
    })?;
    let going = live
        .metadata
        .deletion_timestamp
        .as_ref()
        .map(|since| context.clock.since(since.0));
    if grace.as_nanos() <= 0 || going.is_none_or(|going| going < grace.to_std()) {
        return Ok(());
    }
    let (name, params) = (live.name_any(), PatchParams::default());
    let is_namespace = reference.kind.as_deref() == Some("Namespace") && group_of(reference).is_empty();
    if is_namespace {
        // Namespaces have finalizers of their own, behind a subresource.
        let mut without = live.clone();
        if let Some(spec) = object_at(&mut without.data, &["spec"]) {
            spec.insert("finalizers".to_owned(), json!([]));
        }
        let done = api
            .replace_subresource("finalize", &name, &PostParams::default(), &without)
            .await;
        done.map_err(|error| fault_of(error, "take off its finalizers"))?;
    }
    if live.finalizers().is_empty() {
        return Ok(());
    }
    let patch = json!({"metadata": {"finalizers": null}});
    match api.patch(&name, &params, &Patch::Merge(patch)).await {
        Err(error) if !is_missing(&error) => Err(fault_of(error, "take off its finalizers")),
        _ => Ok(()),
    }
}

/// Workloads go after their pods; everything else at once.
fn propagation(reference: &ObjectReference) -> DeleteParams {
    match group_of(reference).as_str() {
        "apps" | "extensions" | "batch" => DeleteParams::foreground(),
        _ => DeleteParams::background(),
    }
}
