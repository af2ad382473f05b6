//! A store over which another server is faster: what that one does to an object happens just before an update of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cluster_store::{Changes, Entry, Key, Listing, MemoryStore, Object, Page, Range, Revision, Store, StoreError};
use serde_json::json;

/// What the other server does, once.
#[derive(Clone, Copy)]
pub(crate) enum Other {
    Writes,
    Deletes,
}

/// The store, with what happens before the next update of an object, by its name.
#[derive(Clone)]
pub(crate) struct Overtaken {
    store: MemoryStore,
    next: Arc<Mutex<BTreeMap<&'static str, Other>>>,
}

impl Overtaken {
    pub(crate) fn new(store: MemoryStore, next: impl IntoIterator<Item = (&'static str, Other)>) -> Self {
        Self {
            store,
            next: Arc::new(Mutex::new(next.into_iter().collect())),
        }
    }

    /// Whether all of it has happened.
    pub(crate) fn is_over(&self) -> bool {
        self.next.lock().unwrap().is_empty()
    }
}

#[async_trait]
impl Store for Overtaken {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.store.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.store.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.store.create(key, object).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let other = self.next.lock().unwrap().remove(&*key.name);
        match other {
            Some(Other::Deletes) => drop(self.store.delete(key, expected).await?),
            Some(Other::Writes) => {
                let stored = self.store.get(key).await?.expect("it is updated");
                let mut changed = stored.object.value(stored.revision);
                changed["metadata"]["labels"]["by"] = json!("another");
                self.store.update(key, expected, Object::from_value(changed)?).await?;
            }
            None => {}
        }
        self.store.update(key, expected, object).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.store.delete(key, expected).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.store.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.store.revision().await
    }
}
