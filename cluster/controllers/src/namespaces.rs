//! Namespaces that are being deleted: everything in them is deleted, and when nothing is left they may go. It deletes
//! nothing in any other namespace. After kubernetes v1.35 `pkg/controller/namespace`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_client::{fault_of, is_conflict, is_missing, patch_status_if_changed};
use base_controller::{Controller, Next, ObjectKey};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Namespace, NamespaceCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use crate::Context;
use crate::kinds::{Kind, KindKey};

/// The entry of `spec.finalizers` that is ours.
const FINALIZER: &str = "kubernetes";
/// When the inventory has not listed everything, or objects are found that it does not know of: look again by then.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    context.inventory.start();
    let namespaces = context.caches.namespaces();
    let (inventory, cache) = (context.inventory.clone(), namespaces.clone());
    let calls = stream::unfold((inventory, cache), |(inventory, cache)| async move {
        inventory.namespaces_changed().await;
        let changed = inventory.graph().take_dirty_namespaces();
        let is_leaving = |key: &ObjectKey| cache.get(key).is_some_and(|namespace| is_ours(&namespace));
        let keys: Vec<ObjectKey> = changed.into_iter().map(ObjectKey::cluster).filter(is_leaving).collect();
        Some((stream::iter(keys), (inventory, cache)))
    });
    let controller = Controller::new("namespace", namespaces)
        .only(is_ours)
        .called_by(calls.flatten().boxed());
    controller
        .run(stop, move |namespace| reconcile(namespace, context.clone()))
        .await;
}

fn is_ours(namespace: &Namespace) -> bool {
    let finalizers = namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_ref());
    namespace.metadata.deletion_timestamp.is_some()
        && finalizers.is_some_and(|finalizers| finalizers.iter().any(|it| it == FINALIZER))
}

/// What is left in a namespace.
#[derive(Debug, Default, PartialEq, Eq)]
struct Content {
    /// Objects by kind.
    counts: BTreeMap<KindKey, usize>,
    /// Kinds with objects that are not being deleted yet.
    undeleted: BTreeSet<KindKey>,
    /// Objects that wait for a finalizer.
    finalizers: BTreeMap<String, usize>,
}

async fn reconcile(namespace: Arc<Namespace>, context: Context) -> Result<Next, Fault> {
    let name = namespace.name_any();
    let content = observe(&context, &name);
    let mut failures = Vec::new();
    for key in &content.undeleted {
        let kind = context.inventory.graph().kind(key).cloned();
        if let Some(kind) = kind
            && let Err(fault) = empty(&context, &name, &kind).await
        {
            failures.push(fault.to_string());
        }
    }
    report(&namespace, &content, &failures, &context).await?;
    if let Some(failure) = failures.first() {
        return Err(Fault::dependency(failure.clone()).hint("allow the namespace controller to delete every kind"));
    }
    if !content.counts.is_empty() {
        // Every object that goes calls again.
        return Ok(Next::Change);
    }
    if !context.inventory.graph().is_complete() {
        // In a namespace that is empty already, nothing goes and calls again.
        return Ok(Next::After(LOOK_AGAIN));
    }
    if !verify_empty(&context, &name).await? {
        return Ok(Next::After(LOOK_AGAIN));
    }
    finalize(&context, &namespace).await
}

fn observe(context: &Context, namespace: &str) -> Content {
    let mut content = Content::default();
    for item in context.inventory.graph().in_namespace(namespace) {
        *content.counts.entry(item.kind.clone()).or_default() += 1;
        if !item.deleting {
            content.undeleted.insert(item.kind.clone());
        }
        for finalizer in &item.finalizers {
            *content.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
    }
    content
}

/// Deletes all objects of a kind in the namespace.
async fn empty(context: &Context, namespace: &str, kind: &Kind) -> Result<(), Fault> {
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), namespace, &kind.resource);
    let params = DeleteParams::background();
    match api.delete_collection(&params, &ListParams::default()).await {
        Ok(_) => return Ok(()),
        Err(error) if is_missing(&error) => return Ok(()),
        // Some kinds cannot be deleted as a collection.
        Err(kube::Error::Api(status)) if status.code == 405 => {}
        Err(error) => return Err(fault_of(error, &format!("delete all {} in {namespace}", kind.key()))),
    }
    let names: Vec<String> = {
        let graph = context.inventory.graph();
        let of_kind = graph
            .in_namespace(namespace)
            .filter(|item| item.kind == kind.key() && !item.deleting);
        of_kind.map(|item| item.key.name.clone()).collect()
    };
    for name in names {
        match api.delete(&name, &params).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(fault_of(error, &format!("delete {} {namespace}/{name}", kind.key()))),
        }
    }
    Ok(())
}

/// Lists each kind from the API server itself before the namespace is finalized; events are deleted without a list.
async fn verify_empty(context: &Context, namespace: &str) -> Result<bool, Fault> {
    let events: Api<Event> = Api::namespaced(context.client.clone(), namespace);
    let params = DeleteParams::background();
    match events.delete_collection(&params, &ListParams::default()).await {
        Ok(_) => {}
        Err(error) if is_missing(&error) => {}
        Err(error) => return Err(fault_of(error, &format!("delete all events in {namespace}"))),
    }
    let kinds = context.inventory.graph().namespaced_kinds();
    let mut is_empty = true;
    for kind in kinds {
        let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), namespace, &kind.resource);
        match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(list) if list.items.is_empty() => {}
            Ok(_) => {
                is_empty = false;
                empty(context, namespace, &kind).await?;
            }
            // The kind is gone, and its objects with it.
            Err(error) if is_missing(&error) => {}
            Err(error) => return Err(fault_of(error, &format!("list {} in {namespace}", kind.key()))),
        }
    }
    Ok(is_empty)
}

async fn finalize(context: &Context, namespace: &Namespace) -> Result<Next, Fault> {
    let api: Api<Namespace> = Api::all(context.client.clone());
    let name = namespace.name_any();
    // The status may just have been written, so the newest version is read.
    let mut after = match api.get_opt(&name).await {
        Ok(Some(live)) if live.metadata.uid == namespace.metadata.uid => live,
        Ok(_) => return Ok(Next::Change),
        Err(error) => return Err(fault_of(error, &format!("read Namespace {name}"))),
    };
    if let Some(finalizers) = after.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|it| it != FINALIZER);
    }
    match api
        .replace_subresource("finalize", &name, &PostParams::default(), &after)
        .await
    {
        Ok(_) => Ok(Next::Change),
        Err(error) if is_missing(&error) || is_conflict(&error) => Ok(Next::Change),
        Err(error) => Err(fault_of(error, &format!("finalize Namespace {name}"))),
    }
}

async fn report(
    namespace: &Arc<Namespace>,
    content: &Content,
    failures: &[String],
    context: &Context,
) -> Result<(), Fault> {
    let after = with_conditions(namespace, content, failures, context.clock.now());
    let api: Api<Namespace> = Api::all(context.client.clone());
    match patch_status_if_changed(&api, &**namespace, &after).await {
        // What is left is deleted whether it is on record or not; the next change reports again.
        Err(fault) if fault.class == api_meta::FaultClass::Transient => Ok(()),
        other => other.map(drop),
    }
}

/// The namespace with what is left in it in its status.
fn with_conditions(namespace: &Namespace, content: &Content, failures: &[String], now: Timestamp) -> Namespace {
    let list = |counts: Vec<String>| counts.join(", ");
    let resources = content
        .counts
        .iter()
        .map(|(kind, count)| format!("{kind} has {count} resource instances"));
    let finalizers = content
        .finalizers
        .iter()
        .map(|(finalizer, count)| format!("{finalizer} in {count} resource instances"));
    let remaining =
        (!content.counts.is_empty()).then(|| format!("Some resources are remaining: {}", list(resources.collect())));
    let waiting = (!content.finalizers.is_empty()).then(|| {
        format!(
            "Some content in the namespace has finalizers remaining: {}",
            list(finalizers.collect())
        )
    });
    let failed = (!failures.is_empty()).then(|| {
        format!(
            "Failed to delete all resource types, {} remaining: {}",
            failures.len(),
            failures.join(", ")
        )
    });
    let mut after = namespace.clone();
    let conditions = after.status.get_or_insert_default().conditions.get_or_insert_default();
    let deleted = "All content successfully deleted, may be waiting on finalization";
    let removed = "All content successfully removed";
    let finished = "All content-preserving finalizers finished";
    for (type_, problem, reasons, fine) in [
        (
            "NamespaceDeletionContentFailure",
            failed,
            ("ContentDeletionFailed", "ContentDeleted"),
            deleted,
        ),
        (
            "NamespaceContentRemaining",
            remaining,
            ("SomeResourcesRemain", "ContentRemoved"),
            removed,
        ),
        (
            "NamespaceFinalizersRemaining",
            waiting,
            ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
            finished,
        ),
    ] {
        let (status, reason) = if problem.is_some() {
            ("True", reasons.0)
        } else {
            ("False", reasons.1)
        };
        let message = problem.unwrap_or_else(|| fine.to_owned());
        set_condition(conditions, now, (type_, status, reason, message));
    }
    after
}

/// Writes a condition: type, value, reason, message. Its time moves only when its value changes.
fn set_condition(conditions: &mut Vec<NamespaceCondition>, now: Timestamp, condition: (&str, &str, &str, String)) {
    let (type_, status, reason, message) = condition;
    let old = conditions.iter_mut().find(|condition| condition.type_ == type_);
    let since = old
        .as_ref()
        .filter(|old| old.status == status)
        .and_then(|old| old.last_transition_time.clone());
    // Kubernetes keeps whole seconds.
    let now = Time(Timestamp::from_second(now.as_second()).unwrap_or(now));
    let new = NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: since.or(Some(now)),
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn status_names_what_is_left_and_settles() {
        let namespace: Namespace = serde_json::from_value(json!({
            "metadata": {"name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "spec": {"finalizers": ["kubernetes"]},
        }))
        .unwrap();
        assert!(is_ours(&namespace));
        let kind = KindKey {
            group: "apps".into(),
            plural: "deployments".into(),
        };
        let content = Content {
            counts: [(kind, 2)].into(),
            undeleted: BTreeSet::new(),
            finalizers: [("x.dev/f".to_owned(), 1)].into(),
        };
        let now = "2026-01-01T00:00:10Z".parse().unwrap();
        let after = with_conditions(&namespace, &content, &[], now);
        let conditions = after.status.clone().unwrap().conditions.unwrap();
        let shown: Vec<_> = conditions
            .iter()
            .map(|c| (c.status.as_str(), c.message.as_deref().unwrap()))
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "False",
                    "All content successfully deleted, may be waiting on finalization"
                ),
                (
                    "True",
                    "Some resources are remaining: deployments.apps has 2 resource instances"
                ),
                (
                    "True",
                    "Some content in the namespace has finalizers remaining: x.dev/f in 1 resource instances"
                ),
            ]
        );
        assert_eq!(
            with_conditions(&after, &content, &[], "2026-01-01T01:00:00Z".parse().unwrap()),
            after
        );
    }
}
