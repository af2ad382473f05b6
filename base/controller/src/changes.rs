//! What subscribers of a cache have yet to see. Changes of one object fold into one until they are read, so a slow
//! subscriber misses no object and no deletion, and its backlog is bounded by the number of objects.

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
    /// As it was in the last change that this subscriber received; none if there was none.
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
    /// An object that is seen for the first time.
    pub(crate) fn first(object: Arc<K>) -> Self {
        Self {
            object,
            old: None,
            deleted: false,
        }
    }

    /// The object as it is; none when it is gone.
    #[expect(clippy::new_ret_no_self, reason = "the counterpart of `old`, not a constructor")]
    pub fn new(&self) -> Option<&K> {
        (!self.deleted).then_some(&*self.object)
    }
}

/// A subscription to a cache's changes, in the order of each object's first unseen change.
#[derive(Debug)]
pub struct Changes<K> {
    mailbox: Arc<Mailbox<K>>,
    scope: Scope,
    registered: Weak<Mutex<Registered<K>>>,
}

impl<K> Changes<K> {
    /// The next change. Never returns when there is none any more. Cancel safe.
    pub async fn next(&mut self) -> Change<K> {
        loop {
            if let Some(change) = self.mailbox.lock().pop() {
                return change;
            }
            self.mailbox.news.notified().await;
        }
    }

    /// Waits for a change and drops all pending ones: for a subscriber that reads the cache anyway. Cancel safe.
    pub(crate) async fn any(&mut self) {
        loop {
            let pending = std::mem::take(&mut *self.mailbox.lock());
            if !pending.order.is_empty() {
                return;
            }
            self.mailbox.news.notified().await;
        }
    }
}

impl<K> Drop for Changes<K> {
    fn drop(&mut self) {
        if let Some(registered) = self.registered.upgrade() {
            lock(&registered).remove(&self.scope, &self.mailbox);
        }
    }
}

/// Which objects a subscription is about. A subscriber is not woken for any other object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Scope {
    /// Every object of the cache.
    All,
    /// Those of one namespace.
    Namespace(String),
    /// One object, or the one that takes its place.
    Object(ObjectKey),
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
pub(crate) struct Subscribers<K>(Arc<Mutex<Registered<K>>>);

/// By scope: a change takes no time for subscribers that it does not concern.
#[derive(Debug)]
struct Registered<K>(BTreeMap<Scope, Vec<Arc<Mailbox<K>>>>);

impl<K> Registered<K> {
    fn remove(&mut self, scope: &Scope, mailbox: &Arc<Mailbox<K>>) {
        if let Some(registered) = self.0.get_mut(scope) {
            registered.retain(|other| !Arc::ptr_eq(other, mailbox));
            if registered.is_empty() {
                self.0.remove(scope);
            }
        }
    }
}

impl<K> Default for Subscribers<K> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Registered(BTreeMap::new()))))
    }
}

impl<K> Subscribers<K> {
    /// Adds one, to which each later change within `scope` is delivered.
    pub(crate) fn add(&self, scope: Scope) -> Changes<K> {
        let mailbox = Arc::new(Mailbox {
            pending: Mutex::default(),
            news: Notify::new(),
        });
        let mut registered = lock(&self.0);
        registered.0.entry(scope.clone()).or_default().push(mailbox.clone());
        drop(registered);
        Changes {
            mailbox,
            scope,
            registered: Arc::downgrade(&self.0),
        }
    }
}

fn lock<K>(registered: &Mutex<Registered<K>>) -> MutexGuard<'_, Registered<K>> {
    registered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: Resource> Subscribers<K> {
    /// Delivers a change to each subscriber that it concerns: first those of one object, then those of a namespace, then
    /// those of all.
    pub(crate) fn notify(&self, change: &Change<K>) {
        let key = ObjectKey::of(&*change.object);
        let identity = (key.clone(), change.object.meta().uid.clone());
        let namespace = key.namespace.clone().map(Scope::Namespace);
        let scopes = [Some(Scope::Object(key)), namespace, Some(Scope::All)];
        let registered = lock(&self.0);
        for mailbox in scopes
            .iter()
            .flatten()
            .filter_map(|scope| registered.0.get(scope))
            .flatten()
        {
            mailbox.lock().push(identity.clone(), change.clone());
            mailbox.news.notify_one();
        }
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
        let mut changes = subscribers.add(Scope::All);
        let (a1, a2, b1) = (map("a", "x", "1"), map("a", "x", "2"), map("b", "y", "3"));
        let reborn = map("a", "z", "4");
        for one in [
            change(&a1, None, false),
            change(&b1, None, false),
            change(&a2, Some(&a1), false),
            change(&a2, Some(&a2), true),
            change(&reborn, None, false),
        ] {
            subscribers.notify(&one);
        }
        let mut all = Vec::new();
        for _ in 0..3 {
            all.push(seen(&changes.next().await));
        }
        assert_eq!(all, ["a ->-", "b ->3", "a ->4"]);
        // Once seen, the next change is a change of its own.
        subscribers.notify(&change(&b1, Some(&b1), true));
        assert_eq!(seen(&changes.next().await), "b 3>-");
    }

    #[tokio::test]
    async fn dropped_subscription_is_removed() {
        let subscribers = Subscribers::<ConfigMap>::default();
        let key = ObjectKey::cluster("a");
        drop(subscribers.add(Scope::All));
        let leaves = subscribers.add(Scope::Object(key.clone()));
        let mut stays = subscribers.add(Scope::Object(key.clone()));
        drop(leaves);
        let scopes: Vec<Scope> = lock(&subscribers.0).0.keys().cloned().collect();
        assert_eq!(scopes, [Scope::Object(key)]);
        subscribers.notify(&change(&map("a", "x", "1"), None, false));
        stays.any().await;
        assert!(stays.mailbox.lock().pop().is_none());
        drop(stays);
        assert!(lock(&subscribers.0).0.is_empty());
    }

    #[tokio::test]
    async fn change_reaches_only_subscribers_of_its_object_and_namespace() {
        let within = |namespace: &str, name: &str| {
            let mut map = (*map(name, name, "1")).clone();
            map.metadata.namespace = Some(namespace.to_owned());
            Arc::new(map)
        };
        let subscribers = Subscribers::default();
        let mut all = subscribers.add(Scope::All);
        let mut namespace = subscribers.add(Scope::Namespace("n".into()));
        let mut object = subscribers.add(Scope::Object(ObjectKey::namespaced("n", "a")));
        for object in [within("other", "a"), within("n", "b"), within("n", "a")] {
            subscribers.notify(&change(&object, None, false));
        }
        let seen = |changes: &mut Changes<ConfigMap>| {
            let popped = std::iter::from_fn(|| changes.mailbox.lock().pop());
            popped
                .map(|change| ObjectKey::of(&*change.object).to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(seen(&mut all), ["other/a", "n/b", "n/a"]);
        assert_eq!(seen(&mut namespace), ["n/b", "n/a"]);
        assert_eq!(seen(&mut object), ["n/a"]);
    }
}
