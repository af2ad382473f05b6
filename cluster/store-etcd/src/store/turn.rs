//! Writes in turns: of the writes that depend on other objects, in this process or another, each is committed only if no other
//! one was since its writer began to read. And how every write is executed, in a turn or not.

use std::sync::Arc;

use async_trait::async_trait;
use cluster_store::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};
use prost::bytes::Bytes;

use super::{Inner, found, write_failed};
use crate::repeater::{entry_or_none, unavailable};
use crate::wire::{DeleteRequest, RangeRequest, Request, Response, number, revision_of};

/// The key that every write in a turn writes too. No API serves it.
const TURNS: &str = "orangery.dev/turns";
const TURN: &str = "last";

impl Inner {
    /// The key of the last turn.
    pub(super) fn turn_key(&self) -> Bytes {
        self.layout.key(&Key::new(TURNS, None, TURN))
    }

    /// The revision of the last write in a turn; 0 for none.
    async fn last_turn(&self) -> Result<Revision, StoreError> {
        let request = RangeRequest {
            key: self.turn_key(),
            keys_only: true,
            ..RangeRequest::default()
        };
        let answer = self.client.range(request).await.map_err(unavailable)?;
        let revision = answer.kvs.first().map(|kv| number(kv.mod_revision));
        Ok(Revision(revision.unwrap_or_default()))
    }

    pub(super) async fn create_in(
        &self,
        key: Key,
        object: Object,
        turn: Option<Revision>,
    ) -> Result<Entry, StoreError> {
        match self.put(key.clone(), Revision(0), object, turn).await? {
            Ok(entry) => Ok(entry),
            Err(Some(current)) => Err(StoreError::Exists { current }),
            Err(None) => Err(StoreError::Unavailable(format!("etcd contradicts itself over {key}"))),
        }
    }

    pub(super) async fn update_in(
        &self,
        key: &Key,
        expected: Revision,
        object: Object,
        turn: Option<Revision>,
    ) -> Result<Entry, StoreError> {
        // To etcd, 0 means that nothing is there.
        if expected == Revision(0) {
            return Err(Inner::refusal(key, expected, self.get(key).await?));
        }
        let put = self.put(key.clone(), expected, object, turn).await?;
        put.map_err(|current| Inner::refusal(key, expected, current))
    }

    pub(super) async fn delete_in(
        &self,
        key: &Key,
        expected: Revision,
        turn: Option<Revision>,
    ) -> Result<Entry, StoreError> {
        if expected == Revision(0) {
            return Err(Inner::refusal(key, expected, self.get(key).await?));
        }
        let delete = DeleteRequest {
            key: self.layout.key(key),
            prev_kv: true,
        };
        let answer = self.transact(key, expected, Request::Delete(delete), turn).await;
        let answer = answer.map_err(|failure| write_failed(key, failure))?;
        if !answer.succeeded {
            return Err(Inner::refusal(key, expected, found(key, answer, turn)?));
        }
        let revision = Revision(revision_of(answer.header.as_ref()));
        let last = answer.responses.into_iter().find_map(|op| match op.response {
            Some(Response::Delete(delete)) => delete.prev_kvs.into_iter().next(),
            _ => None,
        });
        // It is deleted, whatever it was: one that was no object leaves an empty one.
        let last = last.and_then(|kv| entry_or_none(key.clone(), &kv));
        let object = match last {
            Some(last) => last.object,
            None => Arc::new(Object::from_bytes(br#"{"metadata":{}}"#)?),
        };
        let key = key.clone();
        let entry = Entry { key, revision, object };
        self.written(&entry).await;
        Ok(entry)
    }
}

/// The store for a writer in a turn: its writes succeed as long as no other writer has taken one.
pub(super) struct InTurn {
    inner: Arc<Inner>,
    seen: Revision,
}

impl InTurn {
    /// Begins a turn now.
    pub(super) async fn begin(inner: Arc<Inner>) -> Result<Self, StoreError> {
        let seen = inner.last_turn().await?;
        Ok(Self { inner, seen })
    }
}

#[async_trait]
impl Store for InTurn {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        self.inner.get(key).await
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.inner.list(range, page).await
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.inner.create_in(key, object, Some(self.seen)).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        self.inner.update_in(key, expected, object, Some(self.seen)).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        self.inner.delete_in(key, expected, Some(self.seen)).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.inner.watch(range, from).await
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        self.inner.revision().await
    }
}
