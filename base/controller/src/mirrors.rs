//! Mirrors of one kind in many other clusters, one cluster for each namespace whose owners need it. A mirror lives as
//! long as its namespace has an owner: none is opened for an owner that has just gone, and an open one is closed when the
//! last owner goes, whatever other tasks do meanwhile. It connects to nothing by itself.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use api_meta::Fault;
use kube::runtime::watcher;
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cache::Cache;
use crate::index::Index;

/// One cluster with its mirror.
pub struct Mirror<M> {
    /// A client of the cluster.
    pub client: Client,
    /// Its objects.
    pub objects: Cache<M>,
    version: Option<String>,
    stop: CancellationToken,
}

impl<M> Clone for Mirror<M> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            objects: self.objects.clone(),
            version: self.version.clone(),
            stop: self.stop.clone(),
        }
    }
}

/// Something in a mirror has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorChange {
    /// The namespace the mirror is for.
    pub namespace: String,
    /// The object; none when all have been listed for the first time.
    pub name: Option<String>,
}

type Open<M> = Mutex<BTreeMap<String, Mirror<M>>>;
type Wanted = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// All mirrors of a process.
pub struct Mirrors<M> {
    open: Arc<Open<M>>,
    wanted: Arc<Wanted>,
    changes: mpsc::UnboundedSender<MirrorChange>,
    stop: CancellationToken,
}

impl<M> Mirrors<M>
where
    M: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// None yet. An owner in `owners` needs the mirror of the namespace that `home` gives for it, and none if that gives
    /// none; it never moves to another. Changes come by the receiver: its reader only enqueues objects, so the
    /// backlog is bounded by the changes between two reads. All ends with `stop`. Must be called within a tokio runtime.
    pub fn new<K>(
        owners: &Cache<K>,
        home: impl Fn(&K) -> Option<String> + Send + Sync + 'static,
        stop: CancellationToken,
    ) -> (Self, mpsc::UnboundedReceiver<MirrorChange>)
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let (changes, changed) = mpsc::unbounded_channel();
        let home = Arc::new(home);
        let of_known = home.clone();
        let by_home: Index<K> = owners.index(move |owner| of_known(owner));
        let mirrors = Self {
            open: Arc::default(),
            wanted: Arc::new(Box::new(move |namespace| by_home.contains(namespace))),
            changes,
            stop: stop.clone(),
        };
        let (open, wanted, mut owner_changes) = (mirrors.open.clone(), mirrors.wanted.clone(), owners.subscribe());
        tokio::spawn(stop.run_until_cancelled_owned(async move {
            loop {
                let change = owner_changes.next().await;
                if change.new().and_then(|owner| home(owner)).is_none() {
                    close_unwanted(&open, &wanted);
                }
            }
        }));
        (mirrors, changed)
    }

    /// The mirror of `namespace`, if it is open.
    pub fn get(&self, namespace: &str) -> Option<Mirror<M>> {
        lock(&self.open).get(namespace).cloned()
    }

    /// Opens the mirror of `namespace` by what `connect` gives, in place of one that is open; one of the same `version`
    /// stays. None when it has no owner any more.
    ///
    /// # Errors
    /// Those of `connect`.
    pub fn open(
        &self,
        namespace: &str,
        version: Option<&str>,
        connect: impl FnOnce() -> Result<Client, Fault>,
    ) -> Result<Option<Mirror<M>>, Fault> {
        let mut open = lock(&self.open);
        if let Some(present) = open.get(namespace)
            && version.is_some()
            && present.version.as_deref() == version
        {
            return Ok(Some(present.clone()));
        }
        // Checked under the lock under which mirrors are closed: the owners' cache removes an owner first and then
        // notifies, so what is opened here is closed by that later notification.
        if !(self.wanted)(namespace) {
            return Ok(None);
        }
        if let Some(stale) = open.remove(namespace) {
            stale.stop.cancel();
        }
        let client = connect()?;
        let stop = self.stop.child_token();
        let objects = Cache::start(Api::all(client.clone()), watcher::Config::default(), stop.clone());
        tokio::spawn(stop.clone().run_until_cancelled_owned(pump(
            namespace.to_owned(),
            objects.clone(),
            self.changes.clone(),
        )));
        let mirror = Mirror {
            client,
            objects,
            version: version.map(str::to_owned),
            stop,
        };
        open.insert(namespace.to_owned(), mirror.clone());
        Ok(Some(mirror))
    }
}

impl<M> Drop for Mirrors<M> {
    fn drop(&mut self) {
        lock(&self.open).values().for_each(|mirror| mirror.stop.cancel());
    }
}

fn lock<M>(open: &Open<M>) -> MutexGuard<'_, BTreeMap<String, Mirror<M>>> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

fn close_unwanted<M>(open: &Open<M>, wanted: &Wanted) {
    let mut open = lock(open);
    open.retain(|namespace, mirror| {
        let stays = wanted(namespace);
        if !stays {
            mirror.stop.cancel();
        }
        stays
    });
}

async fn pump<M>(namespace: String, objects: Cache<M>, changes: mpsc::UnboundedSender<MirrorChange>)
where
    M: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let mut seen = objects.subscribe();
    let send = |name: Option<String>| {
        let namespace = namespace.clone();
        changes.send(MirrorChange { namespace, name }).is_ok()
    };
    // Callers may wait for objects of the first list: they look again once it is there.
    objects.ready().await;
    let mut has_receiver = send(None);
    while has_receiver {
        let change = seen.next().await;
        has_receiver = send(change.object.meta().name.clone());
    }
}
