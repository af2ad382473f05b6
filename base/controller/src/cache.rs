//! A cache: a copy of all objects of one kind (or of a selection), updated by one list and one watch and shared by all that
//! need it. It never writes, and it never forgets an object because a watch broke: it lists again and compares.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::time::Duration;

use api_meta::Fault;
use base_client::{WaitState, Waited};
use futures::StreamExt;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::changes::{Change, Changes, Scope, Subscribers};
use crate::index::{Entries, Index};
use crate::key::ObjectKey;
use crate::trouble::Trouble;

/// A shared cache, without `metadata.managedFields`. Clones are handles to the same one.
pub struct Cache<K>(Arc<Inner<K>>);

struct Inner<K> {
    objects: RwLock<BTreeMap<ObjectKey, Arc<K>>>,
    /// Changed while `objects` is locked for writing.
    indexes: Mutex<Vec<Weak<Entries<K>>>>,
    subscribers: Subscribers<K>,
    state: Mutex<State>,
    /// Notified when the first list has been read. Waiters are woken in the order in which they began to wait.
    readied: Notify,
}

#[derive(Clone, Debug, Default)]
struct State {
    ready: bool,
    error: Option<String>,
    trouble: Option<Trouble>,
}

impl<K> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<K> Debug for Cache<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Cache")
    }
}

impl<K> Cache<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// Starts caching what `api` and `config` (selectors) name, in a task that ends with `stop`.
    pub fn start(api: Api<K>, config: watcher::Config, stop: CancellationToken) -> Self {
        let cache = Self(Arc::new(Inner {
            objects: RwLock::default(),
            indexes: Mutex::default(),
            subscribers: Subscribers::default(),
            state: Mutex::default(),
            readied: Notify::new(),
        }));
        let inner = cache.0.clone();
        tokio::spawn(async move { stop.run_until_cancelled(follow(api, config, inner)).await });
        cache
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read().get(key).cloned()
    }

    /// All objects, ordered by namespace and name.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read().values().cloned().collect()
    }

    /// The objects of one namespace, ordered by name.
    pub fn list_in(&self, namespace: &str) -> Vec<Arc<K>> {
        let from = ObjectKey::namespaced(namespace, "");
        let in_it = |key: &ObjectKey| key.namespace.as_deref() == Some(namespace);
        self.read()
            .range(from..)
            .take_while(|(key, _)| in_it(key))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// The cluster-scoped objects whose names begin with `prefix`, ordered by name.
    pub fn list_with_prefix(&self, prefix: &str) -> Vec<Arc<K>> {
        let from = ObjectKey::cluster(prefix);
        let has_prefix = |key: &ObjectKey| key.namespace.is_none() && key.name.starts_with(prefix);
        self.read()
            .range(from..)
            .take_while(|(key, _)| has_prefix(key))
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// Whether the first list has been read: before that, an object not in here may well exist.
    pub fn is_ready(&self) -> bool {
        self.0.state().ready
    }

    /// Why the cache may be stale: the last error of its watch, none once that works again.
    pub fn error(&self) -> Option<String> {
        self.0.state().error.clone()
    }

    /// Waits until the first list has been read. Never returns if it cannot be; see [`Cache::error`].
    pub async fn ready(&self) {
        // Created before the check, so that a notification in between is not lost.
        let readied = self.0.readied.notified();
        if !self.is_ready() {
            readied.await;
        }
    }

    /// All changes from now on.
    pub fn subscribe(&self) -> Changes<K> {
        self.0.subscribers.add(Scope::All)
    }

    /// All changes of one object from now on, and of one that takes its place. Changes of others do not wake the subscriber.
    pub fn subscribe_to(&self, key: &ObjectKey) -> Changes<K> {
        self.0.subscribers.add(Scope::Object(key.clone()))
    }

    /// A secondary index of this cache: its objects by the values that `of` gives for each, which may be none, one or
    /// several. It is updated together with the cache, before subscribers are notified of a change. `of` must depend on the
    /// object alone and must not use the cache. The index is maintained as long as a handle to it exists.
    pub fn index<I>(&self, of: impl Fn(&K) -> I + Send + Sync + 'static) -> Index<K>
    where
        I: IntoIterator<Item = String>,
    {
        let entries = Arc::new(Entries::new(move |object: &K| of(object).into_iter().collect()));
        // While this is held no object comes or goes.
        let objects = self.read();
        for (key, object) in &*objects {
            entries.replace(key, None, Some(object));
        }
        self.0.indexes().push(Arc::downgrade(&entries));
        drop(objects);
        Index::new(entries)
    }

    /// Waits, without a request of its own, until `check` is done with the object `key`. `check` is called again at every
    /// change of that object, and of no other.
    pub async fn wait_until<T>(
        &self,
        key: &ObjectKey,
        timeout: Duration,
        mut check: impl FnMut(Option<&K>) -> WaitState<T>,
    ) -> Result<T, Waited> {
        let what = format!("{} {key}", K::kind(&()));
        self.wait(&what, timeout, Scope::Object(key.clone()), |cache| {
            check(cache.get(key).as_deref())
        })
        .await
    }

    /// Waits until `check` is done with the objects of one namespace; it is called again at every change of one of them. `what`
    /// names the wait in errors.
    pub async fn wait_in<T>(
        &self,
        namespace: &str,
        what: &str,
        timeout: Duration,
        check: impl FnMut(&Self) -> WaitState<T>,
    ) -> Result<T, Waited> {
        self.wait(what, timeout, Scope::Namespace(namespace.to_owned()), check)
            .await
    }

    /// Waits until `check` is done with the whole cache; it is called again at every change. `what` names the wait in
    /// errors.
    pub async fn wait_for<T>(
        &self,
        what: &str,
        timeout: Duration,
        check: impl FnMut(&Self) -> WaitState<T>,
    ) -> Result<T, Waited> {
        self.wait(what, timeout, Scope::All, check).await
    }

    async fn wait<T>(
        &self,
        what: &str,
        timeout: Duration,
        scope: Scope,
        mut check: impl FnMut(&Self) -> WaitState<T>,
    ) -> Result<T, Waited> {
        let mut reason = "the API has not answered yet".to_owned();
        let waiting = async {
            let mut changes = self.0.subscribers.add(scope);
            self.ready().await;
            loop {
                match check(self) {
                    WaitState::Done(value) => return Ok(value),
                    WaitState::Failed(fault) => return Err(fault),
                    WaitState::NotYet(why) => reason = why,
                }
                changes.any().await;
            }
        };
        match tokio::time::timeout(timeout, waiting).await {
            Ok(result) => result.map_err(Waited::Failed),
            Err(_) => {
                let reason = self.error().map_or(reason.clone(), |error| {
                    format!("{reason}; what is known may be old: {error}")
                });
                Err(Waited::TimedOut {
                    what: what.to_owned(),
                    after: timeout,
                    reason,
                })
            }
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.0.objects.read().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn follow<K>(api: Api<K>, config: watcher::Config, inner: Arc<Inner<K>>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let what = K::plural(&()).into_owned();
    let mut events = std::pin::pin!(base_client::watch(api, config));
    let mut listed = BTreeSet::new();
    while let Some(event) = events.next().await {
        match event {
            // The beginning of a list, which may fail yet: nothing works again before its first answer.
            Ok(Event::Init) => {
                listed.clear();
                continue;
            }
            Ok(Event::InitApply(object)) => {
                listed.insert(ObjectKey::of(&object));
                inner.put(object);
            }
            Ok(Event::InitDone) => inner.retain(&std::mem::take(&mut listed)),
            Ok(Event::Apply(object)) => inner.put(object),
            Ok(Event::Delete(object)) => inner.remove(&ObjectKey::of(&object)),
            Err(error) => {
                inner.failed(&base_client::watch_fault(error, &what));
                continue;
            }
        }
        inner.works();
    }
}

impl<K: Resource> Inner<K> {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<ObjectKey, Arc<K>>> {
        self.objects.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn indexes(&self) -> MutexGuard<'_, Vec<Weak<Entries<K>>>> {
        self.indexes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// To be called while `objects` is locked for writing.
    fn update_indexes(&self, key: &ObjectKey, old: Option<&Arc<K>>, new: Option<&Arc<K>>) {
        self.indexes().retain(|entries| {
            let entries = entries.upgrade();
            entries.inspect(|entries| entries.replace(key, old, new)).is_some()
        });
    }

    fn put(&self, mut object: K) {
        // Often half of an object; an update without it leaves it as it is.
        object.meta_mut().managed_fields = None;
        let new = Arc::new(object);
        let key = ObjectKey::of(&*new);
        let mut objects = self.write();
        let old = objects.insert(key.clone(), new.clone());
        self.update_indexes(&key, old.as_ref(), Some(&new));
        drop(objects);
        // A relist shows again what is known; that is no change.
        let version = |object: &Arc<K>| (object.meta().uid.clone(), object.meta().resource_version.clone());
        if old.as_ref().map(version) != Some(version(&new)) {
            self.subscribers.notify(&Change {
                object: new,
                old,
                deleted: false,
            });
        }
    }

    fn remove(&self, key: &ObjectKey) {
        let mut objects = self.write();
        let old = objects.remove(key);
        self.update_indexes(key, old.as_ref(), None);
        drop(objects);
        if let Some(old) = old {
            self.subscribers.notify(&Change {
                object: old.clone(),
                old: Some(old),
                deleted: true,
            });
        }
    }

    fn retain(&self, listed: &BTreeSet<ObjectKey>) {
        let gone: Vec<ObjectKey> = self
            .write()
            .keys()
            .filter(|key| !listed.contains(key))
            .cloned()
            .collect();
        for key in gone {
            self.remove(&key);
        }
        self.state().ready = true;
        self.readied.notify_waiters();
    }

    fn works(&self) {
        self.state().error = None;
    }

    fn failed(&self, fault: &Fault) {
        let (text, now) = (fault.to_string(), Instant::now());
        let mut state = self.state();
        let lasts = state
            .trouble
            .get_or_insert_with(|| Trouble::new(now))
            .should_log(&text, now);
        state.error = Some(text.clone());
        drop(state);
        if lasts {
            tracing::warn!(class = %fault.class, hint = %fault.hint, "{text}");
        } else {
            tracing::debug!(class = %fault.class, "{text}");
        }
    }
}
