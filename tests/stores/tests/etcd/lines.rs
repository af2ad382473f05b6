//! The line between a store and its etcd is cut, loses answers, or leads to another etcd.

use std::net::SocketAddr;
use std::sync::Arc;

use cluster_store::{Key, Page, Range, Revision, Store, StoreError};
use cluster_store_etcd::EtcdStore;
use futures::{FutureExt, StreamExt};
use tests_parts::Etcd;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::suite::{object, overwrite, pod};
use crate::{PATIENCE, next_change, options};

/// What a line does with connections; those that are open end when it changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    To(SocketAddr),
    /// Requests arrive, and the first answer ends the connection.
    LosesAnswers(SocketAddr),
    Cut,
}

/// A port that leads to an etcd, or not.
struct Line {
    url: String,
    mode: watch::Sender<Mode>,
}

impl Line {
    async fn to(etcd: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let mode = watch::Sender::new(Mode::To(etcd));
        let modes = mode.subscribe();
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(carry(connection, modes.clone()));
            }
        });
        Line { url, mode }
    }

    fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn carry(mut from: TcpStream, mut modes: watch::Receiver<Mode>) {
    let mode = *modes.borrow_and_update();
    let carried = async {
        match mode {
            Mode::To(etcd) => {
                let mut to = TcpStream::connect(etcd).await?;
                tokio::io::copy_bidirectional(&mut from, &mut to).await.map(drop)
            }
            Mode::LosesAnswers(etcd) => {
                let mut to = TcpStream::connect(etcd).await?;
                let (mut requests, _) = from.split();
                let (mut answers, mut takes) = to.split();
                let lost = async {
                    let mut answered = Vec::new();
                    while !has_headers(&answered) && answers.read_buf(&mut answered).await? > 0 {}
                    Ok(())
                };
                tokio::select! {
                    copied = tokio::io::copy(&mut requests, &mut takes) => copied.map(drop),
                    lost = lost => lost,
                }
            }
            Mode::Cut => Ok(()),
        }
    };
    tokio::select! {
        // However it ends, both ends are closed.
        _ = carried => {}
        _ = modes.changed() => {}
    }
}

/// Whether an HTTP/2 server has begun an answer: a frame of type 1.
fn has_headers(answered: &[u8]) -> bool {
    let mut rest = answered;
    while let [high, middle, low, kind, ..] = *rest {
        if kind == 1 {
            return true;
        }
        let length = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        rest = rest.get(9 + length..).unwrap_or_default();
    }
    false
}

fn store(url: &str) -> Arc<EtcdStore> {
    Arc::new(EtcdStore::new(&options(url, "/lines")).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_costs_watches_nothing() {
    let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let line = Line::to(etcd.address()).await;
    let (cut, whole) = (store(&line.url), store(&etcd.url()));
    let pods = Range::all("pods");
    let mut watch = cut.watch(&pods, cut.revision().await.unwrap()).await.unwrap();
    for number in 0..20 {
        line.set(Mode::Cut);
        let name = format!("p{number}");
        let created = whole.create(pod("n", &name), object(&name, number)).await.unwrap();
        line.set(Mode::To(etcd.address()));
        assert_eq!(next_change(&mut watch).await.entry, created);
    }
    assert_eq!(cut.list(&pods, Page::default()).await.unwrap().entries.len(), 20);
    assert!(watch.next().now_or_never().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_missed_what_was_compacted_ends_expired_and_lists_show_everything() {
    let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let line = Line::to(etcd.address()).await;
    let (cut, whole) = (store(&line.url), store(&etcd.url()));
    let pods = Range::all("pods");
    let before = cut.revision().await.unwrap();
    let mut watch = cut.watch(&pods, before).await.unwrap();
    let mut nodes = cut.watch(&Range::all("nodes"), before).await.unwrap();
    line.set(Mode::Cut);
    overwrite(&*whole, "pods", 10, 0).await;
    let now = whole.revision().await.unwrap();
    whole.compact(now).await.unwrap();
    line.set(Mode::To(etcd.address()));
    let ended = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap();
    let Some(Err(StoreError::Expired { requested, oldest })) = ended else {
        panic!("{ended:?}");
    };
    assert_eq!((requested, oldest), (before, now));
    assert!(watch.next().await.is_none());
    // What is written elsewhere must not keep the list waiting for news of the pods.
    whole
        .create(Key::new("nodes", None, "a"), object("a", 0))
        .await
        .unwrap();
    let listing = cut.list(&pods, Page::default()).await.unwrap();
    assert_eq!(
        listing.entries,
        whole.list(&pods, Page::default()).await.unwrap().entries
    );
    let mut watch = cut.watch(&pods, listing.revision).await.unwrap();
    let created = whole.create(pod("n", "a"), object("a", 0)).await.unwrap();
    assert_eq!(next_change(&mut watch).await.entry, created);
    // Whether nothing happened to the nodes is not known any more either.
    let ended = tokio::time::timeout(PATIENCE, nodes.next()).await.unwrap();
    assert!(matches!(ended, Some(Err(StoreError::Expired { .. }))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_cut_connection_stale_resources_are_listed_without_a_write() {
    let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let line = Line::to(etcd.address()).await;
    let (cut, whole) = (store(&line.url), store(&etcd.url()));
    let (pods, nodes) = (Range::all("pods"), Range::all("nodes"));
    for range in [&pods, &nodes] {
        cut.list(range, Page::default()).await.unwrap();
    }
    let mut watch = cut.watch(&pods, cut.revision().await.unwrap()).await.unwrap();
    let created = whole.create(pod("n", "a"), object("a", 0)).await.unwrap();
    assert_eq!(next_change(&mut watch).await.entry, created);
    line.set(Mode::Cut);
    line.set(Mode::To(etcd.address()));
    for range in [&nodes, &pods] {
        let listing = cut.list(range, Page::default()).await.unwrap();
        assert_eq!(listing.revision, created.revision);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etcd_that_lost_its_data_ends_every_watch() {
    let (one, empty) = (Etcd::start(), Etcd::start());
    let (one, empty) = (
        one.unwrap_or_else(|why| panic!("{why}")),
        empty.unwrap_or_else(|why| panic!("{why}")),
    );
    let line = Line::to(one.address()).await;
    let store = store(&line.url);
    overwrite(&*store, "pods", 10, 0).await;
    let pods = Range::all("pods");
    let seen = store.revision().await.unwrap();
    let mut watch = store.watch(&pods, seen).await.unwrap();
    line.set(Mode::To(empty.address()));
    let ended = tokio::time::timeout(PATIENCE, watch.next()).await.unwrap();
    assert!(matches!(ended, Some(Err(StoreError::Expired { .. }))), "{ended:?}");
    let listing = store.list(&pods, Page::default()).await.unwrap();
    assert!(listing.entries.is_empty() && listing.revision < seen, "{listing:?}");
    let ahead = store.watch(&pods, seen).await.err();
    assert!(matches!(ahead, Some(StoreError::Ahead { .. })), "{ahead:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_with_a_lost_answer_is_reported_as_unknown_and_not_repeated() {
    let etcd = Etcd::start().unwrap_or_else(|why| panic!("{why}"));
    let line = Line::to(etcd.address()).await;
    let (loses, whole) = (store(&line.url), store(&etcd.url()));
    let start = whole.revision().await.unwrap();
    let mut happened = whole.watch(&Range::all("pods"), start).await.unwrap();
    let mut unknown = 0;
    for number in 0..10 {
        line.set(Mode::LosesAnswers(etcd.address()));
        let name = format!("p{number}");
        let lost = loses.create(pod("n", &name), object(&name, 0)).await;
        line.set(Mode::To(etcd.address()));
        let Err(StoreError::Unavailable(why)) = lost else {
            panic!("{lost:?}");
        };
        if why.contains("read it before you try again") {
            unknown += 1;
        }
        let found = loses.get(&pod("n", &name)).await.unwrap();
        if let Some(found) = found {
            assert_eq!(next_change(&mut happened).await.entry, found);
        }
    }
    assert!(unknown > 0, "no answer was lost");
    // Nothing was tried again without the caller.
    let last = whole.create(pod("n", "last"), object("last", 0)).await.unwrap();
    assert_eq!(next_change(&mut happened).await.entry, last);
    assert!(last.revision > Revision(0));
}
