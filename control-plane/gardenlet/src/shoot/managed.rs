//! ManagedResources: objects that gardener-resource-manager is to apply to the shoot.

use std::collections::BTreeMap;

use api_meta::{Fault, LocalObjectReference, conditions};
use api_resources::{ManagedResource, ManagedResourceSpec};
use base_client::{Judgement, apply, delete, list, wait_until};
use components_hosted::shoot::{Object, object_key};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, ResourceExt};
use tokio::time::Instant;

use super::operation::{Operation, left};
use crate::context::MANAGER;

/// Label by which gardenlet knows its own ManagedResources.
const ORIGIN: &str = "origin";
const ORIGIN_GARDENER: &str = "gardener";

/// Applies the ManagedResource `name` with these objects.
///
/// # Errors
/// What the API server says.
pub(crate) async fn deploy(operation: &Operation, name: &str, objects: &[Object]) -> Result<(), Fault> {
    let secret_name = format!("managedresource-{name}");
    let data: BTreeMap<String, ByteString> = objects
        .iter()
        // JSON is YAML, and reads the same for everybody.
        .map(|object| (object_key(object), ByteString(object.to_string().into_bytes())))
        .collect();
    let metadata = |name: String| ObjectMeta {
        name: Some(name),
        namespace: Some(operation.namespace().to_owned()),
        labels: Some(BTreeMap::from([(ORIGIN.to_owned(), ORIGIN_GARDENER.to_owned())])),
        ..ObjectMeta::default()
    };
    let secret = Secret {
        metadata: metadata(secret_name.clone()),
        data: Some(data),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    };
    apply(&operation.here::<Secret>(), &secret, MANAGER).await?;
    let no_cleanup = ("shoot.gardener.cloud/no-cleanup".to_owned(), "true".to_owned());
    let resource = ManagedResource {
        metadata: metadata(name.to_owned()),
        spec: ManagedResourceSpec {
            secret_refs: vec![LocalObjectReference { name: secret_name }],
            inject_labels: BTreeMap::from([no_cleanup]),
            keep_objects: Some(false),
            ..ManagedResourceSpec::default()
        },
        status: None,
    };
    apply(&operation.here::<ManagedResource>(), &resource, MANAGER)
        .await
        .map(drop)
}

/// Waits until the ManagedResource has been applied as it is now.
///
/// # Errors
/// A dependency fault with what the resource manager says.
pub(crate) async fn wait_applied(operation: &Operation, name: &str, deadline: Option<Instant>) -> Result<(), Fault> {
    operation
        .wait_for(
            &operation.context.seed_caches.managed_resources,
            name,
            deadline,
            not_applied,
        )
        .await
}

/// Why a ManagedResource has not been applied in its present form.
#[must_use]
pub(crate) fn not_applied(resource: &ManagedResource) -> Option<String> {
    let status = resource.status.clone().unwrap_or_default();
    if status.observed_generation != resource.metadata.generation {
        return Some("gardener-resource-manager has not seen its newest form yet".to_owned());
    }
    let applied = api_meta::Condition::find(&status.conditions, conditions::managed_resource::RESOURCES_APPLIED);
    match applied {
        Some(condition) if condition.status == api_meta::ConditionStatus::True => None,
        Some(condition) => Some(format!("{}: {}", condition.reason, condition.message)),
        None => Some("gardener-resource-manager has not applied it yet".to_owned()),
    }
}

/// Asks for the deletion of our own ManagedResources.
///
/// # Errors
/// What the API server says.
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
    // Their Secrets have done their part once nothing is left to take away.
    let secrets = operation.here::<Secret>();
    for secret in list(&secrets, &format!("{ORIGIN}={ORIGIN_GARDENER}")).await? {
        delete(&secrets, &secret.name_any()).await?;
    }
    Ok(())
}

async fn gone(api: &Api<ManagedResource>, name: &str, deadline: Option<Instant>) -> Result<(), Fault> {
    let judge = |resource: Option<&ManagedResource>| match resource {
        None => Judgement::Done(()),
        Some(resource) => Judgement::NotYet(
            not_applied(resource)
                .unwrap_or_else(|| "gardener-resource-manager has not deleted its objects yet".to_owned()),
        ),
    };
    wait_until(api, name, left(deadline), judge).await.map_err(Fault::from)
}
