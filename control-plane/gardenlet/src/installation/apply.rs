//! Writes what is planned into the seed: namespace, access to the garden, objects. Never decides, and writes no status.

use api_meta::{Fault, names};
use api_resources::ManagedResource;
use base_client::{apply as apply_object, create_or_get, delete};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::{Api, ResourceExt};

use super::access::{ACCESS_SECRET, Access};
use super::plan::Wanted;
use super::resources::Made;
use crate::context::{Context, MANAGER};

/// Writes.
///
/// # Errors
/// What the seed's API server says.
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
    create_or_get(&context.in_seed::<Secret>(names::GARDEN_NAMESPACE), secret).await?;
    let resources = context.in_seed::<ManagedResource>(names::GARDEN_NAMESPACE);
    apply_object(&resources, managed_resource, MANAGER).await?;
    Ok(())
}
