//! Lets go of objects that are to be left alone from now on: takes our name off them. Never changes anything else.

use api_meta::Fault;
use api_resources::{ManagedResource, ObjectReference};
use base_client::{fault_of, is_missing};
use base_controller::ObjectKey;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use crate::Context;
use crate::naming::{DESCRIPTION, ORIGIN, origin};

/// Releases all; what could not be, and why.
pub(crate) async fn release_all(
    references: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Vec<(ObjectReference, Fault)> {
    let mut failed = Vec::new();
    for reference in references {
        if let Err(fault) = release_one(reference, resource, context).await {
            failed.push((reference.clone(), fault));
        }
    }
    failed
}

async fn release_one(reference: &ObjectReference, resource: &ManagedResource, context: &Context) -> Result<(), Fault> {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let (version, kind, name) = (
        text(&reference.api_version),
        text(&reference.kind),
        text(&reference.name),
    );
    let Some(served) = context.kinds.find(&version, &kind).await? else {
        return Ok(());
    };
    let key = ObjectKey {
        namespace: served.namespace(reference.namespace.as_deref()),
        name: name.clone(),
    };
    (context.drifts).forget(&version, &kind, &key, &ObjectKey::of(resource));
    let api = context.kinds.api(&served, key.namespace.as_deref());
    let live = api.get_opt(&name).await.map_err(|error| {
        // Not the object is missing, but its resource.
        if is_missing(&error) {
            context.kinds.forget(&version, &kind);
        }
        fault_of(error, "read it")
    })?;
    let own = origin(&context.options.cluster_id, resource);
    if live.is_none_or(|live| live.annotations().get(ORIGIN) != Some(&own)) {
        return Ok(());
    }
    let nameless = json!({"metadata": {"annotations": {ORIGIN: null, DESCRIPTION: null}}});
    match api.patch(&name, &PatchParams::default(), &Patch::Merge(nameless)).await {
        Err(error) if !is_missing(&error) => Err(fault_of(error, "release it")),
        _ => Ok(()),
    }
}
