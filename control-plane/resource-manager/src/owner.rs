//! Whose an object of the target is: that of the ManagedResource which its origin names, as long as that one wants it.
//! Two that want the same object would overwrite each other without end, and the first to go would take it from the
//! other; upstream lets them. Pure but for the mirror that is asked.

use api_meta::Fault;
use api_resources::{ManagedResource, ObjectReference};
use kube::ResourceExt;
use kube::core::DynamicObject;

use crate::Context;
use crate::decode::Desired;
use crate::naming::{ORIGIN, group_of, origin, resource_of_origin};
use crate::plan::{namespace_fits, same_kind};

/// Refuses an object that belongs to another ManagedResource.
pub(crate) fn refuse_others(
    live: &DynamicObject,
    object: &Desired,
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
    let is_it = |reference: &ObjectReference| {
        reference.name == live.metadata.name
            && namespace_fits(reference.namespace.as_deref(), live.metadata.namespace.as_deref())
            && same_kind(
                (&object.group, &object.kind),
                (&group_of(reference), reference.kind.as_deref().unwrap_or_default()),
                &other.spec.equivalences,
            )
    };
    let applied = other
        .status
        .as_ref()
        .map(|status| status.resources.as_slice())
        .unwrap_or_default();
    other.metadata.deletion_timestamp.is_none() && applied.iter().any(is_it)
}
