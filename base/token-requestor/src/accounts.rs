//! Notices that ServiceAccounts of the target are deleted or changed: one watch per namespace in which one is wanted, as
//! the right to watch may end with the namespace. Never writes.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use base_controller::{Cache, Change, ObjectKey};
use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::runtime::watcher;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The ServiceAccounts of a target.
pub(crate) struct Accounts {
    target: Client,
    stop: CancellationToken,
    /// Namespaces that are watched; as many as Secrets name, and until the end.
    watched: Mutex<BTreeSet<String>>,
    changes: mpsc::UnboundedSender<ObjectKey>,
}

impl Accounts {
    /// Nothing is watched yet. The stream names ServiceAccounts that others have changed.
    pub(crate) fn new(target: Client, stop: CancellationToken) -> (Self, BoxStream<'static, ObjectKey>) {
        let (changes, changed) = mpsc::unbounded_channel();
        let accounts = Self {
            target,
            stop,
            watched: Mutex::default(),
            changes,
        };
        let changed = unfold(changed, |mut changed| async move {
            changed.recv().await.map(|key| (key, changed))
        });
        (accounts, changed.boxed())
    }

    /// Watches this namespace from now on.
    pub(crate) fn watch(&self, namespace: &str) {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if !watched.insert(namespace.to_owned()) {
            return;
        }
        let api: Api<ServiceAccount> = Api::namespaced(self.target.clone(), namespace);
        let cache = Cache::start(api, watcher::Config::default(), self.stop.clone());
        let changes = self.changes.clone();
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
            let mut seen = cache.subscribe();
            loop {
                let change = seen.next().await;
                if is_drift(&change) && changes.send(ObjectKey::of(&*change.object)).is_err() {
                    return;
                }
            }
        }));
    }
}

/// Whether a ServiceAccount may differ from what we have applied. One that is seen for the first time is our own.
fn is_drift(change: &Change<ServiceAccount>) -> bool {
    match (&change.old, change.new()) {
        (_, None) => true,
        (None, Some(_)) => false,
        (Some(old), Some(new)) => {
            old.metadata.uid != new.metadata.uid
                || old.metadata.labels != new.metadata.labels
                || old.automount_service_account_token != new.automount_service_account_token
        }
    }
}
