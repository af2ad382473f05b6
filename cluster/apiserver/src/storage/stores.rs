//! Where a server keeps objects: a main store, and stores of single resources apart from it. Each numbers its own writes, so
//! that revisions of two resources are comparable only within one store: a request for a revision names a resource. A server
//! that stands behind another one finds there what it does not serve.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cluster_store::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};

use crate::storage::metered::{Metered, StoreMetrics};

/// The stores of a server.
pub(crate) struct Stores {
    main: Arc<dyn Store>,
    /// By [`Key::resource`].
    apart: BTreeMap<String, Arc<dyn Store>>,
    others: Option<Others>,
}

/// What a server that stands behind another one does not serve.
struct Others {
    /// What it does serve, by [`Key::resource`].
    served: BTreeSet<String>,
    store: Arc<dyn Store>,
}

impl Stores {
    /// Stores whose requests are counted in `metrics`.
    pub(crate) fn new(
        main: Arc<dyn Store>,
        apart: BTreeMap<String, Arc<dyn Store>>,
        metrics: &Arc<StoreMetrics>,
    ) -> Self {
        let metered = |store| Arc::new(Metered::new(store, Arc::clone(metrics))) as Arc<dyn Store>;
        Self {
            main: metered(main),
            apart: apart.into_iter().map(|(name, store)| (name, metered(store))).collect(),
            others: None,
        }
    }

    /// The same for a server that serves these resources alone and finds all others in `store`.
    pub(crate) fn serving(self, served: BTreeSet<String>, store: Arc<dyn Store>) -> Self {
        Self {
            others: Some(Others { served, store }),
            ..self
        }
    }

    /// The store of a resource.
    pub(crate) fn of(&self, resource: &str) -> &Arc<dyn Store> {
        let elsewhere = self.others.as_ref().filter(|others| !others.served.contains(resource));
        match elsewhere {
            Some(others) => &others.store,
            None => self.apart.get(resource).unwrap_or(&self.main),
        }
    }

    /// The store of every resource that has none of its own.
    pub(crate) fn main(&self) -> &Arc<dyn Store> {
        &self.main
    }

    /// The resources that have a store of their own.
    pub(crate) fn apart(&self) -> impl Iterator<Item = (&str, &Arc<dyn Store>)> {
        self.apart.iter().map(|(resource, store)| (resource.as_str(), store))
    }

    /// All stores that may hold objects of a resource: its own, and the main one from before it had its own.
    pub(crate) fn with_former(&self, resource: &str) -> impl Iterator<Item = &Arc<dyn Store>> {
        let former = self.apart.contains_key(resource).then_some(&self.main);
        std::iter::once(self.of(resource)).chain(former)
    }

    pub(crate) async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.of(&key.resource).get(key).await
    }

    pub(crate) async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.of(&range.resource).list(range, page).await
    }

    pub(crate) async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.of(&key.resource).create(key, object).await
    }

    pub(crate) async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.of(&key.resource).update(key, expected, object).await
    }

    pub(crate) async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.of(&key.resource).delete(key, expected).await
    }

    pub(crate) async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.of(&range.resource).watch(range, from).await
    }

    /// The revision of the newest write to the store of a resource.
    pub(crate) async fn revision(&self, resource: &str) -> Result<Revision, StoreError> {
        self.of(resource).revision().await
    }
}

/// What the store calls a resource: `apps/deployments`, `pods`.
pub(crate) fn store_name(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{group}/{resource}")
    }
}
