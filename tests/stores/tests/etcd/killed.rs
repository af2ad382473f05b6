//! etcd is killed under load and started again where it was.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cluster_store::{Change, Key, Page, Range, Revision, Store, StoreError};
use cluster_store_etcd::EtcdStore;
use futures::{FutureExt, StreamExt};
use tests_parts::Etcd;

use crate::suite::{object, pod};
use crate::{next_change, options};

/// What writers know of their own keys when all is over.
#[derive(Default)]
struct Ledger {
    /// Contents by the revisions that acknowledged them.
    acknowledged: BTreeMap<Revision, (Key, i64)>,
    /// Sent, and no answer showed the outcome.
    unknown: Vec<(Key, i64)>,
}

/// Writes its own key again and again until `stop` is set.
async fn write(store: Arc<EtcdStore>, writer: usize, stop: Arc<AtomicBool>) -> Ledger {
    let mut ledger = Ledger::default();
    let key = pod("n", &format!("w{writer}"));
    let mut content = 0;
    while !stop.load(Ordering::Relaxed) {
        let found = match store.get(&key).await {
            Ok(found) => found,
            Err(StoreError::Unavailable(_)) => continue,
            Err(other) => panic!("{other}"),
        };
        content += 1;
        let object = object(&key.name, content);
        let written = match found {
            None => store.create(key.clone(), object).await,
            Some(found) => store.update(&key, found.revision, object).await,
        };
        match written {
            Ok(entry) => drop(ledger.acknowledged.insert(entry.revision, (key.clone(), content))),
            Err(StoreError::Unavailable(_)) => ledger.unknown.push((key.clone(), content)),
            // There is no other writer of this key: an outcome that was unknown has come true meanwhile.
            Err(StoreError::Conflict { .. } | StoreError::Exists { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    ledger
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_etcd_loses_nothing_acknowledged_and_watches_go_on_without_gap_or_repetition() {
    const WRITERS: usize = 8;
    const KILLS: usize = 5;
    let mut etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let store = Arc::new(EtcdStore::new(&options(&etcd.url(), "/killed")).unwrap());
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| tokio::spawn(write(store.clone(), writer, stop.clone())))
        .collect();

    let mut changes: Vec<(Revision, Key, i64)> = Vec::new();
    for _ in 0..KILLS {
        // Every kill meets writers at work.
        for _ in 0..300 {
            let change = next_change(&mut watch).await;
            changes.push(content(&change));
        }
        etcd = tokio::task::spawn_blocking(move || {
            etcd.kill();
            etcd.start_again().unwrap_or_else(|why| panic!("{why}"));
            etcd
        })
        .await
        .unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    let mut ledger = Ledger::default();
    for writer in writers {
        let of_one = writer.await.unwrap();
        ledger.acknowledged.extend(of_one.acknowledged);
        ledger.unknown.extend(of_one.unknown);
    }
    let newest = store.revision().await.unwrap();
    while let Some(change) = watch.next().now_or_never() {
        changes.push(content(&change.unwrap().unwrap()));
    }
    assert!(
        changes.is_sorted_by(|one, next| one.0 < next.0),
        "each once and in order"
    );
    assert!(changes.last().is_some_and(|(revision, ..)| *revision <= newest));
    let seen: BTreeMap<_, _> = changes
        .iter()
        .map(|(revision, key, content)| (*revision, (key.clone(), *content)))
        .collect();
    for (revision, write) in &ledger.acknowledged {
        assert_eq!(seen.get(revision), Some(write), "acknowledged at {revision}");
    }
    for (revision, write) in &seen {
        let known = ledger.acknowledged.contains_key(revision) || ledger.unknown.contains(write);
        assert!(known, "{write:?} at {revision} was never asked for, or asked for twice");
    }
    let mut every: Vec<_> = seen.values().collect();
    every.sort();
    every.dedup();
    assert_eq!(every.len(), seen.len(), "no write happened twice");

    // A server that begins now reads the same.
    let fresh = EtcdStore::new(&options(&etcd.url(), "/killed")).unwrap();
    let (one, other) = (
        store.list(&Range::all("pods"), Page::default()).await.unwrap(),
        fresh.list(&Range::all("pods"), Page::default()).await.unwrap(),
    );
    assert_eq!(one.entries, other.entries);
    assert_eq!(one.entries.len(), WRITERS);
}

fn content(change: &Change) -> (Revision, Key, i64) {
    let entry = &change.entry;
    let content = entry.object.value(entry.revision)["content"].as_i64().unwrap();
    (entry.revision, entry.key.clone(), content)
}
