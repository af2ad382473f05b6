//! The limits of the backends that read from memory: what the history drops, which watches expire, and that a cut link is
//! noticed.

use std::sync::Arc;
use std::time::Duration;

use cluster_store::{
    HISTORY_AGE_MAX, HISTORY_BURST_BYTES_MAX, HISTORY_BURST_CHANGES_MAX, HISTORY_CHANGES_MIN, Key, Link, MemoryStore,
    Page, Range, Revision, SWEEP_EVERY, Store, StoreError,
};
use futures::{FutureExt, StreamExt};

use crate::file::Files;
use crate::memory::Memory;
use crate::suite::{BEYOND_HISTORY, Backend, LARGE, object, overwrite, pod};

async fn a_watch_that_falls_off_the_history_ends_as_expired(store: Arc<dyn Store>) {
    let mut slow = store.watch(&Range::all("pods"), Revision(1)).await.unwrap();
    let mut elsewhere = store.watch(&Range::all("nodes"), Revision(1)).await.unwrap();
    overwrite(&*store, "pods", BEYOND_HISTORY, LARGE).await;
    let expired = slow.next().await.unwrap().unwrap_err();
    assert!(
        matches!(expired, StoreError::Expired { requested: Revision(1), oldest } if oldest > Revision(1)),
        "{expired:?}"
    );
    assert!(slow.next().await.is_none());
    let page = Page {
        at: Some(Revision(1)),
        ..Page::default()
    };
    assert!(matches!(
        store.list(&Range::all("pods"), page).await,
        Err(StoreError::Expired { .. })
    ));

    // A quiet resource keeps its whole history, however busy others are.
    let node = Key::new("nodes", None, "n");
    let created = store.create(node, object("n", 0)).await.unwrap();
    assert_eq!(elsewhere.next().await.unwrap().unwrap().entry, created);
    assert!(store.watch(&Range::all("nodes"), Revision(1)).await.is_ok());
}

/// A watcher that reads nothing meanwhile expires by what happened in its own range alone.
async fn changes_forgotten_elsewhere_do_not_expire_a_watch_of_a_part(store: Arc<dyn Store>) {
    let (quiet, newcomer) = (
        Key::new("pods", Some("quiet"), "p"),
        Key::new("pods", Some("quiet"), "q"),
    );
    let before = store.create(quiet.clone(), object("p", 0)).await.unwrap();
    let of_namespace = Range::namespaced("pods", "quiet");
    let mut watches = Vec::new();
    for range in [of_namespace.clone(), Range::one(&quiet)] {
        watches.push(store.watch(&range, Revision(1)).await.unwrap());
    }
    for watch in &mut watches {
        assert_eq!(watch.next().await.unwrap().unwrap().entry, before);
        assert!(watch.next().now_or_never().is_none());
    }
    overwrite(&*store, "pods", BEYOND_HISTORY, LARGE).await;
    assert!(
        store.watch(&of_namespace, before.revision).await.is_err(),
        "nothing was forgotten"
    );

    let after = store.update(&quiet, before.revision, object("p", 1)).await.unwrap();
    for watch in &mut watches {
        assert_eq!(watch.next().await.unwrap().unwrap().entry, after);
    }
    store.create(newcomer, object("q", 0)).await.unwrap();
    overwrite(&*store, "pods", BEYOND_HISTORY, LARGE).await;
    let expired = watches[0].next().await.unwrap();
    assert!(matches!(expired, Err(StoreError::Expired { .. })), "{expired:?}");
    assert!(
        watches[1].next().now_or_never().is_none(),
        "nothing happened to this object"
    );
}

async fn exactly_the_window_can_be_resumed(store: Arc<dyn Store>) {
    overwrite(&*store, "pods", HISTORY_BURST_CHANGES_MAX, 0).await;
    let pods = Range::all("pods");
    let resumed = store.watch(&pods, Revision(2)).await.unwrap();
    assert_eq!(
        resumed
            .take(HISTORY_BURST_CHANGES_MAX)
            .filter(|c| std::future::ready(c.is_ok()))
            .count()
            .await,
        HISTORY_BURST_CHANGES_MAX
    );
    let (requested, oldest) = (Revision(1), Revision(2));
    assert_eq!(
        store.watch(&pods, requested).await.err(),
        Some(StoreError::Expired { requested, oldest })
    );
}

async fn large_objects_shorten_the_history_but_not_below_a_burst(store: Arc<dyn Store>) {
    overwrite(&*store, "pods", 2 * HISTORY_CHANGES_MIN, HISTORY_BURST_BYTES_MAX / 8).await;
    let newest = store.revision().await.unwrap();
    let floor = Revision(newest.0 - HISTORY_CHANGES_MIN as u64);
    assert!(store.watch(&Range::all("pods"), floor).await.is_ok());
    let beyond = store.watch(&Range::all("pods"), Revision(floor.0 - 1)).await.err();
    assert!(matches!(beyond, Some(StoreError::Expired { .. })), "{beyond:?}");
}

async fn writer_in_a_tight_loop_does_not_expire_a_watcher_that_reads(store: Arc<dyn Store>) {
    let mut watch = store.watch(&Range::all("pods"), Revision(1)).await.unwrap();
    // Tokio lets a task that never waits go on for 128 steps.
    let writes = 16 * BEYOND_HISTORY;
    let reader = tokio::spawn(async move {
        for _ in 0..writes {
            watch.next().await.unwrap().unwrap();
        }
    });
    overwrite(&*store, "pods", writes, LARGE / 4).await;
    reader.await.unwrap();
}

async fn all(backend: &impl Backend) {
    a_watch_that_falls_off_the_history_ends_as_expired(backend.fresh()).await;
    changes_forgotten_elsewhere_do_not_expire_a_watch_of_a_part(backend.fresh()).await;
    exactly_the_window_can_be_resumed(backend.fresh()).await;
    large_objects_shorten_the_history_but_not_below_a_burst(backend.fresh()).await;
    writer_in_a_tight_loop_does_not_expire_a_watcher_that_reads(backend.fresh()).await;
}

#[tokio::test(start_paused = true)]
async fn memory_store_keeps_its_bounds() {
    all(&Memory).await;
}

#[tokio::test(start_paused = true)]
async fn file_store_keeps_the_same_bounds() {
    all(&Files::in_memory()).await;
}

/// A window that was exactly full is exactly full after a restart: the file forgets with the memory.
#[tokio::test(start_paused = true)]
async fn file_store_resumes_its_whole_window_after_a_restart() {
    let files = Files::in_memory();
    let store = files.fresh();
    overwrite(&*store, "pods", 2 * BEYOND_HISTORY, LARGE).await;
    let (pods, newest) = (Range::all("pods"), store.revision().await.unwrap());
    let Some(StoreError::Expired { oldest, .. }) = store.watch(&pods, Revision(1)).await.err() else {
        panic!("nothing was forgotten");
    };
    let store = files.reopened(store);
    assert_eq!(store.revision().await.unwrap(), newest);
    let resumed = store.watch(&pods, oldest).await.unwrap();
    let retained = usize::try_from(newest.0 - oldest.0).unwrap();
    let delivered: Vec<_> = resumed
        .take(retained)
        .map(|change| change.unwrap().entry.revision.0)
        .collect()
        .await;
    assert!(delivered.into_iter().eq(oldest.0 + 1..=newest.0));
    let requested = Revision(oldest.0 - 1);
    let beyond = store.watch(&pods, requested).await.err();
    assert_eq!(beyond, Some(StoreError::Expired { requested, oldest }));
}

#[tokio::test(start_paused = true)]
async fn too_old_changes_are_dropped_by_a_write_to_any_resource() {
    let store = MemoryStore::new();
    overwrite(&store, "pods", 1, 0).await;
    let pods = Range::all("pods");
    tokio::time::advance(HISTORY_AGE_MAX).await;
    let node = |name| store.create(Key::new("nodes", None, name), object(name, 0));
    node("in-time").await.unwrap();
    assert!(store.watch(&pods, Revision(1)).await.is_ok());
    tokio::time::advance(SWEEP_EVERY + Duration::from_secs(1)).await;
    node("too-late").await.unwrap();
    let expired = |requested, oldest| Some(StoreError::Expired { requested, oldest });
    assert_eq!(
        store.watch(&pods, Revision(2)).await.err(),
        expired(Revision(2), Revision(3))
    );
    assert!(
        store.watch(&pods, Revision(3)).await.is_ok(),
        "who has seen all goes on"
    );
    assert!(store.get(&pod("overwritten", "x")).await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn readers_of_a_replaced_store_must_list_again() {
    let old = MemoryStore::new();
    overwrite(&old, "pods", 5, 0).await;
    let seen = old.revision().await.unwrap();
    let new = MemoryStore::starting_at(Revision(100));
    for range in [Range::all("pods"), Range::all("never-written")] {
        assert!(matches!(
            new.watch(&range, seen).await.err(),
            Some(StoreError::Expired { .. })
        ));
        let page = Page {
            at: Some(seen),
            ..Page::default()
        };
        assert!(matches!(new.list(&range, page).await, Err(StoreError::Expired { .. })));
    }
}

#[tokio::test(start_paused = true)]
async fn cut_link_refuses_calls_and_ends_watches_but_keeps_the_data() {
    let store = MemoryStore::new();
    overwrite(&store, "pods", 0, 0).await;
    let link = Link::new(Arc::new(store.clone()));
    let mut watch = link.watch(&Range::all("pods"), Revision(1)).await.unwrap();
    assert!(watch.next().await.unwrap().is_ok());
    assert!(watch.next().now_or_never().is_none());
    link.clone().cut();
    assert!(matches!(watch.next().await, Some(Err(StoreError::Unavailable(_)))));
    assert!(watch.next().await.is_none());
    assert!(matches!(
        link.get(&pod("overwritten", "x")).await,
        Err(StoreError::Unavailable(_))
    ));
    assert!(store.get(&pod("overwritten", "x")).await.unwrap().is_some());
}
