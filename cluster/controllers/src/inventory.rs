//! Every object of an API server by its metadata: who owns whom, what is in which namespace. Shared by the garbage
//! collector and the namespace controller; it holds no content and decides nothing.

mod graph;

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base_client::{WatchPause, watch_dynamic, watch_fault};
use base_controller::ObjectKey;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{DynamicObject, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::{Api, Client};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::kinds::{Kind, KindKey, discover, key_of_definition, of_definition};
use graph::Tracking;
pub(crate) use graph::{Graph, Item, Owner};

/// A shared inventory. Clones are the same; it starts with the first call of [`Inventory::start`].
#[derive(Clone)]
pub(crate) struct Inventory(Arc<Inner>);

struct Inner {
    client: Client,
    caches: Caches,
    stop: CancellationToken,
    started: OnceLock<()>,
    graph: Mutex<Graph>,
    /// Items to look at.
    items: Notify,
    /// Namespaces to look at.
    namespaces: Notify,
    /// Something has gone, or is known for the first time.
    gone: Notify,
}

impl Inventory {
    pub(crate) fn new(client: Client, caches: Caches, stop: CancellationToken) -> Self {
        Inventory(Arc::new(Inner {
            client,
            caches,
            stop,
            started: OnceLock::new(),
            graph: Mutex::default(),
            items: Notify::new(),
            namespaces: Notify::new(),
            gone: Notify::new(),
        }))
    }

    /// Starts the watches, once.
    pub(crate) fn start(&self) {
        self.0.started.get_or_init(|| {
            let inventory = self.clone();
            let stop = self.0.stop.clone();
            tokio::spawn(async move { stop.run_until_cancelled(inventory.follow_kinds()).await });
        });
    }

    /// What is known. Not to be held across a wait.
    pub(crate) fn graph(&self) -> MutexGuard<'_, Graph> {
        self.0.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when some item is worth a look.
    pub(crate) async fn items_changed(&self) {
        self.0.items.notified().await;
    }

    /// Returns when something in some namespace has changed.
    pub(crate) async fn namespaces_changed(&self) {
        self.0.namespaces.notified().await;
    }

    /// Returns when something may have gone.
    pub(crate) async fn objects_gone(&self) {
        self.0.gone.notified().await;
    }

    /// Wakes the tasks that wait for changes of items and namespaces.
    pub(crate) fn wake(&self) {
        self.0.items.notify_one();
        self.0.namespaces.notify_one();
    }

    async fn follow_kinds(self) {
        let definitions = self.0.caches.custom_kinds();
        let mut changes = definitions.subscribe();
        let mut pauses = WatchPause::default();
        loop {
            let missing = match discover(&self.0.client).await {
                Ok((kinds, missing)) => {
                    self.track_all(kinds.into_values());
                    missing
                }
                Err(fault) => {
                    tracing::warn!(class = %fault.class, hint = %fault.hint, "{fault}");
                    vec!["all".to_owned()]
                }
            };
            if missing.is_empty() {
                break;
            }
            tokio::time::sleep(pauses.next().unwrap_or_default()).await;
        }
        definitions.ready().await;
        definitions
            .list()
            .iter()
            .for_each(|definition| self.track_definition(definition));
        loop {
            let change = changes.next().await;
            match change.new() {
                Some(definition) => self.track_definition(definition),
                None => self.forget(&key_of_definition(&change.object)),
            }
        }
    }

    fn track_all(&self, kinds: impl IntoIterator<Item = Kind>) {
        for kind in kinds {
            let stop = self.0.stop.child_token();
            match self.graph().track(kind.clone(), stop.clone()) {
                Tracking::Same => continue,
                Tracking::New => {}
                Tracking::Replaces(old) => old.cancel(),
            }
            let inventory = self.clone();
            tokio::spawn(async move { stop.run_until_cancelled(inventory.watch(kind)).await });
        }
        self.wake();
    }

    /// Tracks what a definition brings; a version of it that is watched and still served stays.
    fn track_definition(&self, definition: &CustomResourceDefinition) {
        let Some(kind) = of_definition(definition) else { return };
        let tracked = self.graph().kind(&kind.key()).cloned();
        let is_served = |version: &str| {
            definition
                .spec
                .versions
                .iter()
                .any(|it| it.served && it.name == version)
        };
        if !tracked.is_some_and(|tracked| is_served(&tracked.resource.version)) {
            self.track_all([kind]);
        }
    }

    fn forget(&self, key: &KindKey) {
        if let Some(stop) = self.graph().untrack(key) {
            stop.cancel();
        }
        self.wake();
    }

    async fn watch(self, kind: Kind) {
        let key = kind.key();
        let api: Api<PartialObjectMeta<DynamicObject>> = Api::all_with(self.0.client.clone(), &kind.resource);
        let mut events = std::pin::pin!(watch_dynamic(api, Config::default()));
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(object)) => {
                    listed.extend(object.metadata.uid.clone());
                    self.put(&key, &object);
                }
                Ok(Event::InitDone) => {
                    self.graph().listed(&key, &std::mem::take(&mut listed));
                    self.0.gone.notify_one();
                }
                Ok(Event::Apply(object)) => self.put(&key, &object),
                Ok(Event::Delete(object)) => {
                    if let Some(uid) = &object.metadata.uid {
                        self.graph().remove(uid);
                    }
                    self.0.gone.notify_one();
                }
                Err(error) => {
                    tracing::debug!("{}", watch_fault(error, &key.to_string()));
                    continue;
                }
            }
            self.wake();
        }
    }

    fn put(&self, kind: &KindKey, object: &PartialObjectMeta<DynamicObject>) {
        let meta = &object.metadata;
        let Some(uid) = meta.uid.clone() else { return };
        let owners = meta.owner_references.iter().flatten().map(|owner| Owner {
            uid: owner.uid.clone(),
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            name: owner.name.clone(),
            blocks: owner.block_owner_deletion == Some(true),
        });
        let item = Item {
            kind: kind.clone(),
            key: ObjectKey {
                namespace: meta.namespace.clone(),
                name: meta.name.clone().unwrap_or_default(),
            },
            owners: owners.collect(),
            finalizers: meta.finalizers.clone().unwrap_or_default(),
            deleting: meta.deletion_timestamp.is_some(),
        };
        self.graph().put(uid, item);
    }
}
