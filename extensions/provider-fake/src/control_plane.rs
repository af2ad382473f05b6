//! ControlPlane: a cloud controller manager beside the shoot's other components, and its rights in the shoot, by two
//! ManagedResources. It holds nothing in the cloud: load balancers are the cloud controller manager's.

mod config;
mod objects;
mod secrets;

pub(crate) use config::ControlPlaneConfig;

use std::time::Duration;

use api_extensions::ControlPlane;
use api_meta::Fault;
use async_trait::async_trait;
use base_client::{delete, get};
use extensions_sdk::images::{Images, Query};
use extensions_sdk::managed::{self, ManagedObjects};
use extensions_sdk::shoot_client::ShootAccess;
use extensions_sdk::{Actuator, Changed, ClusterView, Context, Outcome, Saved};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use crate::cloud::Keys;
use crate::control_plane::objects::{CREDENTIALS, Input, NAME};
use crate::control_plane::secrets::ManagedSecrets;
use crate::provider_status::InfrastructureStatus;
use crate::run::ABOUT;

/// Names of the ManagedResources (gardener/gardener v1.150 extensions/pkg/controller/controlplane/genericactuator).
const IN_SEED: &str = "extension-controlplane-seed";
const IN_SHOOT: &str = "extension-controlplane-shoot";
/// How long a ManagedResource may take to go (same file).
const DELETE_TIMEOUT: Duration = Duration::from_secs(120);
/// The Deployment whose end a hibernated shoot's cloud controller manager waits for: until then Services may lose their load
/// balancers.
pub(crate) const API_SERVER: &str = "kube-apiserver";
const IMAGES: &str = include_str!("control_plane/images.yaml");

/// The actuator of ControlPlanes.
pub(crate) struct ControlPlanes {
    images: Images,
}

impl ControlPlanes {
    /// Reads the image vector.
    ///
    /// # Errors
    /// It, or what overwrites it, cannot be read.
    pub(crate) fn new() -> Result<Self, Fault> {
        let images = Images::read_with_overwrites(IMAGES)?;
        Ok(Self { images })
    }
}

/// Whether a change of a shoot's kube-apiserver concerns its ControlPlane: it was scaled to nothing, or from nothing.
pub(crate) fn is_scaled(change: &Changed<Deployment>) -> bool {
    let runs = |deployment: &Deployment| deployment.spec.as_ref().is_some_and(|spec| spec.replicas != Some(0));
    match (change.old.as_deref(), change.new()) {
        // After a start the end of one that is gone or scaled down may have been missed.
        (None, Some(new)) => !runs(new),
        (Some(old), Some(new)) => runs(old) != runs(new),
        (old, None) => old.is_some(),
    }
}

async fn replicas(context: &Context, cluster: &ClusterView) -> Result<i32, Fault> {
    if !cluster.is_hibernated() {
        return Ok(1);
    }
    let api: Api<Deployment> = Api::namespaced(context.client.clone(), &cluster.name);
    let deployment = get(&api, API_SERVER).await?;
    let runs = deployment
        .and_then(|deployment| deployment.spec)
        .is_some_and(|spec| spec.replicas != Some(0));
    Ok(i32::from(runs))
}

#[async_trait]
impl Actuator<ControlPlane> for ControlPlanes {
    async fn reconcile(&self, context: &Context, object: &ControlPlane) -> Result<Outcome<ControlPlane>, Fault> {
        let cluster = context.cluster()?;
        let namespace = &cluster.name;
        let config = ControlPlaneConfig::read(object.spec.provider_config.as_ref())?;
        let infrastructure = InfrastructureStatus::read(object.spec.infrastructure_provider_status.as_ref())?;
        // Only to refuse what the program could not use: it reads the Secret itself.
        let _keys: Keys = context.credentials(&object.spec.secret_ref).await?;
        let api: Api<Secret> = Api::namespaced(context.client.clone(), namespace);
        let credentials = get(&api, CREDENTIALS).await?.unwrap_or_default();
        let image = self.images.find(NAME, &Query::new())?.to_string();
        let ManagedSecrets { server, obsolete } = secrets::ensure(context, cluster).await?;
        ShootAccess::new(NAME)
            .request(&context.client, namespace, ABOUT.name)
            .await?;
        let input = Input {
            cluster,
            region: &object.spec.region,
            infrastructure: &infrastructure,
            feature_gates: &config.cloud_controller_manager.feature_gates,
            image: &image,
            replicas: replicas(context, cluster).await?,
            credentials: &credentials,
            server: &server,
        };
        let in_shoot = ManagedObjects::in_shoot(IN_SHOOT, ABOUT.name).objects(input.in_shoot())?;
        in_shoot.apply(&context.client, namespace).await?;
        let in_seed = ManagedObjects::in_seed(IN_SEED, ABOUT.name).objects(input.in_seed())?;
        let applied = in_seed.apply(&context.client, namespace).await?;
        // What an older Deployment mounts stays until the newer one is there: at the next reconcile at the latest.
        if managed::not_applied(&applied).is_none() {
            for name in &obsolete {
                delete(&api, name).await?;
            }
        }
        Ok(Outcome::default())
    }

    async fn delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        remove(context, object, false).await
    }

    async fn force_delete(&self, context: &Context, object: &ControlPlane) -> Result<(), Fault> {
        // The shoot may be out of reach.
        remove(context, object, true).await
    }

    async fn migrate(&self, context: &Context, object: &ControlPlane) -> Result<Saved, Fault> {
        remove(context, object, true).await?;
        Ok(Saved::default())
    }
}

/// Removes everything from the seed, and from the shoot unless its objects are to stay there.
async fn remove(context: &Context, object: &ControlPlane, keep_in_shoot: bool) -> Result<(), Fault> {
    let (client, namespace) = (&context.client, object.namespace().unwrap_or_default());
    if keep_in_shoot {
        managed::set_keep_objects(client, &namespace, IN_SHOOT, true).await?;
    }
    // First what uses the rights, then the rights.
    for name in [IN_SEED, IN_SHOOT] {
        managed::delete(client, &namespace, name).await?;
        context
            .unless_obsolete(managed::wait_deleted(client, &namespace, name, DELETE_TIMEOUT))
            .await?;
    }
    ShootAccess::new(NAME).withdraw(client, &namespace).await?;
    secrets::delete_all(context, &namespace).await
}
