//! Stores that have just begun, on an etcd that others write to: a list shows what was written before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster_store::{Key, Page, Range, Revision, Store};
use cluster_store_etcd::EtcdStore;
use tests_parts::Etcd;
use tokio::task::JoinSet;

use crate::options;
use crate::suite::object;

/// How many stores begin, one after the other.
const BEGINNINGS: i64 = 60;
/// What each of them reads, as many as a garden has kinds.
const KINDS: u64 = 40;
/// Between two kinds that are read for the first time: their watches are added while others are being confirmed.
const BETWEEN: Duration = Duration::from_micros(700);
/// Who writes meanwhile.
const WRITERS: u64 = 4;

fn kind(number: u64) -> String {
    format!("kind{number}")
}

async fn write(store: &EtcdStore, kind: &str, content: i64) -> Revision {
    let key = Key::new(kind, Some("n"), "one");
    let object = object(&key.name, content);
    let written = match store.get(&key).await.unwrap() {
        None => store.create(key, object).await,
        Some(found) => store.update(&key, found.revision, object).await,
    };
    written.unwrap().revision
}

/// Writes and lists a few times; returns what lists did not show.
async fn write_and_list(store: Arc<EtcdStore>, number: u64, content: i64) -> Vec<String> {
    tokio::time::sleep(BETWEEN * u32::try_from(number).unwrap()).await;
    let kind = kind(number);
    let mut missed = Vec::new();
    for _ in 0..3 {
        let written = write(&store, &kind, content).await;
        let listed = store.list(&Range::all(kind.as_str()), Page::default()).await.unwrap();
        let shown = listed.entries.first().map(|entry| entry.revision);
        if shown != Some(written) {
            let at = listed.revision;
            missed.push(format!(
                "{kind} was written at {written}; the list of {at} shows {shown:?}"
            ));
        }
    }
    missed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn store_that_has_just_begun_lists_what_it_has_written() {
    let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let new = || EtcdStore::new(&options(&etcd.url(), "/begun")).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let mut writers = JoinSet::new();
    for number in KINDS..KINDS + WRITERS {
        let (store, stop) = (new(), stop.clone());
        writers.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                write(&store, &kind(number), 0).await;
            }
        });
    }
    let mut missed = Vec::new();
    for beginning in 0..BEGINNINGS {
        let store = Arc::new(new());
        let mut readers: JoinSet<Vec<String>> = (0..KINDS)
            .map(|number| write_and_list(store.clone(), number, beginning))
            .collect();
        while let Some(of_kind) = readers.join_next().await {
            missed.extend(of_kind.unwrap());
        }
    }
    stop.store(true, Ordering::Relaxed);
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    assert_eq!(missed, Vec::<String>::new());
}
