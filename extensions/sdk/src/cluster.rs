//! What an extension may know of the garden: the Cluster object that gardenlet keeps in the seed.
//! It is only ever read.

use std::sync::Arc;

use api_core::v1beta1::{CloudProfile, Seed, Shoot};
use api_extensions::Cluster;
use api_meta::{Fault, LastOperationState, RawJson, annotations};
use serde::de::DeserializeOwned;

/// The shoot an object belongs to.
#[derive(Clone, Debug)]
pub struct ClusterView {
    /// The shoot's technical id: name of the Cluster and of the namespace.
    pub name: String,
    /// The shoot as it is in the garden.
    pub shoot: Shoot,
    object: Arc<Cluster>,
}

impl ClusterView {
    /// Reads the shoot in `cluster`.
    pub fn new(cluster: Arc<Cluster>) -> Result<Self, Fault> {
        let name = cluster.metadata.name.clone().unwrap_or_default();
        let shoot = decode(&cluster.spec.shoot, "shoot", &name)?;
        Ok(Self {
            name,
            shoot,
            object: cluster,
        })
    }

    /// The cloud profile as it is in the garden.
    pub fn cloud_profile(&self) -> Result<CloudProfile, Fault> {
        decode(&self.object.spec.cloud_profile, "cloudProfile", &self.name)
    }

    /// The seed as it is in the garden; none for shoots that host themselves.
    pub fn seed(&self) -> Result<Option<Seed>, Fault> {
        self.object
            .spec
            .seed
            .as_ref()
            .map(|seed| decode(seed, "seed", &self.name))
            .transpose()
    }

    /// The Cluster object itself.
    pub fn object(&self) -> &Cluster {
        &self.object
    }

    /// The gardener gave up on the shoot until it changes: extensions leave its objects alone.
    pub fn is_failed(&self) -> bool {
        let last = self
            .shoot
            .status
            .as_ref()
            .and_then(|status| status.last_operation.as_ref());
        last.is_some_and(|last| last.state == LastOperationState::Failed)
    }

    /// The deletion is forced: the shoot goes even if resources stay behind in the cloud.
    pub fn is_force_deleted(&self) -> bool {
        let annotation = self.shoot.metadata.annotations.as_ref();
        annotation
            .and_then(|all| all.get(annotations::CONFIRMATION_FORCE_DELETION))
            .is_some_and(|value| value == "true")
    }

    /// The shoot is hibernated or is to hibernate.
    pub fn is_hibernated(&self) -> bool {
        self.shoot
            .spec
            .hibernation
            .as_ref()
            .is_some_and(|hibernation| hibernation.enabled == Some(true))
    }
}

fn decode<T: DeserializeOwned>(raw: &RawJson, field: &str, name: &str) -> Result<T, Fault> {
    serde_json::from_str(raw.get()).map_err(|error| {
        Fault::bug(format!("read spec.{field} of Cluster {name}: {error}"))
            .hint("compare the versions of gardenlet and of this extension")
    })
}
