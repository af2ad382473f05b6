//! Pages that a file no longer needs go back to the disk, without effect on readers and writers.

use std::path::Path;

use cluster_store::{Changes, Entry, FileOptions, FileStore, HISTORY_BURST_BYTES_MAX, Key, Object, Page, Range, Store};
use futures::{FutureExt, StreamExt};
use serde_json::json;

use crate::file::folder_in_memory;
use crate::suite::object;

const MIB: u64 = 1 << 20;
/// Each of 20 KB, far more together than those whose deletion a watch can still deliver.
const LARGE: usize = 3000;
/// The largest file with nothing but a full history in it: above four times that, it is compacted.
const LEFT: u64 = 4 * (HISTORY_BURST_BYTES_MAX as u64 + MIB);
/// Far more than any compaction lasts.
const WRITES_MAX: i64 = 20_000;
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

async fn open(folder: &Path, compact_above_bytes: u64) -> FileStore {
    let options = FileOptions {
        compact_above_bytes,
        ..FileOptions::default()
    };
    FileStore::open(folder, options).await.unwrap()
}

fn bytes(folder: &Path) -> u64 {
    std::fs::metadata(folder.join("store.redb")).unwrap().len()
}

/// Leaves a file that is mostly free space, with some objects in it; returns its size when it was full. It may shrink before
/// the last object is gone.
async fn fill_and_empty(store: &FileStore, folder: &Path) -> u64 {
    let pad = "p".repeat(20_000);
    let mut entries = Vec::new();
    for number in 0..LARGE {
        let name = format!("large-{number}");
        let large = Object::from_value(json!({"metadata": {"name": name}, "pad": pad})).unwrap();
        entries.push(store.create(Key::new("secrets", Some("n"), name), large).await.unwrap());
    }
    for number in 0..50 {
        let name = format!("stays-{number}");
        let stays = store.create(Key::new("nodes", None, name.as_str()), object(&name, number));
        stays.await.unwrap();
    }
    let full = bytes(folder);
    // The objects that stay lie behind the deleted ones.
    for entry in entries {
        store.delete(&entry.key, entry.revision).await.unwrap();
    }
    full
}

async fn all(store: &FileStore) -> Vec<Entry> {
    let mut entries = Vec::new();
    for resource in ["nodes", "pods", "secrets"] {
        entries.extend(
            store
                .list(&Range::all(resource), Page::default())
                .await
                .unwrap()
                .entries,
        );
    }
    entries
}

/// Writes twice, and on until the file is smaller than this. The watch delivers all that is written.
async fn write_until_smaller(store: &FileStore, folder: &Path, limit: u64, watch: &mut Changes) -> Vec<Entry> {
    let key = Key::new("pods", Some("n"), "x");
    let mut written = vec![store.create(key.clone(), object("x", 0)).await.unwrap()];
    let mut delivered = 0;
    while written.len() < 2 || bytes(folder) > limit {
        // Whoever waits longer may fall off the history.
        assert_eq!(watch.next().await.unwrap().unwrap().entry, written[delivered]);
        delivered += 1;
        let last = written.last().unwrap();
        let content = i64::try_from(written.len()).unwrap();
        assert!(
            content < WRITES_MAX,
            "the file still has {} bytes of which it should lose all but {limit}",
            bytes(folder)
        );
        written.push(store.update(&key, last.revision, object("x", content)).await.unwrap());
    }
    for entry in &written[delivered..] {
        assert_eq!(&watch.next().await.unwrap().unwrap().entry, entry);
    }
    written
}

#[tokio::test]
async fn file_of_mostly_free_space_shrinks_while_it_is_written_and_loses_nothing() {
    let folder = folder_in_memory();
    let store = open(folder.path(), MIB).await;
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
    let full = fill_and_empty(&store, folder.path()).await;
    assert!(full > 2 * LEFT, "{full}");

    let written = write_until_smaller(&store, folder.path(), LEFT, &mut watch).await;
    assert!(watch.next().now_or_never().is_none(), "nothing else was written");
    let expected = all(&store).await;
    assert_eq!(expected.len(), 51);
    // What was written before, while and after it was copied is in the file.
    let after = store
        .create(Key::new("pods", Some("n"), "y"), object("y", 0))
        .await
        .unwrap();
    store.close().await.unwrap();
    assert!(!folder.path().join("store.redb.new").exists());
    let again = open(folder.path(), MIB).await;
    assert_eq!(again.get(&after.key).await.unwrap(), Some(after.clone()));
    again.delete(&after.key, after.revision).await.unwrap();
    assert_eq!(all(&again).await, expected);
    let from = written[written.len() - 2].revision;
    let mut watch = again.watch(&Range::all("pods"), from).await.expect("a watch resumes");
    assert_eq!(watch.next().await.unwrap().unwrap().entry, written[written.len() - 1]);
}

#[tokio::test]
async fn a_mostly_empty_store_shrinks_after_opening_without_writes() {
    let folder = folder_in_memory();
    let store = open(folder.path(), u64::MAX).await;
    fill_and_empty(&store, folder.path()).await;
    crate::suite::overwrite(&store, "pods", 10, 0).await;
    let expected = all(&store).await;
    // As a killed process leaves it: a clean end gives back what lies at the end of the file.
    let copy = folder_in_memory();
    for file in ["store.redb", "lock"] {
        std::fs::copy(folder.path().join(file), copy.path().join(file)).unwrap();
    }
    std::fs::write(copy.path().join("store.redb.new"), "half a copy").unwrap();
    assert!(bytes(copy.path()) > 2 * LEFT);
    let again = open(copy.path(), MIB).await;
    // Closing waits for nothing that is under way, so look until the step is done.
    let begun = std::time::Instant::now();
    while bytes(copy.path()) > LEFT {
        assert!(
            begun.elapsed() < PATIENCE,
            "the file still has {} bytes",
            bytes(copy.path())
        );
        tokio::task::yield_now().await;
    }
    assert_eq!(all(&again).await, expected);
    again.close().await.unwrap();
    assert_eq!(all(&open(copy.path(), MIB).await).await, expected);
}
