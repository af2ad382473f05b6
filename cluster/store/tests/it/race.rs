//! Writers that race for a few keys: every write that was acknowledged has happened at the
//! revision that was returned, on what its writer had read, and nothing else has.

use std::collections::BTreeMap;
use std::sync::Arc;

use cluster_store::{Entry, Key, Page, Range, Revision, Store, StoreError};
use futures::future::join_all;
use futures::{FutureExt, StreamExt};

use crate::suite::{object, pod};

const WRITERS: i64 = 16;
const WRITES: i64 = 40;
const KEYS: i64 = 5;

/// A write that was acknowledged: at its revision, what it replaced and what it left.
#[derive(Debug, PartialEq)]
struct Won {
    key: Key,
    replaced: Option<Revision>,
    /// None: it was a deletion.
    content: Option<i64>,
}

pub(crate) async fn racing_writers_each_win_what_was_acknowledged(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
    let writers = (0..WRITERS).map(|writer| tokio::spawn(write(store.clone(), writer)));
    let mut won = BTreeMap::new();
    for writes in join_all(writers).await {
        for (revision, write) in writes.unwrap() {
            assert_eq!(won.insert(revision, write), None, "revision {revision} was given twice");
        }
    }
    assert!(won.keys().all(|revision| *revision > start));

    let mut state: BTreeMap<Key, (Revision, i64)> = BTreeMap::new();
    let mut left = won.iter();
    while let Some(change) = watch.next().now_or_never() {
        let change = change.unwrap().unwrap();
        let (revision, write) = left.next().expect("every delivered change was written");
        let entry = &change.entry;
        let content = (!change.is_delete()).then(|| content(entry));
        assert_eq!(
            (entry.revision, &entry.key, content),
            (*revision, &write.key, write.content)
        );
        let before = match content {
            Some(content) => state.insert(write.key.clone(), (*revision, content)),
            None => state.remove(&write.key),
        };
        assert_eq!(
            before.map(|(revision, _)| revision),
            write.replaced,
            "{write:?} at {revision}"
        );
    }
    assert_eq!(left.next(), None, "every write was delivered");
    let listing = store.list(&Range::all("pods"), Page::default()).await.unwrap();
    let listed = listing
        .entries
        .iter()
        .map(|entry| (entry.key.clone(), (entry.revision, content(entry))));
    assert_eq!(listed.collect::<BTreeMap<_, _>>(), state);
}

fn content(entry: &Entry) -> i64 {
    entry.object.value(entry.revision)["content"].as_i64().unwrap()
}

async fn write(store: Arc<dyn Store>, writer: i64) -> Vec<(Revision, Won)> {
    let mut won = Vec::new();
    for number in 0..WRITES {
        let key = pod("n", &format!("k{}", (writer * 7 + number * number) % KEYS));
        let found = store.get(&key).await.unwrap();
        // What was read is stale by the time it is used, often enough.
        tokio::task::yield_now().await;
        let id = writer * WRITES + number;
        let replaced = found.as_ref().map(|found| found.revision);
        let (written, content) = match &found {
            None => (store.create(key.clone(), object(&key.name, id)).await, Some(id)),
            Some(found) if number % 5 == 0 => (store.delete(&key, found.revision).await, None),
            Some(found) => (
                store.update(&key, found.revision, object(&key.name, id)).await,
                Some(id),
            ),
        };
        match written {
            Ok(entry) => won.push((entry.revision, Won { key, replaced, content })),
            Err(StoreError::Exists { .. } | StoreError::Conflict { .. } | StoreError::Missing { .. }) => {}
            Err(other) => panic!("{other}"),
        }
    }
    won
}
