//! The suite of all backends on a real etcd, and what only that backend can meet. Started by `cargo xtask test stores`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in these files everything is a test")]

#[path = "../../../../cluster/store/tests/it/model.rs"]
mod model;
#[path = "../../../../cluster/store/tests/it/race.rs"]
mod race;
#[path = "../../../../cluster/store/tests/it/suite.rs"]
mod suite;

mod begun;
mod killed;
mod lines;
mod secured;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cluster_store::{Change, Changes, Key, Listing, Page, Range, Revision, Store, StoreError};
use cluster_store_etcd::{EtcdOptions, EtcdStore};
use futures::{FutureExt, StreamExt};
use serde_json::json;
use suite::{Backend, object, pod};
use tests_parts::Etcd;
use tokio::runtime::{Builder, Runtime};

/// Far longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Stores on one etcd, each under a prefix of its own.
struct OnEtcd {
    etcd: Etcd,
    made: AtomicUsize,
    /// By the address of the store.
    prefixes: Mutex<BTreeMap<usize, String>>,
}

impl OnEtcd {
    fn start() -> Self {
        OnEtcd {
            etcd: Etcd::start().unwrap_or_else(|why| panic!("{why}")),
            made: AtomicUsize::new(0),
            prefixes: Mutex::default(),
        }
    }

    fn options(&self, prefix: &str) -> EtcdOptions {
        options(&self.etcd.url(), prefix)
    }

    fn store(&self, prefix: String) -> Arc<EtcdStore> {
        let store = Arc::new(EtcdStore::new(&self.options(&prefix)).unwrap());
        self.prefixes.lock().unwrap().insert(address(&*store), prefix);
        store
    }

    fn prefix(&self, store: &dyn Store) -> String {
        self.prefixes.lock().unwrap()[&address(store)].clone()
    }
}

/// Nothing happens by itself.
fn options(url: &str, prefix: &str) -> EtcdOptions {
    EtcdOptions {
        endpoints: vec![url.to_owned()],
        prefix: prefix.to_owned(),
        compact_every: None,
        ..EtcdOptions::default()
    }
}

fn address(store: &dyn Store) -> usize {
    std::ptr::from_ref(store).addr()
}

impl Backend for OnEtcd {
    fn fresh(&self) -> Arc<dyn Store> {
        self.store(format!("/test/{}", self.made.fetch_add(1, Ordering::Relaxed)))
    }

    fn reopened(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let prefix = self.prefix(&*store);
        drop(store);
        self.store(prefix)
    }

    async fn forgotten(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        let prefix = self.prefix(&*store);
        let now = store.revision().await.unwrap();
        drop(store);
        let store = self.store(prefix);
        store.compact(now).await.unwrap();
        store
    }

    fn runtime(&self) -> Runtime {
        Builder::new_current_thread().enable_all().build().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_store_passes_the_suite() {
    suite::run(&OnEtcd::start()).await;
}

async fn next_change(watch: &mut Changes) -> Arc<Change> {
    let change = tokio::time::timeout(PATIENCE, watch.next())
        .await
        .expect("a change is delivered");
    change.unwrap().unwrap()
}

/// A figure of etcd's own about itself.
fn figure(etcd: SocketAddr, name: &str) -> f64 {
    let mut connection = std::net::TcpStream::connect(etcd).unwrap();
    connection
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = Vec::new();
    connection.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    let line = answer
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("etcd tells no {name}"))
        .trim()
        .parse()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_watchers_of_two_resources_are_two_watches_of_etcd() {
    let on = OnEtcd::start();
    let store = on.fresh();
    let start = store.revision().await.unwrap();
    let mut watches = Vec::new();
    for number in 0..1000 {
        let range = Range::all(if number % 2 == 0 { "pods" } else { "nodes" });
        watches.push(store.watch(&range, start).await.unwrap());
    }
    let created = store.create(pod("n", "a"), object("a", 0)).await.unwrap();
    assert_eq!(next_change(&mut watches[0]).await.entry, created);
    assert_eq!(next_change(&mut watches[998]).await.entry, created);
    // The second one may only just be asked for.
    store.list(&Range::all("nodes"), Page::default()).await.unwrap();
    let watchers = figure(on.etcd.address(), "etcd_debugging_mvcc_watcher_total");
    assert!((watchers - 2.0).abs() < 0.5, "{watchers} watchers in etcd");
}

/// Resources that a server which has just begun is asked for at once.
const RESOURCES: usize = 24;
/// Servers that begin one after the other.
const BEGINNINGS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_of_a_server_that_has_just_begun_are_whole() {
    let etcd = OnEtcd::start();
    let resource = |number: usize| format!("kinds{number}");
    let first = etcd.store("/begun".to_owned());
    for number in 0..RESOURCES {
        let key = Key::new(resource(number).as_str(), None, "a");
        first.create(key, object("a", 0)).await.unwrap();
    }
    drop(first);
    for _ in 0..BEGINNINGS {
        let store = etcd.store("/begun".to_owned());
        let lists = (0..RESOURCES).map(|number| {
            let (store, range) = (store.clone(), Range::all(resource(number).as_str()));
            async move {
                // Not all at the same moment: the first are answered while others begin.
                tokio::task::yield_now().await;
                store.list(&range, Page::default()).await.unwrap().entries.len()
            }
        });
        let found = futures::future::join_all(lists).await;
        assert_eq!(found, vec![1; RESOURCES]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_another_server_writes_is_seen_by_all_reads_that_follow() {
    let on = OnEtcd::start();
    let (one, other) = (on.store("/shared".to_owned()), on.store("/shared/".to_owned()));
    let elsewhere = on.store("/elsewhere".to_owned());
    let pods = Range::all("pods");
    let mut watch = one.watch(&pods, one.revision().await.unwrap()).await.unwrap();
    for number in 0..100 {
        let name = format!("p{number}");
        let created = other.create(pod("n", &name), object(&name, number)).await.unwrap();
        let listing = one.list(&pods, Page::default()).await.unwrap();
        assert_eq!(listing.entries.len(), usize::try_from(number).unwrap() + 1);
        assert!(listing.revision >= created.revision);
        assert_eq!(one.get(&created.key).await.unwrap(), Some(created.clone()));
        assert_eq!(next_change(&mut watch).await.entry, created);
        // Whoever writes under another prefix counts the revision up and changes nothing here.
        let other = elsewhere.create(pod("n", &name), object(&name, number)).await.unwrap();
        assert_eq!(one.revision().await.unwrap(), other.revision);
        assert!(one.list(&pods, Page::default()).await.unwrap().revision >= other.revision);
    }
    assert!(watch.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_go_on_where_memory_has_forgotten_until_etcd_is_compacted() {
    let on = OnEtcd::start();
    let store = on.store("/pages".to_owned());
    for name in ["a", "b", "c"] {
        store.create(pod("n", name), object(name, 0)).await.unwrap();
    }
    let pods = Range::all("pods");
    let mut page = Page {
        limit: std::num::NonZeroUsize::new(1),
        ..Page::default()
    };
    let first = store.list(&pods, page.clone()).await.unwrap();
    suite::overwrite(&*store, "pods", suite::BEYOND_HISTORY, suite::LARGE).await;
    let old = store.watch(&pods, first.revision).await.err();
    assert!(matches!(old, Some(StoreError::Expired { .. })), "{old:?}");
    page.after = first.entries.last().map(|entry| entry.key.clone());
    page.at = Some(first.revision);
    let second = store.list(&pods, page.clone()).await.unwrap();
    assert_eq!((&*second.entries[0].key.name, second.remaining), ("b", 1));
    assert_eq!(second.revision, first.revision);
    store.compact(store.revision().await.unwrap()).await.unwrap();
    let gone = store.list(&pods, page).await.err();
    assert!(matches!(gone, Some(StoreError::Expired { .. })), "{gone:?}");
}

/// Writes a value as another program would: through etcd's gateway for JSON.
fn put(etcd: SocketAddr, key: &str, value: &str) {
    let body = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)}).to_string();
    let length = body.len();
    let request = format!(
        "POST /v3/kv/put HTTP/1.1\r\nHost: etcd\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut connection = std::net::TcpStream::connect(etcd).unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_object_is_left_out_of_lists_and_can_be_deleted() {
    let on = OnEtcd::start();
    let store = on.store("/foreign".to_owned());
    for name in ["a", "e"] {
        store.create(pod("n", name), object(name, 0)).await.unwrap();
    }
    for name in ["b", "c", "d"] {
        put(on.etcd.address(), &format!("/foreign/pods/n/{name}"), "no JSON");
    }
    let pods = Range::all("pods");
    let at = store.revision().await.unwrap();
    let names = |listing: &Listing| -> Vec<String> {
        let names = listing.entries.iter().map(|entry| entry.key.name.to_string());
        names.collect()
    };
    let memory = store.list(&pods, Page::default()).await.unwrap();
    suite::overwrite(&*store, "pods", suite::BEYOND_HISTORY, suite::LARGE).await;
    let old = store.watch(&pods, at).await.err();
    assert!(matches!(old, Some(StoreError::Expired { .. })), "{old:?}");
    for (limit, expected) in [
        (None, ["a", "e"].as_slice()),
        (NonZeroUsize::new(2), &["a", "e"]),
        (NonZeroUsize::new(1), &["a"]),
    ] {
        let at = Some(at);
        let page = Page {
            limit,
            at,
            ..Page::default()
        };
        let listing = store.list(&pods, page).await.unwrap();
        assert_eq!(names(&listing), expected, "{limit:?}");
        assert_eq!(listing.remaining > 0, limit == NonZeroUsize::new(1));
    }
    assert_eq!(names(&memory), ["a", "e"]);

    // The last foreign write, at that revision.
    let deleted = store.delete(&pod("n", "d"), at).await.unwrap();
    assert_eq!((&*deleted.key.name, deleted.revision > at), ("d", true));
    assert_eq!(store.get(&deleted.key).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn servers_on_one_etcd_compact_it_together_and_keep_what_is_young() {
    let on = OnEtcd::start();
    let every = Duration::from_millis(400);
    let compacting = EtcdOptions {
        compact_every: Some(every),
        ..on.options("/compacted")
    };
    let servers = [
        EtcdStore::new(&compacting).unwrap(),
        EtcdStore::new(&compacting).unwrap(),
    ];
    let begun = tokio::time::Instant::now();
    let created = servers[0].create(pod("n", "a"), object("a", 0)).await.unwrap();
    let expired = async {
        loop {
            // What is not in memory is asked of etcd.
            let reader = on.store("/compacted".to_owned());
            let page = Page {
                at: Some(Revision(created.revision.0 - 1)),
                ..Page::default()
            };
            if let Err(StoreError::Expired { .. }) = reader.list(&Range::all("pods"), page).await {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, expired)
        .await
        .expect("a server compacts");
    assert!(begun.elapsed() >= every, "history is kept for an interval at least");
    let reader = on.store("/compacted".to_owned());
    assert!(
        reader
            .watch(&Range::all("pods"), reader.revision().await.unwrap())
            .await
            .is_ok()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_share_a_lease_expire_together_and_watches_show_it() {
    const EVENTS: usize = 20;
    let on = OnEtcd::start();
    let expiring = EtcdOptions {
        // The shortest that etcd keeps is two seconds.
        expiring: vec![("events".to_owned(), Duration::from_secs(12))],
        ..on.options("/leased")
    };
    let store = EtcdStore::new(&expiring).unwrap();
    let events = Range::all("events");
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&events, start).await.unwrap();
    let began = Instant::now();
    for number in 0..EVENTS {
        let name = format!("e{number}");
        let key = Key::new("events", Some("n"), name.as_str());
        let event = store.create(key.clone(), object(&name, 0)).await.unwrap();
        store.update(&key, event.revision, object(&name, 1)).await.unwrap();
    }
    let stays = store.create(pod("n", "a"), object("a", 0)).await.unwrap();
    let granted = figure(on.etcd.address(), "etcd_debugging_lease_granted_total");
    // A lease is shared for a twelfth of its time.
    let took = began.elapsed();
    assert!(
        (1.0..=1.0 + took.as_secs_f64()).contains(&granted),
        "{granted} leases for {EVENTS} events in {took:?}"
    );
    for _ in 0..2 * EVENTS {
        assert!(!next_change(&mut watch).await.is_delete());
    }
    let mut gone = std::collections::BTreeSet::new();
    for _ in 0..EVENTS {
        let change = next_change(&mut watch).await;
        assert!(change.is_delete() && change.entry.revision > stays.revision);
        assert_eq!(change.entry.object.value(Revision(0))["content"], 1);
        gone.insert(change.entry.key.clone());
    }
    assert_eq!(gone.len(), EVENTS);
    assert_eq!(store.list(&events, Page::default()).await.unwrap().entries, []);
    assert_eq!(store.get(&stays.key).await.unwrap(), Some(stays));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_etcd_will_not_take_is_refused_and_not_called_unavailable() {
    let on = OnEtcd::start();
    let store = on.fresh();
    for size in [1_700_000, 4_000_000] {
        let text = "x".repeat(size);
        let large = serde_json::json!({"metadata": {"name": "a"}, "text": text});
        let large = cluster_store::Object::from_value(large).unwrap();
        let refused = store.create(pod("n", "a"), large).await.unwrap_err();
        assert!(matches!(refused, StoreError::Malformed(_)), "{refused}");
        assert!(
            refused.to_string().contains("pods/n/a is larger than etcd takes"),
            "{refused}"
        );
    }
    assert_eq!(store.get(&pod("n", "a")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_store_ends_its_watches_with_an_error() {
    let on = OnEtcd::start();
    let store = on.fresh();
    let mut watch = store
        .watch(&Range::all("pods"), store.revision().await.unwrap())
        .await
        .unwrap();
    drop(store);
    assert!(matches!(watch.next().await, Some(Err(StoreError::Unavailable(_)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_that_is_away_is_passed_over() {
    let on = OnEtcd::start();
    let absent = format!("http://127.0.0.1:{}", tests_parts::free_port().unwrap());
    let both = EtcdOptions {
        endpoints: vec![absent, on.etcd.url()],
        ..on.options("/members")
    };
    let store = EtcdStore::new(&both).unwrap();
    let created = store.create(pod("n", "a"), object("a", 0)).await.unwrap();
    let listing = store.list(&Range::all("pods"), Page::default()).await.unwrap();
    assert_eq!(listing.entries, [created]);
}
