//! The store's memory backend: ordered maps, one revision, a bounded history per resource.
//!
//! A watcher is a cursor into the history of its resource, so a change is stored once however many watch it. All work
//! happens under one short lock in the caller's poll; nothing blocks, nothing is spawned.

mod load;
mod notifier;
mod table;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt, stream};
use tokio::time::Instant;

use crate::write::{Decided, DecidedKind, Write};
use crate::{Change, Changes, Entry, Key, Listing, Object, Page, Range, Revision, Store, StoreError};
pub(crate) use load::Loader;
use notifier::Notifier;
use table::{Dropped, Recorded, Table};

/// Changes retained per resource for watches that resume and lists that go on. About what kube-apiserver's watch cache
/// starts with for a busy resource; for a reader that lags further, a new list is cheaper.
pub const HISTORY_CHANGES_MAX: usize = 1024;
/// Bytes of superseded objects retained per resource, so that hundreds of stores with large objects fit one process.
pub const HISTORY_BYTES_MAX: usize = 512 << 10;
/// Changes retained however large they are: a burst within one scheduling round must not expire every watcher.
pub const HISTORY_CHANGES_MIN: usize = 64;
/// How long the history of a burst is retained beyond [`HISTORY_CHANGES_MAX`] and [`HISTORY_BYTES_MAX`], so that
/// watchers need not keep pace with it: as in kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/storage/cacher/watch_cache.go (eventFreshDuration).
pub const HISTORY_FRESH_AGE: Duration = Duration::from_secs(75);
/// Changes retained per resource however young they are: sixteen seconds of a thousand writes a second.
pub const HISTORY_BURST_CHANGES_MAX: usize = 16 * HISTORY_CHANGES_MAX;
/// Bytes of superseded objects retained per resource however young they are.
pub const HISTORY_BURST_BYTES_MAX: usize = 16 * HISTORY_BYTES_MAX;
/// How long a change is retained: the time between two compactions of etcd by kube-apiserver (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/storage/storagebackend/config.go, DefaultCompactInterval). A watch with bookmarks
/// receives its version every minute. Counted on tokio's clock, which tests move; older changes are dropped by the
/// next write to their resource, or by one to another within [`SWEEP_EVERY`]. A store without writes drops nothing.
pub const HISTORY_AGE_MAX: Duration = Duration::from_secs(300);
/// How often a write drops too old changes of all resources.
pub const SWEEP_EVERY: Duration = Duration::from_secs(30);
/// Changes a watcher takes per lock, so that a long replay does not hold up writers.
const WATCH_BATCH_MAX: usize = 64;

/// Objects in memory. Clones share one content, which is dropped with the last clone and the last watch.
#[derive(Clone)]
pub struct MemoryStore {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    /// The revision at which it began or was last reset.
    start: Revision,
    /// How often it was reset: a watch from before has missed changes that the store does not have.
    epoch: u64,
    revision: Revision,
    tables: BTreeMap<Arc<str>, Table>,
    /// When too old changes of all tables were last dropped.
    swept: Instant,
}

impl Default for MemoryStore {
    fn default() -> Self {
        MemoryStore::new()
    }
}

impl MemoryStore {
    /// An empty store at revision 1: Kubernetes gives 0 the meaning "any".
    pub fn new() -> Self {
        MemoryStore::starting_at(Revision(1))
    }

    /// An empty store whose first write gets the revision after `start`. The replacement of a lost store starts beyond
    /// the old one's last revision, so that old readers have to list again.
    pub fn starting_at(start: Revision) -> Self {
        let state = State {
            start,
            epoch: 0,
            revision: start,
            tables: BTreeMap::new(),
            swept: Instant::now(),
        };
        MemoryStore {
            shared: Arc::new(Shared {
                state: Mutex::new(state),
            }),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state
            .lock()
            .expect("no holder of this lock panics: it only moves pointers")
    }
}

impl State {
    fn table(&mut self, resource: &Arc<str>) -> &mut Table {
        if !self.tables.contains_key(resource) {
            self.tables.insert(resource.clone(), Table::new(self.start));
        }
        self.tables.get_mut(resource).expect("it was inserted above")
    }

    fn get(&self, key: &Key) -> Option<&Entry> {
        self.tables.get(&key.resource)?.get(key)
    }

    /// Applies a decided write, and from time to time drops too old changes of all tables. Returns the notifiers to wake once
    /// the lock is free again: waking a thousand watchers would block every reader.
    #[must_use]
    fn apply(&mut self, decided: Decided, now: Instant, forgotten: &mut Forgotten) -> Vec<Arc<Notifier>> {
        let Decided {
            kind,
            entry,
            previous: _,
        } = decided;
        self.revision = entry.revision;
        let resource = entry.key.resource.clone();
        let table = self.table(&resource);
        let Recorded { dropped, notifiers } = match kind {
            DecidedKind::Put => table.put(entry, now),
            DecidedKind::Delete => table.delete(&entry.key, entry.revision, now),
        };
        forgotten.add(&resource, dropped);
        if now.saturating_duration_since(self.swept) >= SWEEP_EVERY {
            self.swept = now;
            for (resource, table) in &mut self.tables {
                forgotten.add(resource, table.forget(now));
            }
        }
        notifiers
    }
}

/// What a backend that stores objects elsewhere needs from the memory it reads from.
impl MemoryStore {
    /// The newest revision.
    pub(crate) fn newest(&self) -> Revision {
        self.shared.lock().revision
    }

    /// Whether the write may happen now.
    pub(crate) fn validate(&self, write: &Write) -> Result<(), StoreError> {
        write.validate(self.shared.lock().get(write.key()))
    }

    /// What stands at the key now.
    pub(crate) fn current(&self, key: &Key) -> Option<Entry> {
        self.shared.lock().get(key).cloned()
    }

    /// Applies decided writes, in this order and at once for every reader.
    pub(crate) fn apply(&self, decided: Vec<Decided>, forgotten: &mut Forgotten) {
        let (mut state, now) = (self.shared.lock(), Instant::now());
        let notifiers: Vec<_> = decided
            .into_iter()
            .flat_map(|decided| state.apply(decided, now, forgotten))
            .collect();
        drop(state);
        notifiers.iter().for_each(|notifier| notifier.wake());
    }

    /// Notes that nothing has happened up to this revision beyond what is known.
    pub(crate) fn advance(&self, to: Revision) {
        let mut state = self.shared.lock();
        state.revision = state.revision.max(to);
    }

    /// Replaces all content by these entries at this revision. Open watches end with [`StoreError::Expired`].
    pub(crate) fn reset(&self, revision: Revision, entries: Vec<Entry>) {
        let mut state = self.shared.lock();
        let before = std::mem::take(&mut state.tables);
        state.epoch += 1;
        state.start = revision;
        state.revision = revision;
        for entry in entries {
            let resource = entry.key.resource.clone();
            state.table(&resource).put_unrecorded(entry);
        }
        for mut table in before.into_values() {
            table.notifiers().end();
        }
    }

    async fn write(&self, write: Write) -> Result<Entry, StoreError> {
        // A caller that writes in a loop must let watchers run, or they fall off the history.
        tokio::task::consume_budget().await;
        let mut state = self.shared.lock();
        let next = Revision(state.revision.0 + 1);
        let current = state.get(write.key());
        let decided = write.decide(current, next)?;
        let entry = decided.entry.clone();
        let notifiers = state.apply(decided, Instant::now(), &mut Forgotten::default());
        drop(state);
        notifiers.iter().for_each(|notifier| notifier.wake());
        Ok(entry)
    }
}

/// What the history has dropped since the last look.
#[derive(Default)]
pub(crate) struct Forgotten {
    /// Revisions whose object or deletion can no longer be read.
    pub(crate) rows: Vec<Revision>,
    /// Per resource: changes up to and including this revision are no longer available.
    pub(crate) horizons: BTreeMap<Arc<str>, Revision>,
}

impl Forgotten {
    fn add(&mut self, resource: &Arc<str>, dropped: Option<Dropped>) {
        if let Some(Dropped { rows, horizon }) = dropped {
            self.rows.extend(rows);
            self.horizons.insert(resource.clone(), horizon);
        }
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Entry>, StoreError> {
        Ok(self.current(key))
    }

    async fn list(&self, range: &Range, page: Page) -> Result<Listing, StoreError> {
        let state = self.shared.lock();
        let current = state.revision;
        let at = page.at.unwrap_or(current);
        if at > current {
            return Err(StoreError::Ahead { requested: at, current });
        }
        match state.tables.get(&range.resource) {
            Some(table) => table.list(range, &page, at),
            None if at < state.start => Err(StoreError::Expired {
                requested: at,
                oldest: state.start,
            }),
            None => Ok(Listing {
                entries: Vec::new(),
                revision: at,
                remaining: 0,
            }),
        }
    }

    async fn create(&self, key: Key, object: Object) -> Result<Entry, StoreError> {
        self.write(Write::Create { key, object }).await
    }

    async fn update(&self, key: &Key, expected: Revision, object: Object) -> Result<Entry, StoreError> {
        let key = key.clone();
        self.write(Write::Update { key, expected, object }).await
    }

    async fn delete(&self, key: &Key, expected: Revision) -> Result<Entry, StoreError> {
        let key = key.clone();
        self.write(Write::Delete { key, expected }).await
    }

    async fn watch(&self, range: &Range, from: Revision) -> Result<Changes, StoreError> {
        let mut state = self.shared.lock();
        let current = state.revision;
        if from > current {
            return Err(StoreError::Ahead {
                requested: from,
                current,
            });
        }
        let epoch = state.epoch;
        let table = state.table(&range.resource);
        table.reaches(from)?;
        let watcher = Watcher {
            shared: self.shared.clone(),
            epoch,
            range: range.clone(),
            cursor: from,
            notifier: table.notifiers().subscribe(range),
            batch: VecDeque::new(),
        };
        Ok(stream::unfold(Some(watcher), next_change).boxed())
    }

    async fn revision(&self) -> Result<Revision, StoreError> {
        Ok(self.newest())
    }
}

/// A cursor into the history of one resource. Only changes of its range wake it, and it expires only when one of them was
/// dropped from the history before it was delivered.
struct Watcher {
    shared: Arc<Shared>,
    /// The store's when it began.
    epoch: u64,
    range: Range,
    /// Everything up to here has been handed out, put into the batch, or lies outside the range.
    cursor: Revision,
    notifier: Arc<Notifier>,
    batch: VecDeque<Arc<Change>>,
}

/// The next change, waiting for it; after an error there is nothing more.
async fn next_change(watcher: Option<Watcher>) -> Option<(Result<Arc<Change>, StoreError>, Option<Watcher>)> {
    let mut watcher = watcher?;
    loop {
        if let Some(change) = watcher.batch.pop_front() {
            return Some((Ok(change), Some(watcher)));
        }
        watcher.notifier.newer_than(watcher.cursor).await;
        if let Err(expired) = watcher.take_batch() {
            return Some((Err(expired), None));
        }
    }
}

impl Watcher {
    fn take_batch(&mut self) -> Result<(), StoreError> {
        let state = self.shared.lock();
        if state.epoch != self.epoch {
            return Err(StoreError::Expired {
                requested: self.cursor,
                oldest: state.start,
            });
        }
        let table = state
            .tables
            .get(&self.range.resource)
            .expect("the watch created its table and tables stay");
        table.reaches_for(&self.notifier, self.cursor)?;
        self.cursor = table.since(self.cursor, &self.range, WATCH_BATCH_MAX, &mut self.batch);
        Ok(())
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        if state.epoch == self.epoch {
            state
                .table(&self.range.resource)
                .notifiers()
                .unsubscribe(&self.range, &self.notifier);
        }
    }
}
