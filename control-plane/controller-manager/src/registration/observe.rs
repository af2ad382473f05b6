//! What is known about one seed, out of the mirrors. It never calls the API.

use std::collections::BTreeMap;
use std::sync::Arc;

use api_core::v1beta1::{BackupBucket, BackupEntry, ControllerInstallation, ControllerRegistration, Seed, Shoot};
use kube::ResourceExt;

use super::hash::{Deployments, Hashed};
use crate::context::Caches;

/// Everything the plan of one seed is made from.
pub(crate) struct Seen {
    pub(crate) seed: Arc<Seed>,
    pub(crate) registrations: Vec<ControllerRegistration>,
    pub(crate) deployments: BTreeMap<String, Hashed>,
    /// Those of this seed.
    pub(crate) installations: Vec<Arc<ControllerInstallation>>,
    /// All of them: entries name them.
    pub(crate) buckets: Vec<Arc<BackupBucket>>,
    /// Those of this seed.
    pub(crate) entries: Vec<Arc<BackupEntry>>,
    /// Those whose control plane is, was or will be in this seed.
    pub(crate) shoots: Vec<Arc<Shoot>>,
}

/// Waits until all mirrors have been filled once, then reads them.
pub(crate) async fn observe(seed: &Arc<Seed>, caches: &Caches, deployments: &Deployments) -> Seen {
    caches.registrations.ready().await;
    caches.deployments.ready().await;
    caches.installations.ready().await;
    caches.buckets.ready().await;
    caches.entries.ready().await;
    caches.shoots.ready().await;
    let name = seed.name_any();
    let here = |other: Option<&String>| other == Some(&name);
    let shoots = caches.shoots.list().into_iter().filter(|shoot| {
        let in_status = shoot.status.as_ref().and_then(|status| status.seed_name.as_ref());
        here(shoot.spec.seed_name.as_ref()) || here(in_status)
    });
    let installations = caches
        .installations
        .list()
        .into_iter()
        .filter(|installation| here(installation.spec.seed_ref.as_ref().and_then(|seed| seed.name.as_ref())));
    Seen {
        seed: seed.clone(),
        registrations: caches
            .registrations
            .list()
            .iter()
            .map(|registration| (**registration).clone())
            .collect(),
        deployments: deployments.hashed(caches.deployments.list()),
        installations: installations.collect(),
        buckets: caches.buckets.list(),
        entries: caches
            .entries
            .list()
            .into_iter()
            .filter(|entry| here(entry.spec.seed_name.as_ref()))
            .collect(),
        shoots: shoots.collect(),
    }
}
