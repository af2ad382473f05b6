//! A connection to a store that can be cut, as the network cuts one to etcd. It holds no data of its own.

use std::sync::Arc;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use tokio::sync::watch;

use crate::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};

/// A store seen through a connection: after [`Link::cut`] every call answers [`StoreError::Unavailable`] and every
/// watch ends with it. Clones are the same connection.
#[derive(Clone)]
pub struct Link {
    store: Arc<dyn Store>,
    cut: watch::Sender<bool>,
    /// The error that a caller gets after the cut.
    reason: &'static str,
}

impl Link {
    /// A new connection.
    pub fn new(store: Arc<dyn Store>) -> Self {
        Link {
            store,
            cut: watch::Sender::new(false),
            reason: "the connection was cut",
        }
    }

    /// The same with another text of the error after the cut.
    pub(crate) fn with_reason(self, reason: &'static str) -> Self {
        Link { reason, ..self }
    }

    /// Cuts the connection for good; the store behind it stays as it is.
    pub fn cut(&self) {
        self.cut.send_replace(true);
    }

    /// The error of every call after the cut.
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        self.open().map(|_| ())
    }

    fn open(&self) -> Result<&Arc<dyn Store>, StoreError> {
        if *self.cut.borrow() {
            Err(refused(self.reason))
        } else {
            Ok(&self.store)
        }
    }
}

fn refused(reason: &str) -> StoreError {
    StoreError::Unavailable(reason.to_owned())
}

#[async_trait]
impl Store for Link {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.open()?.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.open()?.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.open()?.create(key, object).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.open()?.update(key, expected, object).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.open()?.delete(key, expected).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        let changes = self.open()?.watch(range, from).await?;
        let mut cut = self.cut.subscribe();
        let is_cut = async move {
            // An error means that the last clone of the link is gone: no caller can cut it any more.
            if cut.wait_for(|cut| *cut).await.is_err() {
                std::future::pending::<()>().await;
            }
        };
        let reason = self.reason;
        let end = stream::once(async move { Err(refused(reason)) });
        let mut failed = false;
        let until_first_error = move |item: &Result<_, StoreError>| {
            let go_on = !failed;
            failed |= item.is_err();
            std::future::ready(go_on)
        };
        Ok(changes
            .take_until(is_cut)
            .chain(end)
            .take_while(until_first_error)
            .boxed())
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.open()?.revision().await
    }

    async fn turn(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        let view = self.open()?.turn().await?;
        Ok(view.map(|store| Arc::new(Self { store, ..self.clone() }) as Arc<dyn Store>))
    }
}
