//! Which cluster the target is, by the uid of its Namespace `kube-system`, and in which one each ManagedResource was
//! applied last. A target that lost its data has another uid: whatever was applied there is gone, though no
//! ManagedResource has changed. It never applies anything itself, and remembers nothing beyond this process: after a
//! start everything is applied anyway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use api_resources::ManagedResource;
use base_controller::{Cache, Controller, ObjectKey};
use k8s_openapi::api::core::v1::Namespace;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

/// The namespace that every cluster has from its beginning.
const SYSTEM: &str = "kube-system";

/// The identity of the target.
pub(crate) struct Identity {
    system: Cache<Namespace>,
    /// The uid of the cluster that was known when the last turn of a ManagedResource began.
    turns: Mutex<BTreeMap<ObjectKey, Option<String>>>,
}

impl Identity {
    /// Starts looking at the target.
    pub(crate) fn start(target: &Client, stop: &CancellationToken) -> Arc<Self> {
        let only = watcher::Config::default().fields(&format!("metadata.name={SYSTEM}"));
        Arc::new(Self {
            system: Cache::start(Api::all(target.clone()), only, stop.clone()),
            turns: Mutex::default(),
        })
    }

    /// A turn of this ManagedResource begins. Whether its last one was for another cluster.
    pub(crate) fn begin(&self, key: &ObjectKey) -> bool {
        let mut turns = self.turns();
        let now = self
            .system
            .get(&ObjectKey::cluster(SYSTEM))
            .and_then(|found| found.uid());
        match (turns.insert(key.clone(), now.clone()).flatten(), now) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        }
    }

    /// This ManagedResource is gone.
    pub(crate) fn forget(&self, key: &ObjectKey) {
        self.turns().remove(key);
    }

    /// Lets another cluster call for every ManagedResource whose last turn was not for it.
    pub(crate) fn call(self: &Arc<Self>, controller: Controller<ManagedResource>) -> Controller<ManagedResource> {
        let identity = self.clone();
        controller.watches(&self.system, move |change| {
            let now = change.new().and_then(ResourceExt::uid);
            let turns = identity.turns();
            turns
                .iter()
                .filter(|(_, at)| now.is_some() && **at != now)
                .map(|(key, _)| key.clone())
                .collect()
        })
    }

    fn turns(&self) -> std::sync::MutexGuard<'_, BTreeMap<ObjectKey, Option<String>>> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
