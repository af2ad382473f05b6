//! What the seed controller sees. Reads only.

use api_core::v1beta1::{BackupBucket, ControllerRegistration, Seed};
use api_extensions::Extension;
use api_meta::{Fault, names};
use base_client::{fault_of, get, list};
use base_controller::ObjectKey;
use components_seed::RESOURCE_MANAGER;
use control_plane_readiness::{not_applied, unhealthy};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt};

use super::extensions::is_of_seed;
use super::is_system_component;
use super::owner::{cluster_identity, cluster_uid};
use crate::context::Context;

/// The seed's cluster and what the garden holds for it.
pub(crate) struct Seen {
    /// Version of its API server, `v1.35.0`.
    pub kubernetes_version: String,
    /// Its identity, if it has one.
    pub cluster_identity: Option<String>,
    /// Uid of its namespace `kube-system`: an identity to give it.
    pub cluster_uid: String,
    /// The Deployment of its gardener-resource-manager.
    pub resource_manager: Option<Deployment>,
    /// What does not run well of what its shoots share, as "ManagedResource name: why".
    pub troubled_components: Vec<String>,
    /// Its backup bucket in the garden.
    pub bucket: Option<BackupBucket>,
    /// Its own Extensions.
    pub extensions: Vec<Extension>,
    /// What is registered in the garden.
    pub registrations: Vec<ControllerRegistration>,
}

/// Looks.
pub(crate) async fn observe(context: &Context, seed: &Seed) -> Result<Seen, Fault> {
    let version = context.seed.apiserver_version().await;
    let version = version.map_err(|error| fault_of(error, "ask the seed for its Kubernetes version"))?;
    let deployments: Api<Deployment> = context.in_seed(names::GARDEN_NAMESPACE);
    let resource_manager = get(&deployments, RESOURCE_MANAGER).await?;
    let bucket = context
        .garden_caches
        .backup_buckets
        .get(&ObjectKey::cluster(seed.uid().unwrap_or_default()));
    let registrations = context.garden_caches.registrations.list();
    Ok(Seen {
        extensions: extensions(context).await?,
        registrations: registrations.iter().map(|one| (**one).clone()).collect(),
        kubernetes_version: version.git_version,
        cluster_identity: cluster_identity(&context.seed).await?,
        cluster_uid: cluster_uid(&context.seed).await?,
        resource_manager,
        troubled_components: troubled_components(context),
        bucket: bucket.map(|bucket| (*bucket).clone()),
    })
}

fn troubled_components(context: &Context) -> Vec<String> {
    let resources = context.seed_caches.managed_resources.list_in(names::GARDEN_NAMESPACE);
    let shared = resources.iter().filter(|resource| is_system_component(resource));
    let troubled = shared.filter_map(|resource| {
        let why = not_applied(resource).or_else(|| unhealthy(resource))?;
        Some(format!("ManagedResource {}: {why}", resource.name_any()))
    });
    troubled.collect()
}

/// The seed's own Extensions. Read from the API server: a cache that is behind would have them requested twice.
///
/// # Errors
/// What the seed returns.
pub(super) async fn extensions(context: &Context) -> Result<Vec<Extension>, Fault> {
    let mut found = list(&context.in_seed::<Extension>(names::GARDEN_NAMESPACE), "").await?;
    found.retain(is_of_seed);
    Ok(found)
}
