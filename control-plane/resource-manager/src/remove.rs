//! Takes objects back from the target. Never deletes an object that asks to be kept or whose origin is another
//! ManagedResource by now.

use std::time::Duration;

use api_meta::Fault;
use api_resources::{ManagedResource, ObjectReference};
use base_client::{fault_of, is_missing};
use base_controller::ObjectKey;
use kube::api::{DeleteParams, Preconditions};
use kube::core::DynamicObject;
use kube::runtime::wait::{await_condition, conditions::is_deleted};
use kube::{Api, ResourceExt};

use crate::Context;
use crate::naming::{ORIGIN, group_of, origin, wish, wishes};

/// How long one turn waits for deleted objects to be gone before it reports what it waits for.
const GONE_TIMEOUT: Duration = Duration::from_secs(10);

/// What came of it.
#[derive(Debug, Default)]
pub(crate) struct Removed {
    /// Asked to be deleted, but still there.
    pub(crate) pending: Vec<ObjectReference>,
    /// What could not be deleted, and why.
    pub(crate) failed: Vec<(ObjectReference, Fault)>,
}

/// Deletes all in the given order, then waits a little for them to be gone.
pub(crate) async fn remove_all(
    references: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Removed {
    let (mut removed, mut waiting) = (Removed::default(), Vec::new());
    for reference in references {
        match remove_one(reference, resource, context).await {
            Ok(Some((api, uid))) => waiting.push((reference, api, uid)),
            Ok(None) => {}
            Err(fault) => removed.failed.push((reference.clone(), fault)),
        }
    }
    let deadline = tokio::time::Instant::now() + GONE_TIMEOUT;
    for (reference, api, uid) in waiting {
        let name = reference.name.clone().unwrap_or_default();
        let gone = await_condition(api, &name, is_deleted(&uid));
        if !matches!(tokio::time::timeout_at(deadline, gone).await, Ok(Ok(_))) {
            removed.pending.push(reference.clone());
        }
    }
    removed
}

/// Asks for one to be deleted; what to wait for, if anything.
async fn remove_one(
    reference: &ObjectReference,
    resource: &ManagedResource,
    context: &Context,
) -> Result<Option<(Api<DynamicObject>, String)>, Fault> {
    let (version, kind) = (
        reference.api_version.as_deref().unwrap_or_default(),
        reference.kind.as_deref().unwrap_or_default(),
    );
    let name = reference.name.as_deref().unwrap_or_default();
    let key = ObjectKey {
        namespace: reference.namespace.clone(),
        name: name.to_owned(),
    };
    // Kept, deleted or gone: what becomes of it is no drift.
    (context.drifts).forget(version, kind, &key, &ObjectKey::of(resource));
    // A kind that is no longer served has no objects.
    let Some(served) = context.kinds.find(version, kind).await? else {
        return Ok(None);
    };
    let api = context.kinds.api(&served, reference.namespace.as_deref());
    let live = match api.get_opt(name).await {
        Ok(Some(live)) => live,
        Ok(None) => return Ok(None),
        Err(error) => return Err(fault_of(error, "read it")),
    };
    let own = live
        .annotations()
        .get(ORIGIN)
        .is_none_or(|other| *other == origin(&context.options.cluster_id, resource));
    if !own || wishes(&live, wish::KEEP_OBJECT) {
        return Ok(None);
    }
    let uid = live.uid().unwrap_or_default();
    if live.metadata.deletion_timestamp.is_none() {
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
    Ok(Some((api, uid)))
}

/// Workloads go after their pods; everything else at once.
fn propagation(reference: &ObjectReference) -> DeleteParams {
    match group_of(reference).as_str() {
        "apps" | "extensions" | "batch" => DeleteParams::foreground(),
        _ => DeleteParams::background(),
    }
}
