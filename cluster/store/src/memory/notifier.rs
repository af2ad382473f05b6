//! Notifies watchers of changes: of a whole resource, and of each part of it that has a watch of its own, so that a change of
//! one namespace wakes no watcher of another. Watchers are woken in the order in which they began to wait: tokio's watch
//! channel wakes them in random order, and then no run could be repeated. It stores no changes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

use crate::{Key, Range, Revision};

/// The revisions of the newest change and of the newest one that was forgotten.
pub(super) struct Notifier {
    newest: AtomicU64,
    /// Changed under the store's lock alone.
    forgotten: AtomicU64,
    changed: Notify,
}

impl Notifier {
    fn new(newest: Revision, forgotten: Revision) -> Self {
        Notifier {
            newest: AtomicU64::new(newest.0),
            forgotten: AtomicU64::new(forgotten.0),
            changed: Notify::new(),
        }
    }

    /// Sets the newest revision. Those who wait are woken by [`Notifier::wake`], which takes long if they are many.
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
            // Created before the check, so that it notices a change in between.
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

/// The notifiers of one resource: of all of it, and of its parts that are watched.
pub(super) struct Notifiers {
    all: Arc<Notifier>,
    parts: BTreeMap<Part, Arc<Notifier>>,
}

impl Notifiers {
    /// The notifiers of a resource whose history begins at `start`.
    pub(super) fn new(start: Revision) -> Self {
        Notifiers {
            all: Arc::new(Notifier::new(start, start)),
            parts: BTreeMap::new(),
        }
    }

    /// Changes of the resource up to and including this revision have been forgotten.
    pub(super) fn forgotten(&self) -> Revision {
        self.all.forgotten()
    }

    /// The notifier of a range of this resource, until [`Notifiers::unsubscribe`].
    pub(super) fn subscribe(&mut self, range: &Range) -> Arc<Notifier> {
        let part = (range.namespace.clone(), range.name.clone());
        if part == (None, None) {
            return Arc::clone(&self.all);
        }
        let of_part = self.parts.entry(part).or_insert_with(|| {
            // Earlier changes of the part are unknown: a watcher from an older revision looks at the history once.
            Arc::new(Notifier::new(self.all.newest(), self.all.forgotten()))
        });
        Arc::clone(of_part)
    }

    /// Removes the notifier of a range with its last watcher. `notifier` is what [`Notifiers::subscribe`] returned.
    pub(super) fn unsubscribe(&mut self, range: &Range, notifier: &Arc<Notifier>) {
        let part = (range.namespace.clone(), range.name.clone());
        let is_last = |of_part: &Arc<Notifier>| Arc::ptr_eq(of_part, notifier) && Arc::strong_count(notifier) == 2;
        if self.parts.get(&part).is_some_and(is_last) {
            self.parts.remove(&part);
        }
    }

    /// Notes a change and returns the notifiers to wake for it.
    pub(super) fn note(&self, key: &Key, revision: Revision) -> Vec<Arc<Notifier>> {
        let of_key = self.of(key);
        of_key.iter().for_each(|notifier| notifier.note(revision));
        of_key
    }

    /// Notes that a change was dropped from the history.
    pub(super) fn forget(&self, key: &Key, revision: Revision) {
        self.all.forget(revision);
        if !self.parts.is_empty() {
            self.of(key).iter().for_each(|notifier| notifier.forget(revision));
        }
    }

    /// Wakes all watchers for good: the history was replaced.
    pub(super) fn end(&self) {
        for notifier in std::iter::once(&self.all).chain(self.parts.values()) {
            notifier.note(Revision(u64::MAX));
            notifier.wake();
        }
    }

    /// The notifiers of all ranges with this key, in an order that is the same in each run.
    fn of(&self, key: &Key) -> Vec<Arc<Notifier>> {
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
    async fn watchers_are_woken_in_the_order_in_which_they_began_to_wait() {
        let notifier = Arc::new(Notifier::new(Revision(1), Revision(1)));
        let woken: Arc<Mutex<Vec<u32>>> = Arc::default();
        let waiting: Vec<_> = (0..20)
            .map(|number| {
                let (notifier, woken) = (Arc::clone(&notifier), Arc::clone(&woken));
                tokio::spawn(async move {
                    notifier.newer_than(Revision(1)).await;
                    woken.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        notifier.note(Revision(2));
        notifier.wake();
        futures::future::join_all(waiting).await;
        assert_eq!(*woken.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    fn changed(notifiers: &Notifiers, namespace: &str, name: &str, revision: u64) {
        notifiers.note(&Key::new("things", Some(namespace), name), Revision(revision));
    }

    #[test]
    fn a_part_is_notified_of_its_own_changes_alone() {
        let mut notifiers = Notifiers::new(Revision(1));
        let all = notifiers.subscribe(&Range::all("things"));
        let one = notifiers.subscribe(&Range::namespaced("things", "one"));
        let object = notifiers.subscribe(&Range::one(&Key::new("things", Some("one"), "a")));
        let name = notifiers.subscribe(&Range {
            name: Some("a".into()),
            ..Range::all("things")
        });
        let newest = || [&all, &one, &object, &name].map(|notifier| notifier.newest().0);

        changed(&notifiers, "one", "b", 2);
        assert_eq!(newest(), [2, 2, 1, 1]);
        changed(&notifiers, "two", "a", 3);
        assert_eq!(newest(), [3, 2, 1, 3]);
        changed(&notifiers, "one", "a", 4);
        assert_eq!(newest(), [4, 4, 4, 4]);

        notifiers.forget(&Key::new("things", Some("two"), "b"), Revision(2));
        assert_eq!([&all, &one].map(|notifier| notifier.forgotten().0), [2, 1]);
        notifiers.forget(&Key::new("things", Some("one"), "b"), Revision(3));
        assert_eq!([&all, &one, &object].map(|notifier| notifier.forgotten().0), [3, 3, 1]);
    }

    #[test]
    fn notifier_of_a_part_is_removed_with_its_last_watcher() {
        let mut notifiers = Notifiers::new(Revision(1));
        let range = Range::namespaced("things", "one");
        let first = notifiers.subscribe(&range);
        let second = notifiers.subscribe(&range);
        notifiers.unsubscribe(&range, &first);
        drop(first);
        assert_eq!(notifiers.parts.len(), 1);
        changed(&notifiers, "one", "a", 2);
        assert_eq!(second.newest(), Revision(2));
        notifiers.unsubscribe(&range, &second);
        assert!(notifiers.parts.is_empty());
    }
}
