//! One controller: a primary kind, what else concerns its objects, and a function that reconciles one of them.
//! It never reconciles an object twice at the same time, never lets one object hold back another beyond its
//! concurrency limit, and logs each fault once.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::{Fault, FaultClass};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::Resource;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use tokio::sync::Notify;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::cache::Cache;
use crate::changes::{Change, Changes};
use crate::key::ObjectKey;
use crate::metrics::ControllerMetrics;
use crate::queue::Queue;

/// What a successful reconcile wants next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: a change will call.
    Change,
    /// Another turn after this long, unless a change calls sooner.
    After(Duration),
}

/// Objects reconciled at the same time unless the controller says otherwise: Gardener's usual number of workers
/// for extension controllers.
const CONCURRENCY: usize = 5;
/// How long running reconciles may take to end once the controller is told to stop: what is a matter of calls ends
/// within it, what waits for others would not end in ten times as much. They are safe to be cut off at any call, so
/// this is courtesy, not need.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// While an object fails, changes of related objects call for it no sooner than this: they may be our own
/// writes, and must not defeat the backoff.
const RELATED_PAUSE: Duration = Duration::from_secs(1);

type Predicate<K> = Box<dyn Fn(Option<&K>, &K) -> bool + Send + Sync>;
type Selection<K> = Box<dyn Fn(&K) -> bool + Send + Sync>;
type Pump = Box<dyn FnOnce(Arc<Shared>) -> BoxFuture<'static, ()> + Send>;

/// A controller that is being put together; [`Controller::run`] starts it.
pub struct Controller<K> {
    name: String,
    primary: Cache<K>,
    predicate: Predicate<K>,
    selection: Selection<K>,
    pumps: Vec<Pump>,
    concurrency: usize,
    backoff: Backoff,
    metrics: Option<ControllerMetrics>,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    queue: Queue,
    failures: BTreeMap<ObjectKey, u32>,
}

impl Shared {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, key: ObjectKey, related: bool) {
        let now = Instant::now();
        let mut state = self.lock();
        let pause = related && state.failures.contains_key(&key);
        state.queue.add(key, if pause { now + RELATED_PAUSE } else { now }, now);
        drop(state);
        self.wake.notify_one();
    }
}

/// Whether anything but the status changed: the generation, labels, annotations, finalizers, owners, the
/// deletion timestamp. For kinds without generation (ConfigMap, Secret, Node, ...), whether anything changed.
pub fn changed_by_others<K: Resource>(old: Option<&K>, new: &K) -> bool {
    let Some(old) = old else { return true };
    let (old, new) = (old.meta(), new.meta());
    if new.generation.is_none() || old.uid != new.uid {
        return true;
    }
    let concerns = |meta: &ObjectMeta| {
        (
            meta.generation,
            meta.deletion_timestamp.clone(),
            meta.labels.clone(),
            meta.annotations.clone(),
            meta.finalizers.clone(),
            meta.owner_references.clone(),
        )
    };
    concerns(old) != concerns(new)
}

impl<K> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A controller of the objects in `primary`, named in logs and metrics as `name`. It reconciles every object
    /// once at the start and then whenever [`changed_by_others`] says so.
    pub fn new(name: impl Into<String>, primary: Cache<K>) -> Self {
        Self {
            name: name.into(),
            primary,
            predicate: Box::new(changed_by_others),
            selection: Box::new(|_| true),
            pumps: Vec::new(),
            concurrency: CONCURRENCY,
            backoff: Backoff::default(),
            metrics: None,
        }
    }

    /// Which changes of a primary object call for a reconcile, in place of [`changed_by_others`]. The first
    /// argument is none for an object seen for the first time.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(Option<&K>, &K) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Box::new(predicate);
        self
    }

    /// Leaves alone the objects for which `selection` is false, whoever calls for them.
    #[must_use]
    pub fn only(mut self, selection: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.selection = Box::new(selection);
        self
    }

    /// Lets every change of `related` call for the primary objects that `map` names.
    #[must_use]
    pub fn watches<R>(
        mut self,
        related: &Cache<R>,
        map: impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self
    where
        R: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        let related = related.clone();
        self.pumps.push(Box::new(move |shared| {
            // Subscribed before the first list of the primary is read, so that nothing is missed in between.
            let mut changes = related.subscribe();
            Box::pin(async move {
                loop {
                    let change = changes.next().await;
                    map(&change).into_iter().for_each(|key| shared.call(key, true));
                }
            })
        }));
        self
    }

    /// Lets every change of an object in `owned` call for its controlling owner of kind `K`.
    #[must_use]
    pub fn owns<R>(self, owned: &Cache<R>) -> Self
    where
        R: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.watches(owned, |change| {
            let meta = change.object.meta();
            let owner = meta.owner_references.iter().flatten().find(|owner| {
                owner.controller == Some(true) && owner.kind == K::kind(&()) && owner.api_version == K::api_version(&())
            });
            owner
                .map(|owner| ObjectKey {
                    namespace: meta.namespace.clone(),
                    name: owner.name.clone(),
                })
                .into_iter()
                .collect()
        })
    }

    /// Lets every key that `calls` yields call for that object at once.
    #[must_use]
    pub fn called_by(mut self, mut calls: BoxStream<'static, ObjectKey>) -> Self {
        self.pumps.push(Box::new(move |shared| {
            Box::pin(async move {
                while let Some(key) = calls.next().await {
                    shared.call(key, false);
                }
            })
        }));
        self
    }

    /// How many objects are reconciled at the same time, at least one.
    #[must_use]
    pub fn concurrency(mut self, concurrency: usize) -> Self {
        self.concurrency = concurrency.max(1);
        self
    }

    /// Other delays after faults.
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.backoff = backoff;
        self
    }

    /// Counts reconciles, faults, durations and the queue's depth in `metrics`.
    #[must_use]
    pub fn metrics(mut self, metrics: &base_telemetry::Metrics) -> Self {
        self.metrics = Some(ControllerMetrics::new(metrics, &self.name));
        self
    }

    /// Reconciles until `stop`. Faults and panics of `reconcile` are logged and retried by their class.
    pub async fn run<F, Fut>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, Fault>> + Send + 'static,
    {
        let Self {
            name,
            primary,
            predicate,
            selection,
            pumps,
            concurrency,
            backoff,
            metrics,
        } = self;
        let shared = Arc::new(Shared::default());
        let mut pumping: JoinSet<()> = JoinSet::new();
        let changes = primary.subscribe();
        pumping.spawn(pump_primary(primary.clone(), changes, predicate, shared.clone()));
        for pump in pumps {
            pumping.spawn(pump(shared.clone()));
        }
        let (tasks, keys) = (JoinSet::new(), BTreeMap::new());
        let mut work = Work {
            name,
            primary,
            selection,
            backoff,
            metrics,
            shared,
            reconcile,
            tasks,
            keys,
        };
        loop {
            work.start(concurrency);
            let timer = work.shared.lock().queue.next_timer();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = work.tasks.join_next_with_id() => work.finish(ended),
                () = work.shared.wake.notified() => {}
                () = sleep_until(timer), if timer.is_some() && work.tasks.len() < concurrency => {}
            }
        }
        pumping.abort_all();
        let draining = async { while work.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(STOP_GRACE, draining).await.is_err() {
            tracing::debug!(controller = work.name, "reconciles are cut off");
            work.tasks.abort_all();
        }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn pump_primary<K>(cache: Cache<K>, mut changes: Changes<K>, predicate: Predicate<K>, shared: Arc<Shared>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    // Nothing is reconciled before all is known: a reconcile may look for other objects of its kind.
    cache.ready().await;
    for object in cache.list() {
        if predicate(None, &object) {
            shared.call(ObjectKey::of(&*object), false);
        }
    }
    loop {
        let change = changes.next().await;
        let key = ObjectKey::of(&*change.object);
        match change.new() {
            Some(new) if predicate(change.old.as_deref(), new) => shared.call(key, false),
            Some(_) => {}
            None => {
                shared.lock().failures.remove(&key);
            }
        }
    }
}

struct Work<K, F> {
    name: String,
    primary: Cache<K>,
    selection: Selection<K>,
    backoff: Backoff,
    metrics: Option<ControllerMetrics>,
    shared: Arc<Shared>,
    reconcile: F,
    tasks: JoinSet<(Result<Next, Fault>, Duration)>,
    keys: BTreeMap<Id, ObjectKey>,
}

type Ended = Result<(Id, (Result<Next, Fault>, Duration)), JoinError>;

impl<K, F, Fut> Work<K, F>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    F: Fn(Arc<K>) -> Fut,
    Fut: Future<Output = Result<Next, Fault>> + Send + 'static,
{
    fn start(&mut self, concurrency: usize) {
        while self.tasks.len() < concurrency {
            let now = Instant::now();
            let Some(key) = self.shared.lock().queue.take(now) else {
                break;
            };
            let Some(object) = self.primary.get(&key).filter(|object| (self.selection)(object)) else {
                let mut state = self.shared.lock();
                state.failures.remove(&key);
                state.queue.done(&key, None, true, now);
                continue;
            };
            let reconciling = (self.reconcile)(object);
            let task = self.tasks.spawn(async move { (reconciling.await, now.elapsed()) });
            self.keys.insert(task.id(), key);
        }
        if let Some(metrics) = &self.metrics {
            metrics.depth(self.shared.lock().queue.depth());
        }
    }

    fn finish(&mut self, ended: Ended) {
        let (id, result, took) = match ended {
            Ok((id, (result, took))) => (id, result, took),
            Err(error) => (error.id(), Err(panicked(error)), Duration::ZERO),
        };
        let Some(key) = self.keys.remove(&id) else { return };
        let now = Instant::now();
        let mut state = self.shared.lock();
        let mut failures_in_row = 0;
        let again = match &result {
            Ok(next) => {
                state.failures.remove(&key);
                match next {
                    Next::Change => None,
                    Next::After(delay) => Some(*delay),
                }
            }
            Err(fault) => {
                let failures = state.failures.entry(key.clone()).or_default();
                *failures = failures.saturating_add(1);
                failures_in_row = *failures;
                Some(self.backoff.delay(fault.class, *failures))
            }
        };
        state
            .queue
            .done(&key, again.map(|delay| now + delay), result.is_ok(), now);
        drop(state);
        if let Some(metrics) = &self.metrics {
            metrics.reconciled(took, result.as_ref().err().map(|fault| fault.class));
        }
        if let Err(fault) = result {
            self.log(&key, &fault, failures_in_row, again.unwrap_or_default());
        }
    }

    fn log(&self, key: &ObjectKey, fault: &Fault, failures: u32, retry: Duration) {
        let (controller, kind) = (&self.name, K::kind(&()));
        let (class, hint, chain) = (fault.class, &fault.hint, fault.chain());
        // What others bring about is often on its way; what is missing still at the second look is trouble.
        let may_pass = match class {
            FaultClass::Transient => true,
            FaultClass::Dependency | FaultClass::Access => failures < 2,
            FaultClass::User | FaultClass::Quota | FaultClass::Bug => false,
        };
        match class {
            _ if may_pass => {
                tracing::debug!(controller, %kind, object = %key, %class, hint, ?retry, "{chain}");
            }
            FaultClass::Bug => tracing::error!(controller, %kind, object = %key, %class, hint, ?retry, "{chain}"),
            _ => tracing::warn!(controller, %kind, object = %key, %class, hint, ?retry, "{chain}"),
        }
    }
}

/// The fault of a reconcile that did not return.
fn panicked(error: JoinError) -> Fault {
    if !error.is_panic() {
        return Fault::transient("the reconcile was cut off");
    }
    let payload = error.into_panic();
    let text = payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "without a text".to_owned());
    Fault::bug(format!("the reconcile panicked: {text}")).hint("report it with the log around it")
}
