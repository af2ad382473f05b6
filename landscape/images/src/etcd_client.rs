//! An API server's connection to its etcd: dialled through a Service, and again after it was cut. It holds no data and
//! repeats no write.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cluster_node::{Endpoint, PodNetwork};
use cluster_store::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};
use futures::StreamExt;
use tokio::sync::watch;

/// How long one attempt to reopen a connection waits for the etcd to come.
const REOPEN_WITHIN: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);

/// The store behind an address.
pub(crate) struct EtcdClient {
    network: PodNetwork,
    address: String,
    connection: Arc<Connection>,
}

/// The connection that is used now, if one is open.
struct Connection {
    store: Mutex<Option<Arc<dyn Store>>>,
    open: watch::Sender<bool>,
}

impl Connection {
    fn current(&self) -> Option<Arc<dyn Store>> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, store: Arc<dyn Store>) {
        *self.store.lock().unwrap_or_else(PoisonError::into_inner) = Some(store);
        self.open.send_replace(true);
    }

    /// Forgets a connection that broke, so that the next call dials; a newer one stays.
    fn broke(&self, used: &Arc<dyn Store>) {
        let mut store = self.store.lock().unwrap_or_else(PoisonError::into_inner);
        if store.as_ref().is_some_and(|current| Arc::ptr_eq(current, used)) {
            *store = None;
            self.open.send_replace(false);
        }
    }
}

impl EtcdClient {
    /// Begins with a connection that was made before.
    pub(crate) fn new(network: PodNetwork, address: String, store: Arc<dyn Store>) -> Self {
        let connection = Connection {
            store: Mutex::new(Some(store)),
            open: watch::Sender::new(true),
        };
        EtcdClient {
            network,
            address,
            connection: Arc::new(connection),
        }
    }

    /// Whether a connection is open, and when that changes.
    pub(crate) fn connected_changes(&self) -> watch::Receiver<bool> {
        self.connection.open.subscribe()
    }

    /// Dials until a connection is open, for a caller that must know this without a request.
    pub(crate) async fn reopen(&self) {
        while !*self.connection.open.borrow() {
            match self.network.dial_when_ready(&self.address, REOPEN_WITHIN).await {
                Ok(Endpoint::Store(store)) => self.connection.set(store),
                // What is dialled by an address refuses at once.
                Ok(Endpoint::Http(_) | Endpoint::Bytes(_)) | Err(_) => tokio::time::sleep(REOPEN_PAUSE).await,
            }
        }
    }

    async fn connected(&self) -> Result<Arc<dyn Store>, StoreError> {
        if let Some(connection) = self.connection.current() {
            return Ok(connection);
        }
        let unavailable = |error: String| StoreError::Unavailable(error);
        match self
            .network
            .dial(&self.address)
            .await
            .map_err(|error| unavailable(error.to_string()))?
        {
            Endpoint::Store(store) => {
                self.connection.set(Arc::clone(&store));
                Ok(store)
            }
            Endpoint::Http(_) | Endpoint::Bytes(_) => Err(unavailable(format!("{} is no etcd", self.address))),
        }
    }

    /// The failed call itself is for its caller to repeat.
    fn seen<T>(&self, used: &Arc<dyn Store>, answer: Result<T, StoreError>) -> Result<T, StoreError> {
        if matches!(answer, Err(StoreError::Unavailable(_))) {
            self.connection.broke(used);
        }
        answer
    }
}

#[async_trait]
impl Store for EtcdClient {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        let store = self.connected().await?;
        let answer = store.get(key).await;
        self.seen(&store, answer)
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        let store = self.connected().await?;
        let answer = store.list(range, page).await;
        self.seen(&store, answer)
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        let store = self.connected().await?;
        let answer = store.create(key, object).await;
        self.seen(&store, answer)
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let store = self.connected().await?;
        let answer = store.update(key, expected, object).await;
        self.seen(&store, answer)
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        let store = self.connected().await?;
        let answer = store.delete(key, expected).await;
        self.seen(&store, answer)
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        let store = self.connected().await?;
        let answer = store.watch(range, from).await;
        let changes = self.seen(&store, answer)?;
        let connection = Arc::clone(&self.connection);
        let noticed = changes.inspect(move |change| {
            if matches!(change, Err(StoreError::Unavailable(_))) {
                connection.broke(&store);
            }
        });
        Ok(noticed.boxed())
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        let store = self.connected().await?;
        let answer = store.revision().await;
        self.seen(&store, answer)
    }
}
