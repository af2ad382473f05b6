//! What is known about one seed, out of the caches. It never calls the API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use api_core::v1beta1::{BackupBucket, ControllerInstallation, ControllerRegistration, Seed};
use kube::ResourceExt;

use super::hash::{Deployments, Hashed};
use super::needs::{Needs, ShootNeeds};
use super::plan::seed_of;
use crate::context::{Caches, seed_and_bucket};

/// Everything the plan of one seed is made from.
pub(crate) struct Seen {
    pub(crate) seed: Arc<Seed>,
    pub(crate) registrations: Vec<ControllerRegistration>,
    pub(crate) deployments: BTreeMap<String, Hashed>,
    /// Those of this seed.
    pub(crate) installations: Vec<Arc<ControllerInstallation>>,
    /// All of them: entries name them.
    pub(crate) buckets: Vec<Arc<BackupBucket>>,
    /// Names of the buckets in which entries of this seed lie.
    pub(crate) buckets_of_entries: BTreeSet<String>,
    /// Needs of those whose control plane is, was or will be in this seed.
    pub(crate) shoots: Arc<Needs>,
}

/// Waits until all caches have been filled once, then reads them.
pub(crate) async fn observe(seed: &Arc<Seed>, caches: &Caches, deployments: &Deployments, needs: &ShootNeeds) -> Seen {
    caches.registrations.ready().await;
    caches.deployments.ready().await;
    caches.installations.ready().await;
    caches.buckets.ready().await;
    caches.entries.ready().await;
    caches.shoots.ready().await;
    let name = seed.name_any();
    let installations = caches
        .installations
        .list()
        .into_iter()
        .filter(|installation| seed_of(installation) == Some(name.as_str()));
    let registrations = caches.registrations.list();
    let registrations: Vec<ControllerRegistration> = registrations.iter().map(|one| (**one).clone()).collect();
    let buckets = caches.buckets.list();
    let with_entries = buckets.iter().map(|bucket| bucket.name_any());
    Seen {
        seed: seed.clone(),
        shoots: needs.of(
            seed,
            &registrations,
            |key| caches.shoots.get(key),
            || caches.shoots_by_seed.list(&name),
        ),
        registrations,
        deployments: deployments.hashed(caches.deployments.list()),
        installations: installations.collect(),
        buckets_of_entries: with_entries
            .filter(|bucket| caches.entries_by_place.contains(&seed_and_bucket(&name, bucket)))
            .collect(),
        buckets,
    }
}
