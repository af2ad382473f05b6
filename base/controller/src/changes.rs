//! What subscribers of a cache have yet to see. Changes of one object fold into one while nobody looks, so a slow
//! subscriber misses no object and no deletion, and what waits for it is bounded by the objects there are.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use kube::Resource;
use tokio::sync::Notify;

use crate::key::ObjectKey;

/// One change of one object, or several that have folded into one.
#[derive(Debug)]
pub struct Change<K> {
    /// As it is, or as it last was when it was deleted.
    pub object: Arc<K>,
    /// As it was when this subscriber was last told of it; none if that never was.
    pub old: Option<Arc<K>>,
    /// Whether it is gone.
    pub deleted: bool,
}

impl<K> Clone for Change<K> {
    fn clone(&self) -> Self {
        Self {
            object: self.object.clone(),
            old: self.old.clone(),
            deleted: self.deleted,
        }
    }
}

impl<K> Change<K> {
    /// The object as it is; none when it is gone.
    #[expect(clippy::new_ret_no_self, reason = "the counterpart of `old`, not a constructor")]
    pub fn new(&self) -> Option<&K> {
        (!self.deleted).then_some(&*self.object)
    }
}

/// A subscription to a cache's changes, in the order of each object's first unseen change.
#[derive(Debug)]
pub struct Changes<K>(Arc<Mailbox<K>>);

impl<K> Changes<K> {
    /// The next change. Never returns when there is none any more. Cancel safe.
    pub async fn next(&mut self) -> Change<K> {
        loop {
            if let Some(change) = self.0.lock().pop() {
                return change;
            }
            self.0.news.notified().await;
        }
    }

    /// Waits for a change and forgets all that have come: for who looks at the whole cache anyway. Cancel safe.
    pub(crate) async fn any(&mut self) {
        loop {
            let pending = std::mem::take(&mut *self.0.lock());
            if !pending.order.is_empty() {
                return;
            }
            self.0.news.notified().await;
        }
    }
}

#[derive(Debug)]
struct Mailbox<K> {
    pending: Mutex<Pending<K>>,
    news: Notify,
}

impl<K> Mailbox<K> {
    fn lock(&self) -> MutexGuard<'_, Pending<K>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An object that takes another's place under its name is another object.
type Identity = (ObjectKey, Option<String>);

#[derive(Debug)]
struct Pending<K> {
    order: VecDeque<Identity>,
    changes: BTreeMap<Identity, Change<K>>,
}

impl<K> Default for Pending<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            changes: BTreeMap::new(),
        }
    }
}

impl<K> Pending<K> {
    fn pop(&mut self) -> Option<Change<K>> {
        let identity = self.order.pop_front()?;
        self.changes.remove(&identity)
    }

    fn push(&mut self, identity: Identity, change: Change<K>) {
        match self.changes.get_mut(&identity) {
            Some(unseen) => {
                unseen.object = change.object;
                unseen.deleted = change.deleted;
            }
            None => {
                self.order.push_back(identity.clone());
                self.changes.insert(identity, change);
            }
        }
    }
}

/// The subscribers of one cache.
#[derive(Debug)]
pub(crate) struct Subscribers<K>(Mutex<Vec<Weak<Mailbox<K>>>>);

impl<K> Default for Subscribers<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K> Subscribers<K> {
    /// One more, who sees what is told from now on.
    pub(crate) fn add(&self) -> Changes<K> {
        let mailbox = Arc::new(Mailbox {
            pending: Mutex::default(),
            news: Notify::new(),
        });
        self.lock().push(Arc::downgrade(&mailbox));
        Changes(mailbox)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Weak<Mailbox<K>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource> Subscribers<K> {
    /// Tells everybody who is still there.
    pub(crate) fn tell(&self, change: &Change<K>) {
        let identity = (ObjectKey::of(&*change.object), change.object.meta().uid.clone());
        self.lock().retain(|subscriber| {
            let Some(mailbox) = subscriber.upgrade() else {
                return false;
            };
            mailbox.lock().push(identity.clone(), change.clone());
            mailbox.news.notify_one();
            true
        });
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::ResourceExt;

    use super::*;

    fn map(name: &str, uid: &str, version: &str) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.uid = Some(uid.to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        Arc::new(map)
    }

    fn change(object: &Arc<ConfigMap>, old: Option<&Arc<ConfigMap>>, deleted: bool) -> Change<ConfigMap> {
        Change {
            object: object.clone(),
            old: old.cloned(),
            deleted,
        }
    }

    fn seen(change: &Change<ConfigMap>) -> String {
        let version = |map: &ConfigMap| map.resource_version().unwrap_or_default();
        let old = change.old.as_deref().map_or("-".to_owned(), version);
        let new = change.new().map_or("-".to_owned(), version);
        format!("{} {old}>{new}", change.object.name_any())
    }

    #[tokio::test]
    async fn unseen_changes_of_one_object_fold_and_no_deletion_is_lost() {
        let subscribers = Subscribers::default();
        let mut changes = subscribers.add();
        let (a1, a2, b1) = (map("a", "x", "1"), map("a", "x", "2"), map("b", "y", "3"));
        let reborn = map("a", "z", "4");
        for told in [
            change(&a1, None, false),
            change(&b1, None, false),
            change(&a2, Some(&a1), false),
            change(&a2, Some(&a2), true),
            change(&reborn, None, false),
        ] {
            subscribers.tell(&told);
        }
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(seen(&changes.next().await));
        }
        assert_eq!(all, ["a ->-", "b ->3", "a ->4"]);
        // Once seen, the next change is a change of its own.
        subscribers.tell(&change(&b1, Some(&b1), true));
        assert_eq!(seen(&changes.next().await), "b 3>-");
    }

    #[tokio::test]
    async fn who_has_gone_is_forgotten() {
        let subscribers = Subscribers::default();
        drop(subscribers.add());
        let mut stays = subscribers.add();
        subscribers.tell(&change(&map("a", "x", "1"), None, false));
        assert_eq!(subscribers.lock().len(), 1);
        stays.any().await;
        assert!(stays.0.lock().pop().is_none());
    }
}
