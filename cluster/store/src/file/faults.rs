//! Faults between the store and its disk: operations that fail, and syncs that wait. Tests of faults that no test can
//! provoke on a real disk.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use futures::{FutureExt, StreamExt};
use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};
use serde_json::json;

use super::disk::{Medium, Plain};
use super::writer::Writer;
use super::{FileError, FileOptions, FileStore};
use crate::{Key, Object, Page, Range, Revision, Store, StoreError};

/// Far longer than a busy machine takes to come to a sync.
const SYNC_WAIT_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug, Default)]
pub(super) struct Faults(Arc<(Mutex<Plan>, Condvar)>);

#[derive(Debug, Default)]
struct Plan {
    /// After so many more writing operations all fail with this kind.
    fail: Option<(usize, io::ErrorKind)>,
    hold_syncs: bool,
    held: usize,
    syncs: usize,
}

impl Faults {
    pub(super) fn fail_after(&self, operations: usize, kind: io::ErrorKind) {
        self.0.0.lock().unwrap().fail = Some((operations, kind));
    }

    /// Lets everything succeed again, and returns whether anything failed.
    pub(super) fn heal(&self) -> bool {
        matches!(self.0.0.lock().unwrap().fail.take(), Some((0, _)))
    }

    fn hold_syncs(&self) {
        self.0.0.lock().unwrap().hold_syncs = true;
    }

    fn release_syncs(&self) {
        self.0.0.lock().unwrap().hold_syncs = false;
        self.0.1.notify_all();
    }

    /// Blocks until a sync is held; fails when no sync comes.
    fn wait_for_held_sync(&self) {
        let plan = self.0.0.lock().unwrap();
        let wait = self.0.1.wait_timeout_while(plan, SYNC_WAIT_MAX, |plan| plan.held == 0);
        let (plan, waited) = wait.unwrap();
        drop(plan);
        assert!(!waited.timed_out(), "no commit waits for the disk");
    }

    fn syncs(&self) -> usize {
        self.0.0.lock().unwrap().syncs
    }

    fn operation(&self) -> io::Result<()> {
        match &mut self.0.0.lock().unwrap().fail {
            None => Ok(()),
            Some((0, kind)) => Err((*kind).into()),
            Some((left, _)) => {
                *left -= 1;
                Ok(())
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut plan = self.0.0.lock().unwrap();
        plan.syncs += 1;
        plan.held += 1;
        self.0.1.notify_all();
        let mut plan = self.0.1.wait_while(plan, |plan| plan.hold_syncs).unwrap();
        plan.held -= 1;
        drop(plan);
        self.operation()
    }
}

impl Medium for Faults {
    type Backend = Faulty;

    fn backend(&self, file: File) -> Faulty {
        Faulty {
            file: Plain.backend(file),
            faults: self.clone(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Faulty {
    file: FileBackend,
    faults: Faults,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.operation()?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.sync()?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.operation()?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.query_lock_range(start, end)
    }
}

async fn open(folder: &Path, faults: &Faults) -> Result<FileStore, FileError> {
    let (path, faults) = (folder.to_owned(), faults.clone());
    FileStore::start(folder.to_owned(), move || {
        let mut writer = Writer::open(&path, faults, FileOptions::default())?;
        writer.reopen_at_once();
        Ok(writer)
    })
    .await
}

fn pod(name: &str) -> Key {
    Key::new("pods", Some("n"), name)
}

/// Large enough that a few of them make the file grow.
fn object(name: &str, content: usize) -> Object {
    let pad = "p".repeat(100_000);
    Object::from_value(json!({"metadata": {"name": name}, "content": content, "pad": pad})).unwrap()
}

async fn contents(store: &FileStore) -> Vec<(String, Revision)> {
    let listing = store.list(&Range::all("pods"), Page::default()).await.unwrap();
    let named = listing.entries.iter();
    named
        .map(|entry| (entry.key.name.to_string(), entry.revision))
        .collect()
}

/// At every single operation of a commit in turn, the disk begins to fail.
async fn fails_at_every_operation(kind: io::ErrorKind, expected: &str) {
    let mut failures = 0;
    for operations in 0.. {
        let folder = tempfile::tempdir().unwrap();
        let faults = Faults::default();
        let store = open(folder.path(), &faults).await.unwrap();
        let mut watch = store.watch(&Range::all("pods"), Revision(1)).await.unwrap();
        let a = store.create(pod("a"), object("a", 0)).await.unwrap();
        let b = store.create(pod("b"), object("b", 0)).await.unwrap();
        let acknowledged = contents(&store).await;

        faults.fail_after(operations, kind);
        let failed = store.update(&b.key, b.revision, object("b", 1)).await;
        let went_through = failed.is_ok();
        if !went_through {
            let text = failed.unwrap_err().to_string();
            assert!(text.contains(expected) && text.contains("store.redb"), "{text}");
            assert_eq!(
                contents(&store).await,
                acknowledged,
                "reads go on and show what is durable"
            );
            let again = store.create(pod("c"), object("c", 0)).await;
            assert!(matches!(again, Err(StoreError::Unavailable(_))), "{again:?}");
        }
        let met_fault = faults.heal();
        failures += usize::from(!went_through);

        // Everything acknowledged is there. Whether the failed update was written is known only now.
        let c = store.create(pod("c"), object("c", 0)).await.unwrap();
        let now = contents(&store).await;
        assert_eq!(now[0], ("a".to_owned(), a.revision));
        assert!(now[1] == ("b".to_owned(), b.revision) || now[1].1 > b.revision && now[1].1 < c.revision);
        assert_eq!(now[2], ("c".to_owned(), c.revision));
        let mut delivered = Vec::new();
        while let Some(change) = watch.next().now_or_never() {
            delivered.push(change.unwrap().unwrap().entry.revision.0);
        }
        assert!(
            delivered.iter().copied().eq(2..=c.revision.0),
            "no change is missing or delivered twice: {delivered:?}"
        );

        drop(watch);
        store.close().await.unwrap();
        let reopened = FileStore::open(folder.path(), FileOptions::default()).await.unwrap();
        assert_eq!(contents(&reopened).await, now);
        reopened.close().await.unwrap();
        if !met_fault {
            assert!(failures >= 4, "a commit writes, syncs, writes and syncs: {failures}");
            return;
        }
    }
}

#[tokio::test]
async fn a_full_disk_fails_writes_without_loss_until_there_is_space() {
    fails_at_every_operation(io::ErrorKind::StorageFull, "no space is left").await;
}

#[tokio::test]
async fn a_failing_disk_fails_writes_without_loss_until_it_works_again() {
    fails_at_every_operation(io::ErrorKind::TimedOut, "see what ails its disk").await;
}

#[tokio::test]
async fn store_without_space_reports_it_and_can_be_created_later() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    for operations in [0, 1, 3, 7] {
        faults.fail_after(operations, io::ErrorKind::StorageFull);
        let error = open(folder.path(), &faults).await.err().unwrap();
        assert!(matches!(error, FileError::NoSpace { .. }), "{error}");
        assert!(faults.heal());
    }
    let store = open(folder.path(), &faults).await.unwrap();
    assert_eq!(contents(&store).await, []);
    store.create(pod("a"), object("a", 0)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_are_visible_only_once_durable_and_queued_ones_share_a_commit() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let store = open(folder.path(), &faults).await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), Revision(1)).await.unwrap();

    faults.hold_syncs();
    let write = |name: &'static str, content| {
        let store = store.clone();
        tokio::spawn(async move { store.create(pod(name), object(name, content)).await })
    };
    let first = write("a", 0);
    let waiting = faults.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for_held_sync())
        .await
        .unwrap();
    let rivals: Vec<_> = (0..3).map(|content| write("b", content)).collect();
    while store.shared.queue.capacity() > super::QUEUE_MAX - rivals.len() {
        tokio::task::yield_now().await;
    }
    assert_eq!(store.get(&pod("a")).await.unwrap(), None);
    assert_eq!(store.revision().await.unwrap(), Revision(1));
    assert!(watch.next().now_or_never().is_none());
    assert!(!first.is_finished());
    let before = faults.syncs();
    faults.release_syncs();

    let a = first.await.unwrap().unwrap();
    let mut won = Vec::new();
    let mut refused = Vec::new();
    for rival in rivals {
        match rival.await.unwrap() {
            Ok(entry) => won.push(entry),
            Err(refusal) => refused.push(refusal),
        }
    }
    assert_eq!((won.len(), refused.len()), (1, 2));
    let b = won.remove(0);
    for refusal in refused {
        assert_eq!(refusal, StoreError::Exists { current: b.clone() });
    }
    assert_eq!((a.revision, b.revision), (Revision(2), Revision(3)));
    for entry in [a, b] {
        assert_eq!(watch.next().await.unwrap().unwrap().entry, entry);
    }
    assert!(
        faults.syncs() - before <= 4,
        "two for the first, two for all the others"
    );
}

#[tokio::test]
async fn refusal_because_of_a_write_that_fails_fails_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::default();
    let store = open(folder.path(), &faults).await.unwrap();
    faults.hold_syncs();
    let first = tokio::spawn({
        let store = store.clone();
        async move { store.create(pod("a"), object("a", 0)).await }
    });
    let waiting = faults.clone();
    tokio::task::spawn_blocking(move || waiting.wait_for_held_sync())
        .await
        .unwrap();
    let rivals = futures::future::join_all((0..2).map(|content| store.create(pod("b"), object("b", content))));
    let mut rivals = std::pin::pin!(rivals);
    assert!(rivals.as_mut().now_or_never().is_none(), "both are in the queue");
    // What is left of the held commit: this sync, the byte that makes it count, and its sync.
    faults.fail_after(3, io::ErrorKind::StorageFull);
    faults.release_syncs();
    first.await.unwrap().unwrap();
    for answer in rivals.await {
        assert!(matches!(answer, Err(StoreError::Unavailable(_))), "{answer:?}");
    }
    faults.heal();
    assert_eq!(store.get(&pod("b")).await.unwrap(), None);
    store.create(pod("b"), object("b", 2)).await.unwrap();
}
