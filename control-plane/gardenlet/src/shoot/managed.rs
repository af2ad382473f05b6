//! ManagedResources: objects that gardener-resource-manager is to apply to the shoot.

use std::collections::BTreeMap;

use api_meta::conditions::managed_resource::RESOURCES_HEALTHY;
use api_meta::{Condition, ConditionStatus, Fault, LocalObjectReference};
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_client::{WaitState, apply, delete, fault_of, is_missing, list, wait_until};
use components_hosted::shoot::{Object, object_key};
use control_plane_readiness::not_applied;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::operation::{Operation, left};
use crate::context::MANAGER;

/// Label by which gardenlet knows its own ManagedResources.
const ORIGIN: &str = "origin";
const ORIGIN_GARDENER: &str = "gardener";

/// Label of a Secret: the ManagedResource that it belongs to.
const SECRET_OF: &str = "resources.gardener.cloud/managed-resource";
/// Bytes of the checksum in a Secret's name, as in gardener/gardener v1.150 pkg/utils/kubernetes/unique.go.
const NAME_BYTES: usize = 4;

/// Applies the ManagedResource `name` with these objects. Other objects make another Secret, so that a new generation
/// of the ManagedResource shows whether they are applied.
///
/// Returns the generation that was written.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn deploy(operation: &Operation, name: &str, objects: &[Object]) -> Result<i64, Fault> {
    let data: BTreeMap<String, ByteString> = objects
        .iter()
        // JSON is YAML, and reads the same for everybody.
        .map(|object| (object_key(object), ByteString(object.to_string().into_bytes())))
        .collect();
    let secret_name = secret_name(name, &data);
    let origin = (ORIGIN.to_owned(), ORIGIN_GARDENER.to_owned());
    let metadata = |name: String, labels: BTreeMap<String, String>| ObjectMeta {
        name: Some(name),
        namespace: Some(operation.namespace().to_owned()),
        labels: Some(labels),
        ..ObjectMeta::default()
    };
    let of = (SECRET_OF.to_owned(), name.to_owned());
    let secret = Secret {
        metadata: metadata(secret_name.clone(), BTreeMap::from([origin.clone(), of])),
        data: Some(data),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    };
    let secrets = operation.here::<Secret>();
    apply(&secrets, &secret, MANAGER).await?;
    let no_cleanup = ("shoot.gardener.cloud/no-cleanup".to_owned(), "true".to_owned());
    let resource = ManagedResource {
        metadata: metadata(name.to_owned(), BTreeMap::from([origin])),
        spec: ManagedResourceSpec {
            secret_refs: vec![LocalObjectReference { name: secret_name }],
            inject_labels: BTreeMap::from([no_cleanup]),
            keep_objects: Some(false),
            ..ManagedResourceSpec::default()
        },
        status: None,
    };
    let written = apply(&operation.here::<ManagedResource>(), &resource, MANAGER).await?;
    // Until it is applied, the resource manager may still read the Secret from before.
    if not_applied(&written).is_none() {
        drop_old_secrets(&secrets, &written).await?;
    }
    Ok(written.metadata.generation.unwrap_or_default())
}

fn secret_name(name: &str, data: &BTreeMap<String, ByteString>) -> String {
    let mut hash = Sha256::new();
    for part in data.iter().flat_map(|(key, bytes)| [key.as_bytes(), &bytes.0]) {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let sum: String = hash
        .finalize()
        .iter()
        .take(NAME_BYTES)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("managedresource-{name}-{sum}")
}

async fn drop_old_secrets(api: &Api<Secret>, resource: &ManagedResource) -> Result<(), Fault> {
    for secret in list(api, &format!("{SECRET_OF}={}", resource.name_any())).await? {
        let name = secret.name_any();
        if !resource.spec.secret_refs.iter().any(|reference| reference.name == name) {
            delete(api, &name).await?;
        }
    }
    Ok(())
}

/// Waits until the ManagedResource has been applied in the generation that was `written`, or a later one.
///
/// # Errors
/// A dependency fault with what the resource manager reports.
pub(crate) async fn wait_applied(
    operation: &Operation,
    name: &str,
    written: i64,
    deadline: Option<Instant>,
) -> Result<(), Fault> {
    let cache = &operation.context.seed_caches.managed_resources;
    let why_not = |resource: &ManagedResource| why_not_applied(resource, written);
    operation.wait_for(cache, name, deadline, why_not).await
}

/// As [`wait_applied`], and until what was applied is reported as healthy.
///
/// # Errors
/// As [`wait_applied`].
pub(crate) async fn wait_healthy(
    operation: &Operation,
    name: &str,
    written: i64,
    deadline: Option<Instant>,
) -> Result<(), Fault> {
    let cache = &operation.context.seed_caches.managed_resources;
    let why_not = |resource: &ManagedResource| why_not_applied(resource, written).or_else(|| not_healthy(resource));
    operation.wait_for(cache, name, deadline, why_not).await
}

fn why_not_applied(resource: &ManagedResource, written: i64) -> Option<String> {
    match resource.metadata.generation.unwrap_or_default() < written {
        true => Some("its newest form is not visible yet".to_owned()),
        false => not_applied(resource),
    }
}

fn not_healthy(resource: &ManagedResource) -> Option<String> {
    let status = resource.status.as_ref();
    match status.and_then(|status| Condition::find(&status.conditions, RESOURCES_HEALTHY)) {
        None => Some("its health is not known yet".to_owned()),
        Some(condition) if condition.status == ConditionStatus::True => None,
        Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
    }
}

/// Requests the deletion of our own ManagedResources.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn delete_own(operation: &Operation) -> Result<(), Fault> {
    let api = operation.here::<ManagedResource>();
    for resource in list(&api, &format!("{ORIGIN}={ORIGIN_GARDENER}")).await? {
        delete(&api, &resource.name_any()).await?;
    }
    Ok(())
}

/// Waits until no ManagedResource for the shoot is left: ours only, or everybody's.
///
/// # Errors
/// A dependency fault naming what is left.
pub(crate) async fn wait_gone(operation: &Operation, ours_only: bool, deadline: Option<Instant>) -> Result<(), Fault> {
    let api = operation.here::<ManagedResource>();
    let selector = if ours_only {
        format!("{ORIGIN}={ORIGIN_GARDENER}")
    } else {
        String::new()
    };
    for resource in list(&api, &selector).await? {
        if resource.spec.class.as_deref().unwrap_or_default().is_empty() {
            gone(&api, &resource.name_any(), deadline).await?;
        }
    }
    // Their Secrets are obsolete once nothing is left to delete.
    let secrets = operation.here::<Secret>();
    for secret in list(&secrets, &format!("{ORIGIN}={ORIGIN_GARDENER}")).await? {
        delete(&secrets, &secret.name_any()).await?;
    }
    Ok(())
}

/// Requests the deletion of one, after that of its Secrets: as long as it is there, an operation that was cut off is found to
/// have left something. It names none of them by then; for a moment it may report that it is applied and healthy with nothing in
/// it, or that a Secret is missing. What it has applied is in its status, by which it is removed.
///
/// # Errors
/// What the API server returns.
pub(crate) async fn destroy(operation: &Operation, name: &str) -> Result<(), Fault> {
    let api = operation.here::<ManagedResource>();
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let nothing = Patch::Merge(json!({"spec": {"secretRefs": []}}));
    match api.patch(name, &params, &nothing).await {
        Err(error) if !is_missing(&error) => return Err(fault_of(error, &format!("empty ManagedResource {name}"))),
        _ => {}
    }
    let secrets = operation.here::<Secret>();
    for secret in list(&secrets, &format!("{SECRET_OF}={name}")).await? {
        delete(&secrets, &secret.name_any()).await?;
    }
    delete(&api, name).await
}

/// Waits until one is gone.
///
/// # Errors
/// A dependency fault naming it.
pub(crate) async fn wait_destroyed(operation: &Operation, name: &str, deadline: Option<Instant>) -> Result<(), Fault> {
    gone(&operation.here::<ManagedResource>(), name, deadline).await
}

async fn gone(api: &Api<ManagedResource>, name: &str, deadline: Option<Instant>) -> Result<(), Fault> {
    let check = |resource: Option<&ManagedResource>| match resource {
        None => WaitState::Done(()),
        Some(resource) => WaitState::NotYet(
            not_applied(resource)
                .unwrap_or_else(|| "gardener-resource-manager has not deleted its objects yet".to_owned()),
        ),
    };
    wait_until(api, name, left(deadline), check).await.map_err(Fault::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_objects_make_another_secret_and_the_same_ones_the_same() {
        let name = |key: &str, bytes: &str| {
            let data = BTreeMap::from([(key.to_owned(), ByteString(bytes.as_bytes().to_vec()))]);
            secret_name("system", &data)
        };
        assert_eq!(name("ab", "c"), name("ab", "c"));
        assert_ne!(name("ab", "c"), name("a", "bc"));
        assert!(name("ab", "c").starts_with("managedresource-system-"));
    }
}
