//! A store in memory that repeats what a store elsewhere does: for backends that store objects across a network and
//! answer watches from memory. It decides nothing and writes nothing by itself.

use std::sync::Arc;

use crate::memory::{Forgotten, MemoryStore};
use crate::write::{Decided, DecidedKind};
use crate::{Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};

/// What another store has at a revision, and a bounded history of how it came there. Clones share one content.
#[derive(Clone)]
pub struct Mirror {
    memory: MemoryStore,
}

/// One write of the other store.
#[derive(Clone, Debug)]
pub struct Repeated {
    /// Where it happened.
    pub key: Key,
    /// Its revision. Writes that the other store made at once share one.
    pub revision: Revision,
    /// What stands there afterwards; `None` when it was removed.
    pub object: Option<Arc<Object>>,
}

impl Mirror {
    /// What the other store had at a revision. The history begins there.
    pub fn new(revision: Revision, entries: Vec<Entry>) -> Self {
        let memory = MemoryStore::starting_at(revision);
        memory.reset(revision, entries);
        Mirror { memory }
    }

    /// Repeats writes, in the order of their revisions, all at once for every reader. What shares a revision must come in
    /// one call. Writes at or before the mirror's revision are known already and change nothing.
    pub fn repeat(&self, writes: Vec<Repeated>) {
        let known = self.memory.newest();
        let writes = writes.into_iter().filter(|write| write.revision > known);
        let decided = writes.map(|Repeated { key, revision, object }| {
            // A deletion carries the object that is stored here.
            let (kind, object) = match object {
                Some(object) => (DecidedKind::Put, object),
                None => (DecidedKind::Delete, Arc::new(Object::empty())),
            };
            Decided {
                kind,
                entry: Entry { key, revision, object },
                previous: None,
            }
        });
        self.memory.apply(decided.collect(), &mut Forgotten::default());
    }

    /// Notes that the other store has come to a revision, and that all its writes up to there have been repeated.
    pub fn advance(&self, to: Revision) {
        self.memory.advance(to);
    }

    /// Replaces the content by what the other store has at a revision, because the changes in between are not available. Open
    /// watches end with [`StoreError::Expired`].
    pub fn reset(&self, revision: Revision, entries: Vec<Entry>) {
        self.memory.reset(revision, entries);
    }

    /// How far it has come.
    pub fn revision(&self) -> Revision {
        self.memory.newest()
    }

    /// What stands at a key.
    pub fn get(&self, key: &Key) -> Option<Entry> {
        self.memory.current(key)
    }

    /// As [`Store::list`], as far as the mirror has come.
    ///
    /// # Errors
    /// As [`Store::list`].
    pub async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        self.memory.list(range, page).await
    }

    /// As [`Store::watch`], as far as the mirror has come.
    ///
    /// # Errors
    /// As [`Store::watch`].
    pub async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        self.memory.watch(range, from).await
    }
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt, StreamExt};
    use serde_json::json;

    use super::*;

    fn put(name: &str, revision: u64) -> Repeated {
        let object = Object::from_value(json!({"metadata": {"name": name}, "at": revision})).unwrap();
        Repeated {
            key: Key::new("pods", Some("n"), name),
            revision: Revision(revision),
            object: Some(object.into()),
        }
    }

    #[tokio::test]
    async fn every_watch_receives_all_changes_of_a_shared_revision() {
        let mirror = Mirror::new(Revision(10), Vec::new());
        let mut watch = mirror.watch(&Range::all("pods"), Revision(10)).await.unwrap();
        // More than a watcher takes at once.
        mirror.repeat((0..200).map(|number| put(&format!("p{number}"), 11)).collect());
        let gone = |number| Repeated {
            object: None,
            ..put(&format!("p{number}"), 13)
        };
        mirror.repeat((0..200).map(gone).collect());
        mirror.repeat(vec![
            put("short", 14),
            Repeated {
                object: None,
                ..put("short", 15)
            },
        ]);
        // Repeated once more, as after a connection that broke.
        mirror.repeat(vec![put("p0", 11)]);
        let mut delivered = Vec::new();
        while let Some(change) = watch.next().now_or_never() {
            delivered.push(change.unwrap().unwrap().entry.revision.0);
        }
        let expected = std::iter::repeat_n(11, 200)
            .chain(std::iter::repeat_n(13, 200))
            .chain([14, 15]);
        assert!(delivered.iter().copied().eq(expected), "{delivered:?}");
        assert_eq!(mirror.revision(), Revision(15));
    }

    #[tokio::test]
    async fn a_watch_of_a_reset_mirror_ends_as_expired() {
        let mirror = Mirror::new(Revision(10), Vec::new());
        mirror.repeat(vec![put("a", 11)]);
        let mut idle = mirror.watch(&Range::all("pods"), Revision(11)).await.unwrap();
        assert!(idle.next().now_or_never().is_none());
        mirror.reset(Revision(50), Vec::new());
        let expired = idle.next().now_or_never().unwrap().unwrap().unwrap_err();
        let (requested, oldest) = (Revision(11), Revision(50));
        assert_eq!(expired, StoreError::Expired { requested, oldest });
        assert!(mirror.watch(&Range::all("pods"), Revision(50)).await.is_ok());
        // The other store may even have gone back.
        mirror.reset(Revision(5), Vec::new());
        assert_eq!(mirror.revision(), Revision(5));
    }

    #[tokio::test]
    async fn a_revision_that_wrote_elsewhere_is_no_change_here() {
        let mirror = Mirror::new(Revision(10), Vec::new());
        mirror.advance(Revision(20));
        let listing = mirror.list(&Range::all("pods"), Page::default()).await.unwrap();
        assert_eq!(listing.revision, Revision(20));
        assert!(mirror.watch(&Range::all("pods"), Revision(10)).await.is_ok());
    }
}
