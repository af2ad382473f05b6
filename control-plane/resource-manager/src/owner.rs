//! Whose an object of the target is: that of the ManagedResource which its origin names, as long as that one wants it.
//! Two that want the same object would overwrite each other without end, and the first to go would take it from the
//! other; upstream lets them. Whoever else writes over the origin of an object does not get it out of our hands. Pure but
//! for the mirror that is asked.

use api_meta::Fault;
use api_resources::{ManagedResource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
use kube::ResourceExt;
use kube::core::DynamicObject;

use crate::Context;
use crate::decode::Desired;
use crate::naming::{MANAGER, ORIGIN, group_of, origin, resource_of_origin};
use crate::plan::{namespace_fits, same_kind};

/// Refuses an object that belongs to another ManagedResource. `before` is what this one has applied before.
pub(crate) fn refuse_others(
    live: &DynamicObject,
    object: &Desired,
    before: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Result<(), Fault> {
    let cluster_id = &context.options.cluster_id;
    let Some(named) = live
        .annotations()
        .get(ORIGIN)
        .filter(|named| **named != origin(cluster_id, resource))
    else {
        return Ok(());
    };
    let belongs =
        |owner: String, hint: &str| Err(Fault::dependency(format!("it belongs to ManagedResource {owner}")).hint(hint));
    match resource_of_origin(cluster_id, named) {
        None if is_overwritten(live) && lists(before, object, live, resource) => Ok(()),
        None => belongs(
            format!("\"{named}\" of another source"),
            "remove it here, or take the annotation resources.gardener.cloud/origin from the named object",
        ),
        Some(key) => match context.resources.get(&key) {
            Some(other) if wants(&other, object, live) => belongs(
                format!("\"{key}\""),
                "remove the named object from one of the two ManagedResources",
            ),
            _ => Ok(()),
        },
    }
}

/// Whether the ManagedResource has applied the object and has not given it up.
fn wants(other: &ManagedResource, object: &Desired, live: &DynamicObject) -> bool {
    let status = other.status.as_ref();
    let applied = status.map(|status| status.resources.as_slice()).unwrap_or_default();
    other.metadata.deletion_timestamp.is_none() && lists(applied, object, live, other)
}

/// Whether the object is among those that the ManagedResource has applied.
fn lists(applied: &[ObjectReference], object: &Desired, live: &DynamicObject, resource: &ManagedResource) -> bool {
    applied.iter().any(|reference| {
        reference.name == live.metadata.name
            && namespace_fits(reference.namespace.as_deref(), live.metadata.namespace.as_deref())
            && same_kind(
                (&object.group, &object.kind),
                (&group_of(reference), reference.kind.as_deref().unwrap_or_default()),
                &resource.spec.equivalences,
            )
    })
}

/// Whether the origin was written over by a client that is no resource manager: one has applied the object, and whoever
/// changed that annotation took it over from the manager.
fn is_overwritten(live: &DynamicObject) -> bool {
    let is_origin = |fields: &FieldsV1| {
        let annotations = fields.0.pointer("/f:metadata/f:annotations");
        annotations.is_some_and(|annotations| annotations.get(format!("f:{ORIGIN}")).is_some())
    };
    let managers = live.metadata.managed_fields.iter().flatten();
    let mut managers = managers
        .filter(|entry| entry.manager.as_deref() == Some(MANAGER))
        .peekable();
    managers.peek().is_some() && !managers.any(|entry| entry.fields_v1.as_ref().is_some_and(is_origin))
}
