//! One turn for one ManagedResource: read, decode, plan, apply, report.

use std::sync::Arc;

use api_meta::{ConditionStatus, Fault, annotations};
use api_resources::{ManagedResource, ObjectReference};
use base_client::{add_finalizer, fault_of, is_missing, remove_finalizer};
use base_controller::{Next, ObjectKey};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::Context;
use crate::apply::{apply_all, fault_of_all, reference};
use crate::decode::{checksum, decode};
use crate::naming::{all_shown, finalizer, is_held, is_held_by_another, is_of_class, is_true, wish};
use crate::plan::{Plan, namespace_fits, plan, rank};
use crate::release::release_all;
use crate::remove::{Removed, remove_all};
use crate::report::{Report, message_of, reason, write};

pub(crate) async fn reconcile(resource: &ManagedResource, context: &Context) -> Result<Next, Fault> {
    context.waits.end(&ObjectKey::of(resource));
    let resource = &match resource.annotations().get(annotations::OPERATION).map(String::as_str) {
        Some(annotations::operation::WAIT_FOR_STATE) => return Ok(Next::Change),
        Some(annotations::operation::RECONCILE) => match take_off_operation(resource, context).await? {
            Some(resource) => resource,
            None => return Ok(Next::Change),
        },
        _ => resource.clone(),
    };
    let class = context.options.class.as_deref();
    // One that is being deleted goes with its objects, whatever else its annotations request.
    let is_deleted = resource.metadata.deletion_timestamp.is_some();
    if is_ignored(resource) && !is_deleted {
        let mut after = resource.clone();
        Report::of(&mut after, context.clock.now()).ignored();
        write(resource, after, context).await?;
        return Ok(Next::Change);
    }
    if is_deleted || !is_of_class(resource, class) {
        delete(resource, context).await
    } else if is_held_by_another(resource, class) {
        // The removal of that finalizer calls.
        Ok(Next::Change)
    } else {
        apply(resource, context).await
    }
}

/// Removes the annotation that requested this turn, so that a new request is a change again. `None`: it is gone.
async fn take_off_operation(resource: &ManagedResource, context: &Context) -> Result<Option<ManagedResource>, Fault> {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {annotations::OPERATION: null}}}));
    let (api, name) = (api(resource, context), resource.name_any());
    match api.patch(&name, &PatchParams::default(), &patch).await {
        Ok(resource) => Ok(Some(resource)),
        Err(error) if is_missing(&error) => Ok(None),
        Err(error) => Err(fault_of(error, "take off the operation annotation")),
    }
}

pub(crate) fn is_ignored(resource: &ManagedResource) -> bool {
    is_true(resource.metadata.annotations.as_ref(), wish::IGNORE)
}

fn api(resource: &ManagedResource, context: &Context) -> Api<ManagedResource> {
    Api::namespaced(
        context.source.clone(),
        resource.metadata.namespace.as_deref().unwrap_or_default(),
    )
}

async fn apply(resource: &ManagedResource, context: &Context) -> Result<Next, Fault> {
    let moved = context.identity.begin(&ObjectKey::of(resource));
    let finalizer = finalizer(context.options.class.as_deref());
    let resource = add_finalizer(&api(resource, context), resource.clone(), &finalizer).await?;
    let secrets = match read_secrets(&resource, context) {
        Ok(secrets) => secrets,
        Err(fault) => return fail(&resource, reason::CANNOT_READ_SECRET, fault, context).await,
    };
    let secrets: Vec<&Secret> = secrets.iter().map(Arc::as_ref).collect();
    let desired = match decode(&secrets) {
        Ok(desired) => desired,
        Err(error) => return fail(&resource, reason::DECODING_FAILED, error.into(), context).await,
    };
    let before = resource
        .status
        .as_ref()
        .map(|status| status.resources.clone())
        .unwrap_or_default();
    let plan = plan(desired, &before, &resource.spec.equivalences);
    let checksum = checksum(&secrets);
    let status = resource.status.as_ref();
    let known = status.is_some_and(|status| {
        status.secrets_data_checksum.as_deref() == Some(&checksum)
            && status.observed_generation == resource.metadata.generation
    });
    let resource = if known && !moved {
        resource
    } else {
        announce(resource, &plan, &before, context).await?
    };
    execute(resource, plan, &before, checksum, context).await
}

/// Writes down what is about to be applied, before it is: whatever happens then, it is known to be ours.
async fn announce(
    resource: ManagedResource,
    plan: &Plan,
    before: &[ObjectReference],
    context: &Context,
) -> Result<ManagedResource, Fault> {
    let mut after = resource.clone();
    let mut report = Report::of(&mut after, context.clock.now());
    report.applied(
        ConditionStatus::Progressing,
        reason::APPLY_PROGRESSING,
        "The resources are currently being reconciled.",
    );
    report.checks_pending();
    let mut resources: Vec<ObjectReference> = before.to_vec();
    for object in &plan.apply {
        let new = reference(object, object.namespace.clone(), &resource);
        // The namespace of one that names none is known only once its kind is.
        let known = |old: &ObjectReference| {
            old.kind == new.kind
                && old.name == new.name
                && old.api_version == new.api_version
                && namespace_fits(new.namespace.as_deref(), old.namespace.as_deref())
        };
        if !resources.iter().any(known) {
            resources.push(new);
        }
    }
    after.status.get_or_insert_default().resources = resources;
    write(&resource, after, context).await
}

async fn execute(
    resource: ManagedResource,
    plan: Plan,
    before: &[ObjectReference],
    checksum: String,
    context: &Context,
) -> Result<Next, Fault> {
    let Removed { pending, failed } = remove_all(&plan.delete, &resource, context).await;
    let unreleased = release_all(&plan.release, &resource, context).await;
    let applied = apply_all(&plan.apply, before, &resource, context).await;
    let [unapplied, release, deletion] = [&applied.failed, &unreleased, &failed].map(|all| fault_of_all(all));
    if context.stop.is_cancelled() && [&unapplied, &release, &deletion].iter().any(|fault| fault.is_some()) {
        // Where the target goes to sleep at the same time, what was applied there stays so: a failure that is written now would
        // stand until it wakes.
        return unapplied.or(release).or(deletion).map_or(Ok(Next::Change), Err);
    }
    let mut after = resource.clone();
    let status = after.status.get_or_insert_default();
    // What is still to be deleted or released stays ours until it is.
    let left = failed
        .iter()
        .chain(&unreleased)
        .map(|(reference, _)| reference)
        .chain(&pending);
    status.resources = applied.references.iter().chain(left).cloned().collect();
    status.observed_generation = resource.metadata.generation;
    status.secrets_data_checksum = Some(checksum);
    let mut report = Report::of(&mut after, context.clock.now());
    let mut failure = |reason: &str, what: &str, fault: Fault| {
        report.applied(
            ConditionStatus::False,
            reason,
            &format!("{what}: {}", message_of(&fault)),
        );
        Some(fault)
    };
    let fault = if let Some(fault) = unapplied {
        failure(reason::APPLY_FAILED, "Could not apply all new resources", fault)
    } else if let Some(fault) = release {
        failure(
            reason::RELEASE_FAILED,
            "Could not release all orphaned resources",
            fault,
        )
    } else if let Some(fault) = deletion {
        failure(reason::DELETION_FAILED, "Could not delete all old resources", fault)
    } else if !pending.is_empty() {
        let text = format!("Deletion of old resources is still pending: {}", all_shown(&pending));
        report.applied(ConditionStatus::Progressing, reason::DELETION_PENDING, &text);
        Some(Fault::dependency(text).hint("look at the finalizers of the named objects"))
    } else {
        report.applied(
            ConditionStatus::True,
            reason::APPLY_SUCCEEDED,
            "All resources are applied.",
        );
        None
    };
    write(&resource, after, context).await?;
    fault.map_or(Ok(Next::Change), Err)
}

/// Reports what prevented the apply; what is applied stays.
async fn fail(resource: &ManagedResource, why: &str, fault: Fault, context: &Context) -> Result<Next, Fault> {
    let mut after = resource.clone();
    Report::of(&mut after, context.clock.now()).applied(ConditionStatus::False, why, &message_of(&fault));
    after.status.get_or_insert_default().observed_generation = resource.metadata.generation;
    write(resource, after, context).await?;
    Err(fault)
}

fn read_secrets(resource: &ManagedResource, context: &Context) -> Result<Vec<Arc<Secret>>, Fault> {
    let namespace = resource.metadata.namespace.as_deref().unwrap_or_default();
    let read = |name: &str| {
        let found = context.secrets.get(&ObjectKey::namespaced(namespace, name));
        found.ok_or_else(|| {
            Fault::dependency(format!("secret \"{namespace}/{name}\" does not exist")).hint("create the named Secret")
        })
    };
    resource
        .spec
        .secret_refs
        .iter()
        .map(|reference| read(&reference.name))
        .collect()
}

async fn delete(resource: &ManagedResource, context: &Context) -> Result<Next, Fault> {
    let class = context.options.class.as_deref();
    if !is_held(resource, class) {
        return Ok(Next::Change);
    }
    if resource.spec.keep_objects != Some(true) {
        let mut references = resource
            .status
            .as_ref()
            .map(|status| status.resources.clone())
            .unwrap_or_default();
        references.sort_by_key(|reference| std::cmp::Reverse(rank(reference.kind.as_deref().unwrap_or_default())));
        let Removed { pending, failed } = remove_all(&references, resource, context).await;
        if let Some(fault) = not_gone(resource, pending, failed, context).await? {
            return Err(fault);
        }
    }
    let resource = match resource.metadata.deletion_timestamp {
        Some(_) => resource.clone(),
        None => hand_over(resource, context).await?,
    };
    let key = ObjectKey::of(&resource);
    remove_finalizer(&api(&resource, context), resource, &finalizer(class)).await?;
    context.identity.forget(&key);
    Ok(Next::Change)
}

/// Forgets what was applied to our target: the manager of the new class would take it for objects of its own target, and
/// delete there what has the same names.
async fn hand_over(resource: &ManagedResource, context: &Context) -> Result<ManagedResource, Fault> {
    let mut after = resource.clone();
    if let Some(status) = &mut after.status {
        status.resources.clear();
        status.secrets_data_checksum = None;
    }
    write(resource, after, context).await
}

/// Reports what is left of a ManagedResource that is being deleted.
async fn not_gone(
    resource: &ManagedResource,
    pending: Vec<ObjectReference>,
    failed: Vec<(ObjectReference, Fault)>,
    context: &Context,
) -> Result<Option<Fault>, Fault> {
    if pending.is_empty() && failed.is_empty() {
        return Ok(None);
    }
    let mut after = resource.clone();
    let left = pending
        .iter()
        .cloned()
        .chain(failed.iter().map(|(reference, _)| reference.clone()))
        .collect();
    after.status.get_or_insert_default().resources = left;
    let mut report = Report::of(&mut after, context.clock.now());
    report.deleting();
    let fault = match fault_of_all(&failed) {
        Some(fault) => {
            report.applied(
                ConditionStatus::False,
                reason::DELETION_FAILED,
                &format!("Could not delete all resources: {}", message_of(&fault)),
            );
            fault
        }
        None => {
            let text = format!("Deletion of resources is still pending: {}", all_shown(&pending));
            report.applied(ConditionStatus::Progressing, reason::DELETION_PENDING, &text);
            Fault::dependency(text).hint("look at the finalizers of the named objects")
        }
    };
    write(resource, after, context).await?;
    Ok(Some(fault))
}
