//! Writes what is planned into the seed: namespace, access to the garden, objects. Never decides, and writes no status.

use api_meta::{Fault, annotations, names};
use api_resources::ManagedResource;
use base_client::{apply as apply_object, create_or_get, delete, fault_of};
use base_controller::ObjectKey;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::access::{ACCESS_SECRET, Access};
use super::plan::Wanted;
use super::resources::Made;
use crate::context::{Context, MANAGER};

/// Writes.
///
/// # Errors
/// What the seed's API server returns.
pub(crate) async fn apply(context: &Context, wanted: &Wanted, made: &Made) -> Result<(), Fault> {
    let inside = wanted.namespace.name_any();
    apply_object(&Api::<Namespace>::all(context.seed.clone()), &wanted.namespace, MANAGER).await?;
    let secrets = context.in_seed::<Secret>(&inside);
    match &wanted.access {
        Some(Access { kubeconfig, token }) => {
            apply_object(&secrets, kubeconfig, MANAGER).await?;
            apply_object(&secrets, token, MANAGER).await?;
        }
        // With it the token requestor takes the service account away.
        None => delete(&secrets, ACCESS_SECRET).await?,
    }
    let Made {
        secret,
        managed_resource,
    } = made;
    let data = context.in_seed::<Secret>(names::GARDEN_NAMESPACE);
    create_or_get(&data, secret).await?;
    mark_as_last(context, &data, secret, managed_resource).await?;
    let resources = context.in_seed::<ManagedResource>(names::GARDEN_NAMESPACE);
    apply_object(&resources, managed_resource, MANAGER).await?;
    Ok(())
}

/// Makes the Secret newer than the one that the ManagedResource refers to now: one from before that is used again, as when
/// a change is taken back, is older, and what is newer than the one in use is retained.
async fn mark_as_last(
    context: &Context,
    data: &Api<Secret>,
    secret: &Secret,
    managed_resource: &ManagedResource,
) -> Result<(), Fault> {
    let key = ObjectKey::namespaced(names::GARDEN_NAMESPACE, managed_resource.name_any());
    let name = secret.name_any();
    let Some(present) = context.seed_caches.managed_resources.get(&key) else {
        return Ok(());
    };
    if present.spec.secret_refs.iter().any(|reference| reference.name == name) {
        return Ok(());
    }
    let generation = present.metadata.generation.unwrap_or_default().to_string();
    let patch = json!({"metadata": {"annotations": {annotations::INSTALLATION_REPLACES: generation}}});
    data.patch_metadata(&name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .map_err(|error| fault_of(error, &format!("annotate Secret {name}")))?;
    Ok(())
}
