//! News of changes: of a whole resource, and of each part of it that has a watch of its own, so that a change of one
//! namespace wakes no watcher of another. All who wait hear it in the order in which they began to wait: tokio's
//! watch channel draws that order by lot, and then no run could be repeated. It keeps no changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::{Key, Range, Revision};

/// The revisions of the newest change and of the newest one that was forgotten.
pub(super) struct News {
    newest: AtomicU64,
    /// Changed under the store's lock alone.
    forgotten: AtomicU64,
    changed: Notify,
}

impl News {
    fn new(newest: Revision, forgotten: Revision) -> Self {
        News {
            newest: AtomicU64::new(newest.0),
            forgotten: AtomicU64::new(forgotten.0),
            changed: Notify::new(),
        }
    }

    /// Whoever looks from now on sees it. Those who wait are woken by [`News::wake`], which takes its time if they are many.
    fn note(&self, newest: Revision) {
        self.newest.store(newest.0, Ordering::Release);
    }

    /// Wakes all who wait, in the order in which they began to.
    pub(super) fn wake(&self) {
        self.changed.notify_waiters();
    }

    pub(super) fn newest(&self) -> Revision {
        Revision(self.newest.load(Ordering::Acquire))
    }

    /// Changes up to and including this revision have been dropped from the history.
    pub(super) fn forgotten(&self) -> Revision {
        Revision(self.forgotten.load(Ordering::Relaxed))
    }

    fn forget(&self, revision: Revision) {
        self.forgotten.store(revision.0, Ordering::Relaxed);
    }

    /// Returns once there is something newer.
    pub(super) async fn newer_than(&self, seen: Revision) {
        loop {
            // Made before looking, so that it notices a change in between. Once the newest change is seen, the next one wakes it.
            let changed = self.changed.notified();
            if self.newest() > seen {
                return;
            }
            changed.await;
        }
    }
}

/// A namespace, an object, or all objects of a name; never a whole resource.
type Part = (Option<Arc<str>>, Option<Arc<str>>);

/// The news of one resource: of all of it, and of its parts that are watched.
pub(super) struct Audience {
    all: Arc<News>,
    parts: BTreeMap<Part, Arc<News>>,
}

impl Audience {
    /// Of a resource whose history begins at `start`.
    pub(super) fn new(start: Revision) -> Self {
        Audience {
            all: Arc::new(News::new(start, start)),
            parts: BTreeMap::new(),
        }
    }

    /// Changes of the resource up to and including this revision have been forgotten.
    pub(super) fn forgotten(&self) -> Revision {
        self.all.forgotten()
    }

    /// The news of a range of this resource, until [`Audience::leave`].
    pub(super) fn join(&mut self, range: &Range) -> Arc<News> {
        let part = (range.namespace.clone(), range.name.clone());
        if part == (None, None) {
            return Arc::clone(&self.all);
        }
        let of_part = self.parts.entry(part).or_insert_with(|| {
            // What happened to the part before is unknown: those who come from further back look at the history once.
            Arc::new(News::new(self.all.newest(), self.all.forgotten()))
        });
        Arc::clone(of_part)
    }

    /// Removes the news of a range with its last watcher. `news` is what [`Audience::join`] returned.
    pub(super) fn leave(&mut self, range: &Range, news: &Arc<News>) {
        let part = (range.namespace.clone(), range.name.clone());
        let is_last = |of_part: &Arc<News>| Arc::ptr_eq(of_part, news) && Arc::strong_count(news) == 2;
        if self.parts.get(&part).is_some_and(is_last) {
            self.parts.remove(&part);
        }
    }

    /// Notes a change and gives what is to be woken for it.
    pub(super) fn note(&self, key: &Key, revision: Revision) -> Vec<Arc<News>> {
        let of_key = self.of(key);
        of_key.iter().for_each(|news| news.note(revision));
        of_key
    }

    /// Notes that a change was dropped from the history.
    pub(super) fn forget(&self, key: &Key, revision: Revision) {
        self.all.forget(revision);
        if !self.parts.is_empty() {
            self.of(key).iter().for_each(|news| news.forget(revision));
        }
    }

    /// Notes that nothing of what is known counts any more, and wakes all.
    pub(super) fn end(&self) {
        for news in std::iter::once(&self.all).chain(self.parts.values()) {
            news.note(Revision(u64::MAX));
            news.wake();
        }
    }

    /// All news that a change of this key belongs to, in an order that is the same in each run.
    fn of(&self, key: &Key) -> Vec<Arc<News>> {
        let mut of_key = vec![Arc::clone(&self.all)];
        if self.parts.is_empty() {
            return of_key;
        }
        let mut add = |part: Part| of_key.extend(self.parts.get(&part).cloned());
        if let Some(namespace) = &key.namespace {
            add((Some(namespace.clone()), None));
            add((Some(namespace.clone()), Some(key.name.clone())));
        }
        add((None, Some(key.name.clone())));
        of_key
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn who_waited_first_hears_first() {
        let news = Arc::new(News::new(Revision(1), Revision(1)));
        let heard: Arc<Mutex<Vec<u32>>> = Arc::default();
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let (news, heard) = (Arc::clone(&news), Arc::clone(&heard));
                tokio::spawn(async move {
                    news.newer_than(Revision(1)).await;
                    heard.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        news.note(Revision(2));
        news.wake();
        futures::future::join_all(waiting).await;
        assert_eq!(*heard.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    fn changed(audience: &Audience, namespace: &str, name: &str, revision: u64) {
        audience.note(&Key::new("things", Some(namespace), name), Revision(revision));
    }

    #[test]
    fn a_part_hears_of_its_own_changes_alone() {
        let mut audience = Audience::new(Revision(1));
        let all = audience.join(&Range::all("things"));
        let one = audience.join(&Range::namespaced("things", "one"));
        let object = audience.join(&Range::one(&Key::new("things", Some("one"), "a")));
        let name = audience.join(&Range {
            name: Some("a".into()),
            ..Range::all("things")
        });
        let newest = || [&all, &one, &object, &name].map(|news| news.newest().0);

        changed(&audience, "one", "b", 2);
        assert_eq!(newest(), [2, 2, 1, 1]);
        changed(&audience, "two", "a", 3);
        assert_eq!(newest(), [3, 2, 1, 3]);
        changed(&audience, "one", "a", 4);
        assert_eq!(newest(), [4, 4, 4, 4]);

        audience.forget(&Key::new("things", Some("two"), "b"), Revision(2));
        assert_eq!([&all, &one].map(|news| news.forgotten().0), [2, 1]);
        audience.forget(&Key::new("things", Some("one"), "b"), Revision(3));
        assert_eq!([&all, &one, &object].map(|news| news.forgotten().0), [3, 3, 1]);
    }

    #[test]
    fn news_of_a_part_end_with_the_last_who_hears_them() {
        let mut audience = Audience::new(Revision(1));
        let range = Range::namespaced("things", "one");
        let first = audience.join(&range);
        let second = audience.join(&range);
        audience.leave(&range, &first);
        drop(first);
        assert_eq!(audience.parts.len(), 1);
        changed(&audience, "one", "a", 2);
        assert_eq!(second.newest(), Revision(2));
        audience.leave(&range, &second);
        assert!(audience.parts.is_empty());
    }
}
