//! Versioned Kubernetes objects with watch: one trait, several backends.
//!
//! A store maps keys to objects, gives every write the next number of one global revision and replays changes in
//! that order. It never looks into an object beyond `metadata`, knows no kinds and no users, and uses time only to limit
//! its history.
//!
//! [`MemoryStore`] starts no threads and no tasks: all of its work happens in the caller's poll. [`FileStore`]
//! stores the same in a folder and has one thread that writes. The backend on etcd is a crate of its own
//! (`cluster/store-etcd`), because it needs a network; it reads from a [`Mirror`]. All pass one suite
//! (`tests/it/suite.rs`).

mod error;
mod file;
mod key;
mod link;
mod memory;
mod mirror;
mod object;
mod write;

use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::BoxStream;

pub use error::StoreError;
pub use file::{FileError, FileOptions, FileStore};
pub use key::{Key, Range, Revision};
pub use link::Link;
pub use memory::{
    HISTORY_AGE_MAX, HISTORY_BURST_BYTES_MAX, HISTORY_BURST_CHANGES_MAX, HISTORY_BYTES_MAX, HISTORY_CHANGES_MAX,
    HISTORY_CHANGES_MIN, HISTORY_FRESH_AGE, MemoryStore, SWEEP_EVERY,
};
pub use mirror::{Mirror, Repeated};
pub use object::{DEPTH_MAX, Meta, Object, Owner};

/// An object at the place and revision where it was last written.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Where it lives.
    pub key: Key,
    /// The revision of its last write; of a deletion, the deletion's own revision.
    pub revision: Revision,
    /// What was written. `metadata.resourceVersion` is not in it: render it with [`Object::render`].
    pub object: Arc<Object>,
}

/// Which part of a listing is requested.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// At most so many entries; `None` gives all.
    pub limit: Option<NonZeroUsize>,
    /// Only entries behind this key, which need not exist any more.
    pub after: Option<Key>,
    /// The state as of this revision instead of the newest. Answered exactly or refused with [`StoreError::Expired`].
    pub at: Option<Revision>,
}

/// One page of a listing: every entry is the object as it was at `revision`.
#[derive(Clone, Debug)]
pub struct Listing {
    /// In key order.
    pub entries: Vec<Entry>,
    /// The revision that the entries show; a watch from here misses nothing and repeats nothing.
    pub revision: Revision,
    /// How many entries of the range lie behind the last one of this page, at the same revision.
    pub remaining: usize,
}

impl Listing {
    /// Whether another page follows.
    pub fn more(&self) -> bool {
        self.remaining > 0
    }
}

/// What happened to a key.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    /// Created (`previous` is none) or replaced.
    Put {
        /// What stood there before.
        previous: Option<Arc<Object>>,
    },
    /// Removed; the entry shows the last state at the deletion's revision.
    Delete {
        /// What stood there before; the same object as the entry's.
        previous: Arc<Object>,
    },
}

/// One write, as every watcher of its range sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Created, replaced or removed.
    pub kind: ChangeKind,
    /// The object after the write (of a deletion: its last state) and the write's revision.
    pub entry: Entry,
}

impl Change {
    /// The object before the write, if there was one.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        match &self.kind {
            ChangeKind::Put { previous } => previous.as_ref(),
            ChangeKind::Delete { previous } => Some(previous),
        }
    }

    /// Whether the write removed the object.
    pub fn is_delete(&self) -> bool {
        matches!(self.kind, ChangeKind::Delete { .. })
    }
}

/// Changes in revision order, without gap or repetition. An error is the last item: [`StoreError::Expired`] when the
/// reader was so slow that the history no longer reaches back to it, [`StoreError::Unavailable`] when the store went
/// away. While the store exists, the stream does not end without an error.
pub type Changes = BoxStream<'static, Result<Arc<Change>, StoreError>>;

/// Versioned objects with watch.
///
/// All writes are ordered by one revision. A write is visible to every read and every watch that starts after it
/// returned.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The newest state of one key; `None` when nothing is there.
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError>;

    /// One page of a range, consistent at one revision.
    ///
    /// Errors: [`StoreError::Expired`] when `page.at` lies before the history, [`StoreError::Ahead`] when the store has
    /// not come so far.
    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError>;

    /// Writes an object where none is. Errors: [`StoreError::Exists`].
    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError>;

    /// Replaces the object last written at `expected`. Errors: [`StoreError::Missing`], [`StoreError::Conflict`].
    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError>;

    /// Removes the object last written at `expected`; the entry carries the deletion's revision. Errors:
    /// [`StoreError::Missing`], [`StoreError::Conflict`].
    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError>;

    /// Every change of the range after `from`.
    ///
    /// Errors: [`StoreError::Expired`] when the history does not reach back to `from`, [`StoreError::Ahead`] when the
    /// store has not come so far (it is another store than the one `from` was read from).
    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError>;

    /// The revision of the newest write.
    async fn revision(&self) -> Result<Revision, StoreError>;

    /// A view of this store for a writer that decides by other objects than the one it writes: a write through it happens
    /// only if there was no write through another view since this call, and is refused with [`StoreError::Overtaken`]
    /// otherwise. What is read after the call shows all that was written through views before. `None`: no other process
    /// writes here, so a lock in this process is enough.
    ///
    /// Errors: [`StoreError::Unavailable`].
    async fn turn(&self) -> Result<Option<Arc<dyn Store>>, StoreError> {
        Ok(None)
    }
}
