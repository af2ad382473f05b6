//! Configurations in shoots: each travels in a ManagedResource of the shoot's namespace, which gardener-resource-manager applies.

use std::sync::Arc;

use api_meta::Fault;
use api_resources::ManagedResource;
use base_client::list_by;
use extensions_sdk::managed::{self, ManagedObjects};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;

use super::configuration::Configurations;
use crate::names::shoot_configuration_name;

/// An extension's configurations for shoots, as they are at present. Clones are the same. What makes a shoot's control plane
/// ([`ShootWebhooks::deploy`]) uses them; when the authority changes, all ManagedResources that are there are written again.
#[derive(Clone, Debug)]
pub struct ShootWebhooks {
    extension: Arc<str>,
    current: Arc<watch::Sender<Configurations>>,
}

impl ShootWebhooks {
    pub(crate) fn new(extension: &str) -> Self {
        Self {
            extension: extension.into(),
            current: Arc::new(watch::Sender::new(Configurations::default())),
        }
    }

    /// Name of the ManagedResource: that of the configurations, `gardener-extension-NAME-shoot`.
    #[must_use]
    pub fn managed_resource_name(&self) -> String {
        shoot_configuration_name(&self.extension)
    }

    /// Registers the webhooks in the shoot of a namespace, or again.
    ///
    /// # Errors
    /// A transient fault while there is no certificate yet; what the seed's API server returns.
    pub async fn deploy(&self, seed: &Client, namespace: &str) -> Result<(), Fault> {
        let Configurations { mutating, validating } = self.current.borrow().clone();
        let mut objects = ManagedObjects::in_shoot(self.managed_resource_name(), &*self.extension);
        if mutating.is_none() && validating.is_none() {
            return Err(Fault::transient("the certificate of the webhooks is not there yet")
                .hint("it is made by the replica of the extension that leads: wait for it"));
        }
        if let Some(mutating) = mutating {
            objects = objects.object(&mutating)?;
        }
        if let Some(validating) = validating {
            objects = objects.object(&validating)?;
        }
        objects.apply(seed, namespace).await.map(drop)
    }

    /// Takes the webhooks out of the shoot of a namespace. Fine when they are not there.
    ///
    /// # Errors
    /// What the seed's API server returns.
    pub async fn remove(&self, seed: &Client, namespace: &str) -> Result<(), Fault> {
        managed::delete(seed, namespace, &self.managed_resource_name()).await
    }

    /// Sets what is registered from now on. Whether that is something else.
    pub(crate) fn set(&self, configurations: Configurations) -> bool {
        self.current.send_if_modified(|current| {
            let differs = *current != configurations;
            *current = configurations;
            differs
        })
    }

    /// Writes all ManagedResources that are there.
    ///
    /// # Errors
    /// What the API server returns. All others are written nevertheless.
    pub(crate) async fn deploy_everywhere(&self, seed: &Client) -> Result<(), Fault> {
        let fields = format!("metadata.name={}", self.managed_resource_name());
        let mut faults = Vec::new();
        for resource in list_by(&Api::<ManagedResource>::all(seed.clone()), &fields).await? {
            let Some(namespace) = resource
                .namespace()
                .filter(|_| resource.metadata.deletion_timestamp.is_none())
            else {
                continue;
            };
            if let Err(fault) = self.deploy(seed, &namespace).await {
                faults.push(fault.doing(&format!("register webhooks in the shoot of {namespace}")));
            }
        }
        Fault::check_none(faults)
    }
}
