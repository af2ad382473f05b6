//! What every body of the store promises, asked of any of them.

use std::future::Future;
use std::num::NonZeroUsize;
use std::sync::Arc;

use cluster_store::{ChangeKind, Key, Link, MemoryStore, Object, Page, Range, Revision, Store, StoreError};
use futures::{FutureExt, StreamExt};
use serde_json::json;

pub(crate) fn object(name: &str, content: i64) -> Object {
    Object::from_value(json!({"metadata": {"name": name}, "content": content})).unwrap()
}

pub(crate) fn pod(namespace: &str, name: &str) -> Key {
    Key::new("pods", Some(namespace), name)
}

/// A body of the store under test.
pub(crate) trait Body {
    /// A new, empty store.
    fn fresh(&self) -> Arc<dyn Store>;

    /// Closes a store that [`Body::fresh`] or this gave, and opens what it left; of a body that keeps nothing, the same
    /// store again.
    fn reopened(&self, store: Arc<dyn Store>) -> Arc<dyn Store> {
        store
    }
}

/// The memory body.
pub(crate) struct Memory;

impl Body for Memory {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(MemoryStore::new())
    }
}

/// The memory body behind a connection that nobody cuts.
pub(crate) struct Linked;

impl Body for Linked {
    fn fresh(&self) -> Arc<dyn Store> {
        Arc::new(Link::new(Memory.fresh()))
    }
}

/// Runs every case against a fresh store.
pub(crate) async fn run(body: &(impl Body + Sync)) {
    let fresh = || body.fresh();
    case(fresh(), writes_ask_for_the_revision_they_replace).await;
    case(fresh(), pages_show_one_revision_while_writers_go_on).await;
    case(fresh(), namespaces_that_share_a_prefix_stay_apart).await;
    case(fresh(), watch_tells_every_change_of_its_range_once_and_in_order).await;
    case(fresh(), watch_waits_and_wakes).await;
    case(fresh(), revisions_ahead_of_the_store_are_refused).await;
    crate::model::check(body);
}

async fn case<T: Future<Output = ()>>(store: Arc<dyn Store>, case: fn(Arc<dyn Store>) -> T) {
    case(store).await;
}

async fn writes_ask_for_the_revision_they_replace(store: Arc<dyn Store>) {
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

async fn watch_tells_every_change_of_its_range_once_and_in_order(store: Arc<dyn Store>) {
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
    let asked = Revision(current.0 + 1);
    let ahead = StoreError::Ahead { asked, current };
    assert_eq!(store.watch(&Range::all("pods"), asked).await.err(), Some(ahead.clone()));
    let page = Page {
        at: Some(asked),
        ..Page::default()
    };
    assert_eq!(store.list(&Range::all("pods"), page).await.err(), Some(ahead));
}
