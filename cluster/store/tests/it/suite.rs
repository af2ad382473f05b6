//! What every backend of the store promises, as tests for any of them: here for those in memory and in a file, in
//! `tests/stores` for the one on etcd.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cluster_store::{
    Change, ChangeKind, Changes, HISTORY_BURST_BYTES_MAX, HISTORY_CHANGES_MIN, Key, Object, Page, Range, Revision,
    Store, StoreError,
};
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tokio::runtime::{Builder, Runtime};

use crate::race;

pub(crate) fn object(name: &str, content: i64) -> Object {
    Object::from_value(json!({"metadata": {"name": name}, "content": content})).unwrap()
}

pub(crate) fn pod(namespace: &str, name: &str) -> Key {
    Key::new("pods", Some(namespace), name)
}

/// A backend of the store, under test.
pub(crate) trait Backend {
    /// A new, empty store.
    fn fresh(&self) -> Arc<dyn Store>;

    /// Closes a store that [`Backend::fresh`] or this returned, and opens what it left; of a backend that stores nothing, the
    /// same store again.
    fn reopened(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }

    /// The same store when it has forgotten how it came to its newest revision.
    fn forgotten(&self, store: Arc<dyn Store>) -> impl Future<Output = Arc<dyn Store>> {
        async move {
            overwrite(&*store, "pods", BEYOND_HISTORY, LARGE).await;
            store
        }
    }

    /// What a store of this backend runs in; most need neither timers nor sockets.
    fn runtime(&self) -> Runtime {
        Builder::new_current_thread()
            .build()
            .expect("a runtime without drivers")
    }
}

/// Bytes of an object of which a full history holds twice [`HISTORY_CHANGES_MIN`] changes.
pub(crate) const LARGE: usize = HISTORY_BURST_BYTES_MAX / HISTORY_CHANGES_MIN / 2;
/// More changes of objects of [`LARGE`] bytes than a history holds.
pub(crate) const BEYOND_HISTORY: usize = 2 * HISTORY_CHANGES_MIN + 10;

/// Writes one object of a resource and then again and again, with so many bytes of padding.
pub(crate) async fn overwrite(store: &dyn Store, resource: &str, times: usize, padding: usize) {
    let key = Key::new(resource, Some("overwritten"), "x");
    let padded = json!({"metadata": {"name": "x"}, "padding": "p".repeat(padding)});
    let padded = Object::from_value(padded).unwrap();
    let mut entry = match store.get(&key).await.unwrap() {
        Some(entry) => entry,
        None => store.create(key.clone(), padded.clone()).await.unwrap(),
    };
    for _ in 0..times {
        entry = store.update(&key, entry.revision, padded.clone()).await.unwrap();
    }
}

/// Runs every case against a fresh store.
pub(crate) async fn run(backend: &(impl Backend + Sync)) {
    let fresh = || backend.fresh();
    case(fresh(), writes_require_the_revision_that_they_replace).await;
    case(fresh(), pages_show_one_revision_while_writers_go_on).await;
    case(fresh(), namespaces_that_share_a_prefix_stay_apart).await;
    case(fresh(), watch_delivers_every_change_of_its_range_once_and_in_order).await;
    case(fresh(), watch_waits_and_wakes).await;
    case(fresh(), revisions_ahead_of_the_store_are_refused).await;
    case(fresh(), lists_come_in_the_order_of_paths).await;
    case(fresh(), large_objects_come_back_byte_for_byte).await;
    case(fresh(), every_watch_receives_every_change).await;
    case(fresh(), race::racing_writers_each_win_what_was_acknowledged).await;
    revisions_go_on_after_a_restart(backend).await;
    crate::model::check(backend);
    revisions_older_than_the_history_are_refused(backend).await;
}

async fn case<T: Future<Output = ()>>(store: Arc<dyn Store>, case: fn(Arc<dyn Store>) -> T) {
    case(store).await;
}

async fn writes_require_the_revision_that_they_replace(store: Arc<dyn Store>) {
    let key = pod("a", "x");
    let missing = Err(StoreError::Missing { key: key.clone() });
    assert_eq!(store.update(&key, Revision(1), object("x", 0)).await, missing);
    assert_eq!(store.delete(&key, Revision(1)).await, missing);

    let first = store.create(key.clone(), object("x", 1)).await.unwrap();
    let exists = store.create(key.clone(), object("x", 9)).await.unwrap_err();
    assert_eq!(exists, StoreError::Exists { current: first.clone() });

    let second = store.update(&key, first.revision, object("x", 2)).await.unwrap();
    assert!(second.revision > first.revision);
    let conflict = StoreError::Conflict {
        expected: first.revision,
        current: second.clone(),
    };
    assert_eq!(
        store.update(&key, first.revision, object("x", 3)).await,
        Err(conflict.clone())
    );
    assert_eq!(store.delete(&key, first.revision).await, Err(conflict));
    assert_eq!(store.get(&key).await.unwrap(), Some(second.clone()));
    assert_eq!(
        store.revision().await.unwrap(),
        second.revision,
        "refused writes use no revision"
    );

    let gone = store.delete(&key, second.revision).await.unwrap();
    assert!(gone.revision > second.revision);
    assert_eq!(gone.object, second.object);
    assert_eq!(store.get(&key).await.unwrap(), None);
    let again = store.create(key, object("x", 4)).await.unwrap();
    assert!(again.revision > gone.revision);
}

async fn pages_show_one_revision_while_writers_go_on(store: Arc<dyn Store>) {
    let names = ["a", "b", "c", "d", "e"];
    let mut revisions = Vec::new();
    for name in names {
        revisions.push(store.create(pod("n", name), object(name, 0)).await.unwrap().revision);
    }
    let range = Range::all("pods");
    let page = Page {
        limit: NonZeroUsize::new(2),
        ..Page::default()
    };
    let first = store.list(&range, page.clone()).await.unwrap();
    assert_eq!(first.revision, revisions[4]);
    assert_eq!((first.entries.len(), first.remaining, first.more()), (2, 3, true));

    // Between the pages: one changed twice, one removed, one removed and made again, two new ones.
    let changed = store
        .update(&pod("n", "c"), revisions[2], object("c", 1))
        .await
        .unwrap();
    store
        .update(&pod("n", "c"), changed.revision, object("c", 2))
        .await
        .unwrap();
    store.delete(&pod("n", "d"), revisions[3]).await.unwrap();
    store.delete(&pod("n", "e"), revisions[4]).await.unwrap();
    store.create(pod("n", "e"), object("e", 1)).await.unwrap();
    store.create(pod("n", "bb"), object("bb", 1)).await.unwrap();
    store.create(pod("z", "a"), object("a", 1)).await.unwrap();

    let after = first.entries.last().map(|entry| entry.key.clone());
    let next = Page {
        after,
        at: Some(first.revision),
        ..page
    };
    let second = store.list(&range, next.clone()).await.unwrap();
    let seen: Vec<_> = second
        .entries
        .iter()
        .map(|e| (e.key.name.to_string(), e.revision))
        .collect();
    assert_eq!(seen, [("c".to_owned(), revisions[2]), ("d".to_owned(), revisions[3])]);
    assert_eq!(second.remaining, 1);
    let third = Page {
        after: second.entries.last().map(|entry| entry.key.clone()),
        ..next
    };
    let third = store.list(&range, third).await.unwrap();
    assert_eq!(third.entries[0].revision, revisions[4]);
    assert_eq!(third.entries[0].object.value(Revision(0))["content"], 0);
    assert!(!third.more());

    let now = store.list(&range, Page::default()).await.unwrap();
    let seen: Vec<_> = now.entries.iter().map(|e| e.key.to_string()).collect();
    assert_eq!(
        seen,
        ["pods/n/a", "pods/n/b", "pods/n/bb", "pods/n/c", "pods/n/e", "pods/z/a"]
    );
}

async fn namespaces_that_share_a_prefix_stay_apart(store: Arc<dyn Store>) {
    for namespace in ["a", "a-b", "a.b", "ab"] {
        store.create(pod(namespace, "x"), object("x", 0)).await.unwrap();
    }
    store
        .create(Key::new("pods.x", Some("a"), "x"), object("x", 0))
        .await
        .unwrap();
    store
        .create(Key::new("nodes", None, "x"), object("x", 0))
        .await
        .unwrap();
    for namespace in ["a", "a-b", "a.b", "ab"] {
        let listed = store
            .list(&Range::namespaced("pods", namespace), Page::default())
            .await
            .unwrap();
        let keys: Vec<_> = listed.entries.into_iter().map(|entry| entry.key).collect();
        assert_eq!(keys, [pod(namespace, "x")]);
    }
    assert_eq!(
        store
            .list(&Range::all("pods"), Page::default())
            .await
            .unwrap()
            .entries
            .len(),
        4
    );
    assert_eq!(
        store
            .list(&Range::all("nodes"), Page::default())
            .await
            .unwrap()
            .entries
            .len(),
        1
    );
    let one = store
        .list(&Range::one(&pod("a-b", "x")), Page::default())
        .await
        .unwrap();
    assert_eq!(one.entries.len(), 1);
    assert_eq!(
        store
            .list(&Range::all("pod"), Page::default())
            .await
            .unwrap()
            .entries
            .len(),
        0
    );
}

async fn watch_delivers_every_change_of_its_range_once_and_in_order(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let mut early = store.watch(&Range::namespaced("pods", "a"), start).await.unwrap();
    let created = store.create(pod("a", "x"), object("x", 0)).await.unwrap();
    store.create(pod("b", "x"), object("x", 0)).await.unwrap();
    store
        .create(Key::new("nodes", None, "x"), object("x", 0))
        .await
        .unwrap();
    let updated = store
        .update(&created.key, created.revision, object("x", 1))
        .await
        .unwrap();
    let deleted = store.delete(&created.key, updated.revision).await.unwrap();

    let mut late = store.watch(&Range::namespaced("pods", "a"), start).await.unwrap();
    for watch in [&mut early, &mut late] {
        let put = watch.next().await.unwrap().unwrap();
        assert_eq!((&put.kind, &put.entry), (&ChangeKind::Put { previous: None }, &created));
        let put = watch.next().await.unwrap().unwrap();
        assert_eq!(put.previous(), Some(&created.object));
        assert_eq!(put.entry, updated);
        let delete = watch.next().await.unwrap().unwrap();
        assert!(delete.is_delete());
        assert_eq!((delete.previous(), &delete.entry), (Some(&updated.object), &deleted));
        assert!(
            watch.next().now_or_never().is_none(),
            "nothing more, and the stream stays open"
        );
    }
    let mut resumed = store.watch(&Range::all("pods"), updated.revision).await.unwrap();
    assert_eq!(resumed.next().await.unwrap().unwrap().entry, deleted);
}

async fn watch_waits_and_wakes(store: Arc<dyn Store>) {
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
    let (changes, entry) = tokio::join!(watch.next(), async {
        tokio::task::yield_now().await;
        store
            .create(Key::new("nodes", None, "x"), object("x", 0))
            .await
            .unwrap();
        tokio::task::yield_now().await;
        store.create(pod("a", "x"), object("x", 0)).await.unwrap()
    });
    assert_eq!(changes.unwrap().unwrap().entry, entry);
}

async fn revisions_ahead_of_the_store_are_refused(store: Arc<dyn Store>) {
    let current = store.revision().await.unwrap();
    let requested = Revision(current.0 + 1);
    let ahead = StoreError::Ahead { requested, current };
    assert_eq!(
        store.watch(&Range::all("pods"), requested).await.err(),
        Some(ahead.clone())
    );
    let page = Page {
        at: Some(requested),
        ..Page::default()
    };
    assert_eq!(store.list(&Range::all("pods"), page).await.err(), Some(ahead));
}

async fn lists_come_in_the_order_of_paths(store: Arc<dyn Store>) {
    let places = [
        ("b", "a"),
        ("a", "x"),
        ("a-b", "x"),
        ("a.b", "x"),
        ("a", "x-y"),
        ("a", "x.y"),
        ("a0", "a"),
        ("a", "x0"),
    ];
    for (namespace, name) in places {
        store.create(pod(namespace, name), object(name, 0)).await.unwrap();
    }
    let mut expected: Vec<String> = places
        .iter()
        .map(|(namespace, name)| format!("pods/{namespace}/{name}"))
        .collect();
    expected.sort();
    let mut page = Page {
        limit: NonZeroUsize::new(3),
        ..Page::default()
    };
    let mut seen = Vec::new();
    loop {
        let listing = store.list(&Range::all("pods"), page.clone()).await.unwrap();
        seen.extend(listing.entries.iter().map(|entry| entry.key.to_string()));
        page.after = listing.entries.last().map(|entry| entry.key.clone());
        page.at = Some(listing.revision);
        if !listing.more() {
            break;
        }
    }
    assert_eq!(seen, expected);
    assert_eq!(seen[0], "pods/a-b/x", "as kube-apiserver lists them");
    // Behind a key that comes before the namespace, all of the namespace follows.
    let after = Page {
        after: Some(pod("a-b", "x")),
        ..Page::default()
    };
    let of_b = store.list(&Range::namespaced("pods", "b"), after).await.unwrap();
    assert_eq!(of_b.entries.len(), 1);
}

async fn large_objects_come_back_byte_for_byte(store: Arc<dyn Store>) {
    // As much as a client may send to kube-apiserver and etcd takes.
    let text: String = (0..150_000_u32).map(|number| format!("{number:x} ü\" ")).collect();
    let large = |name: &str| {
        let text = text.get(..1_000_000).unwrap();
        Object::from_value(json!({"metadata": {"name": name}, "text": text})).unwrap()
    };
    let start = store.revision().await.unwrap();
    let mut watch = store.watch(&Range::all("pods"), start).await.unwrap();
    for name in ["a", "b", "c", "d"] {
        let created = store.create(pod("n", name), object(name, 0)).await.unwrap();
        store.update(&created.key, created.revision, large(name)).await.unwrap();
        assert_eq!(next_change(&mut watch).await.entry, created);
        assert_eq!(*next_change(&mut watch).await.entry.object, large(name));
    }
    let listing = store.list(&Range::all("pods"), Page::default()).await.unwrap();
    let whole = |entry: &cluster_store::Entry| *entry.object == large(&entry.key.name);
    assert_eq!(listing.entries.iter().filter(|entry| whole(entry)).count(), 4);
    assert_eq!(*store.get(&pod("n", "a")).await.unwrap().unwrap().object, large("a"));
}

async fn next_change(watch: &mut Changes) -> Arc<Change> {
    watch.next().await.expect("the watch goes on").unwrap()
}

async fn every_watch_receives_every_change(store: Arc<dyn Store>) {
    const WATCHERS: usize = 1000;
    const WRITES: i64 = 50;
    let start = store.revision().await.unwrap();
    let mut watches = Vec::new();
    for number in 0..WATCHERS {
        let range = match number % 3 {
            0 => Range::all("pods"),
            1 => Range::namespaced("pods", "n"),
            _ => Range::one(&pod("n", "x")),
        };
        watches.push(store.watch(&range, start).await.unwrap());
    }
    let mut entry = store.create(pod("n", "x"), object("x", 0)).await.unwrap();
    let mut expected = vec![entry.clone()];
    for content in 1..WRITES {
        entry = store
            .update(&entry.key, entry.revision, object("x", content))
            .await
            .unwrap();
        expected.push(entry.clone());
    }
    for mut watch in watches {
        for entry in &expected {
            assert_eq!(next_change(&mut watch).await.entry, *entry);
        }
        assert!(watch.next().now_or_never().is_none());
    }
}

async fn revisions_go_on_after_a_restart(backend: &impl Backend) {
    let store = backend.fresh();
    let a = store.create(pod("n", "a"), object("a", 0)).await.unwrap();
    let b = store.create(pod("n", "b"), object("b", 0)).await.unwrap();
    let gone = store.delete(&b.key, b.revision).await.unwrap();
    let store = backend.reopened(store);
    assert_eq!(store.revision().await.unwrap(), gone.revision);
    assert_eq!(store.get(&a.key).await.unwrap(), Some(a.clone()));
    assert_eq!(store.get(&b.key).await.unwrap(), None);
    let mut watch = store
        .watch(&Range::all("pods"), a.revision)
        .await
        .expect("a watch resumes");
    let again = store.create(pod("n", "b"), object("b", 1)).await.unwrap();
    assert!(again.revision > gone.revision);
    let put = next_change(&mut watch).await;
    assert_eq!((put.previous(), &put.entry), (None, &b));
    let delete = next_change(&mut watch).await;
    assert_eq!((delete.previous(), &delete.entry), (Some(&b.object), &gone));
    assert_eq!(next_change(&mut watch).await.entry, again);
}

async fn revisions_older_than_the_history_are_refused(backend: &impl Backend) {
    let store = backend.fresh();
    let first = store.create(pod("n", "a"), object("a", 0)).await.unwrap();
    let store = backend.forgotten(store).await;
    let pods = Range::all("pods");
    let requested = Revision(first.revision.0 - 1);
    let watch = store.watch(&pods, requested).await.err();
    assert!(matches!(watch, Some(StoreError::Expired { .. })), "{watch:?}");
    let page = Page {
        at: Some(requested),
        ..Page::default()
    };
    let list = store.list(&pods, page).await.err();
    assert!(matches!(list, Some(StoreError::Expired { .. })), "{list:?}");
    let now = store.list(&pods, Page::default()).await.unwrap();
    assert!(now.entries.contains(&first));
    let mut watch = store
        .watch(&pods, now.revision)
        .await
        .expect("who has seen all goes on");
    let next = store.update(&first.key, first.revision, object("a", 1)).await.unwrap();
    assert_eq!(next_change(&mut watch).await.entry, next);
}
