//! Whose an object of the target is: that of the ManagedResource which its origin names, as long as that one wants it.
//! Two that want the same object would overwrite each other without end, and the first to go would take it from the
//! other; upstream lets them. Another writer that overwrites the origin of an object does not take it from us. Pure but
//! for the cache that is read.

use api_meta::Fault;
use api_meta::names::extension_namespace;
use api_resources::{ManagedResource, ObjectReference};
use components_seed::STAND_IN;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::FieldsV1;
use kube::ResourceExt;
use kube::core::DynamicObject;

use crate::Context;
use crate::decode::Desired;
use crate::naming::{MANAGER, ORIGIN, group_of, origin, resource_of_origin};
use crate::plan::{namespace_fits, same_kind};

/// Class of what is applied to the seed.
const CLASS_SEED: &str = "seed";
/// Field manager of gardenlet.
const GARDENLET: &str = "gardenlet";
/// On the roles and bindings that an API server keeps.
const BOOTSTRAPPING: &str = "kubernetes.io/bootstrapping";
/// Every cluster has them.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Refuses an object that belongs to another ManagedResource. `before` is what this one has applied before.
pub(crate) fn refuse_others(
    live: &DynamicObject,
    object: &Desired,
    before: &[ObjectReference],
    resource: &ManagedResource,
    context: &Context,
) -> Result<(), Fault> {
    let cluster_id = &context.options.cluster_id;
    if is_of_cluster(live, resource) {
        let fault =
            Fault::dependency("it belongs to the cluster itself: a chart would change it, and delete it when it goes");
        return Err(fault.hint("take the named object out of the chart, or give it another name"));
    }
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

/// Whether an object of a seed that no ManagedResource has applied is part of the seed itself: a namespace of the system, a
/// role that its API server keeps, or whatever gardenlet has written there, such as kinds, the namespaces of shoots and
/// the rights of this manager. Upstream adopts these too.
pub(crate) fn is_of_cluster(live: &DynamicObject, resource: &ManagedResource) -> bool {
    let is_adoptable = resource.spec.class.as_deref() != Some(CLASS_SEED)
        || live.metadata.namespace.is_some()
        || live.annotations().contains_key(ORIGIN)
        // The owner of the real definition may take it.
        || live.labels().contains_key(STAND_IN);
    if is_adoptable {
        return false;
    }
    let is_namespace = live
        .types
        .as_ref()
        .is_some_and(|types| types.kind == "Namespace" && types.api_version == "v1");
    let name = live.name_any();
    if is_namespace && name == extension_namespace(&resource.name_any()) {
        // That of the installation itself goes with it anyway.
        return false;
    }
    let mut managers = live.metadata.managed_fields.iter().flatten();
    is_namespace && SYSTEM_NAMESPACES.contains(&name.as_str())
        || live.labels().contains_key(BOOTSTRAPPING)
        || managers.any(|entry| entry.manager.as_deref() == Some(GARDENLET))
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

/// Whether the origin was overwritten by a client that is no resource manager: one has applied the object, and the
/// client that changed that annotation took it over from the manager.
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn charts_adopt_nothing_that_belongs_to_the_seed_itself() {
        let resource = |class: &str| {
            let mut resource = ManagedResource::default();
            resource.metadata.name = Some("moon".to_owned());
            resource.spec.class = Some(class.to_owned());
            resource
        };
        let of_gardenlet = json!([{"manager": "gardenlet", "operation": "Apply"}]);
        let object = |kind: &str, metadata: Value| -> DynamicObject {
            let version = if kind == "Namespace" {
                "v1"
            } else {
                "rbac.authorization.k8s.io/v1"
            };
            serde_json::from_value(json!({"apiVersion": version, "kind": kind, "metadata": metadata})).unwrap()
        };
        let labelled = json!({"name": "cluster-admin", "labels": {BOOTSTRAPPING: "rbac-defaults"}});
        for (kind, metadata, expected) in [
            ("Namespace", json!({"name": "kube-system"}), true),
            (
                "Namespace",
                json!({"name": "shoot--a--b", "managedFields": of_gardenlet}),
                true,
            ),
            (
                "Namespace",
                json!({"name": "extension-other", "managedFields": of_gardenlet}),
                true,
            ),
            (
                "Namespace",
                json!({"name": "extension-moon", "managedFields": of_gardenlet}),
                false,
            ),
            ("Namespace", json!({"name": "mine"}), false),
            ("ClusterRole", labelled.clone(), true),
            (
                "Kind",
                json!({"name": "k", "managedFields": of_gardenlet, "labels": {STAND_IN: "true"}}),
                false,
            ),
            (
                "ClusterRole",
                json!({"name": "r", "managedFields": of_gardenlet, "annotations": {ORIGIN: "x"}}),
                false,
            ),
            (
                "Role",
                json!({"name": "r", "namespace": "garden", "managedFields": of_gardenlet}),
                false,
            ),
        ] {
            let object = object(kind, metadata);
            assert_eq!(is_of_cluster(&object, &resource("seed")), expected, "{object:?}");
        }
        assert!(
            !is_of_cluster(&object("ClusterRole", labelled), &resource("")),
            "a shoot's core is applied there"
        );
    }
}
