//! What ControllerDeployments refer to in namespace `garden` of the garden, each cached by a watch of its own: gardenlet may
//! read single objects there, and no list. A cache is opened when its object is asked for and closed when nothing refers to
//! it any more.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::{Fault, labels, names};
use base_controller::{Cache, ObjectKey};
use kube::runtime::watcher;
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};

/// Only objects with one of these roles are taken: whoever may write a ControllerDeployment shall not read all Secrets by it.
const ROLES: [&str; 3] = [
    labels::role::HELM_PULL_SECRET,
    labels::role::OCI_CA_BUNDLE,
    labels::role::RESOURCE_REFERENCE,
];
/// How long the first answer of a new cache is waited for: as long as a request to the garden may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The caches of one kind, by name. Must be made within a tokio runtime.
pub(crate) struct Referenced<K> {
    garden: Client,
    open: Mutex<BTreeMap<String, OpenCache<K>>>,
    changed: mpsc::UnboundedSender<String>,
    stop: CancellationToken,
}

struct OpenCache<K> {
    objects: Cache<K>,
    _until: Arc<DropGuard>,
}

impl<K> Clone for OpenCache<K> {
    fn clone(&self) -> Self {
        Self {
            objects: self.objects.clone(),
            _until: self._until.clone(),
        }
    }
}

impl<K> Referenced<K>
where
    K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
        + Send
        + Sync
        + 'static,
{
    /// None yet. The names of objects that change come by the receiver: as many as there are references at most, between
    /// two looks at it.
    pub(crate) fn new(garden: &Client, stop: &CancellationToken) -> (Self, mpsc::UnboundedReceiver<String>) {
        let (changed, changes) = mpsc::unbounded_channel();
        let referenced = Self {
            garden: garden.clone(),
            open: Mutex::default(),
            changed,
            stop: stop.clone(),
        };
        (referenced, changes)
    }

    /// The object of this name; none if it is not there or has none of the roles.
    ///
    /// # Errors
    /// When the garden does not say whether it is there.
    pub(crate) async fn get(&self, name: &str) -> Result<Option<Arc<K>>, Fault> {
        // Held until it has answered, whoever closes it meanwhile.
        let cache = self.cache(name);
        let objects = &cache.objects;
        if tokio::time::timeout(PATIENCE, objects.ready()).await.is_err() {
            let why = objects
                .error()
                .unwrap_or_else(|| "the garden does not answer".to_owned());
            let kind = K::kind(&());
            return Err(Fault::dependency(format!("{kind} garden/{name} cannot be read: {why}"))
                .hint("look at the garden's API server"));
        }
        let found = objects.get(&ObjectKey::namespaced(names::GARDEN_NAMESPACE, name));
        Ok(found.filter(|object| {
            object
                .labels()
                .get(labels::ROLE)
                .is_some_and(|role| ROLES.contains(&role.as_str()))
        }))
    }

    /// Closes the caches of names that are not `wanted` any more.
    pub(crate) fn retain(&self, wanted: impl Fn(&str) -> bool) {
        self.open().retain(|name, _| wanted(name));
    }

    fn cache(&self, name: &str) -> OpenCache<K> {
        let mut open = self.open();
        open.entry(name.to_owned()).or_insert_with(|| self.begin(name)).clone()
    }

    fn begin(&self, name: &str) -> OpenCache<K> {
        let stop = self.stop.child_token();
        let api = Api::namespaced(self.garden.clone(), names::GARDEN_NAMESPACE);
        let only = watcher::Config::default().fields(&format!("metadata.name={name}"));
        let objects: Cache<K> = Cache::start(api, only, stop.clone());
        let (mut changes, changed, name) = (objects.subscribe(), self.changed.clone(), name.to_owned());
        let cached = objects.clone();
        let telling = async move {
            let key = ObjectKey::namespaced(names::GARDEN_NAMESPACE, name.clone());
            let version = || cached.get(&key).map(|object| (object.uid(), object.resource_version()));
            cached.ready().await;
            // Whoever opened it sees the first state.
            let mut known = version();
            loop {
                changes.next().await;
                let now = version();
                if now != known && changed.send(name.clone()).is_err() {
                    return;
                }
                known = now;
            }
        };
        tokio::spawn(stop.clone().run_until_cancelled_owned(telling));
        OpenCache {
            objects,
            _until: Arc::new(stop.drop_guard()),
        }
    }

    fn open(&self) -> MutexGuard<'_, BTreeMap<String, OpenCache<K>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
