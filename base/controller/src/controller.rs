//! One controller: a primary kind, what else concerns its objects, and a function that reconciles one of them.
//! It never reconciles an object twice at the same time, never lets one object hold back another beyond its
//! concurrency limit, and logs each fault once: the same one at every retry is logged again only after an hour.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use api_meta::{Fault, FaultClass, panic_text};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::cache::Cache;
use crate::changes::{Change, Changes};
use crate::key::ObjectKey;
use crate::metrics::ControllerMetrics;
use crate::work_queue::{Failing, Retries, Trigger, WorkQueue, changed_by_others, is_new_request};

/// What follows a successful reconcile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Nothing: a change will have it reconciled.
    Change,
    /// Another reconcile after this long, unless a change comes sooner.
    After(Duration),
}

/// Objects reconciled at the same time by default: Gardener's usual number of workers
/// for extension controllers.
const CONCURRENCY: usize = 5;
/// How long running reconciles may take to end once the controller is stopped: requests end within it, a wait for others
/// would not end in ten times as much. Reconciles may be cancelled at any request, so this is courtesy, not need.
const STOP_GRACE: Duration = Duration::from_secs(1);

type Predicate<K> = Box<dyn Fn(Option<&K>, &K) -> bool + Send + Sync>;
type Selection<K> = Box<dyn Fn(&K) -> bool + Send + Sync>;
type Classify<K> = Box<dyn Fn(Option<&K>, &K) -> Option<Trigger> + Send + Sync>;
type Pump = Box<dyn FnOnce(Arc<WorkQueue>) -> BoxFuture<'static, ()> + Send>;

/// A controller that is being put together; [`Controller::run`] starts it.
pub struct Controller<K> {
    name: String,
    primary: Cache<K>,
    work_queue: Arc<WorkQueue>,
    predicate: Option<Predicate<K>>,
    news: Option<Predicate<K>>,
    selection: Selection<K>,
    pumps: Vec<Pump>,
    concurrency: usize,
    backoff: Backoff,
    metrics: Option<ControllerMetrics>,
}

impl<K> Controller<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    /// A controller of the objects in `primary`, named in logs and metrics as `name`. It reconciles every object
    /// once at the start and then whenever [`changed_by_others`] holds. One that fails waits for the end of its
    /// back-off, and is reconciled at once when its generation, its deletion or the operation requested of it shows that
    /// something else is wanted; see also [`Controller::news`].
    pub fn new(name: impl Into<String>, primary: Cache<K>) -> Self {
        Self {
            name: name.into(),
            primary,
            work_queue: Arc::default(),
            predicate: None,
            news: None,
            selection: Box::new(|_| true),
            pumps: Vec::new(),
            concurrency: CONCURRENCY,
            backoff: Backoff::default(),
            metrics: None,
        }
    }

    /// Which changes of a primary object have it reconciled, in place of [`changed_by_others`]. The first
    /// argument is none for an object seen for the first time.
    #[must_use]
    pub fn when(mut self, predicate: impl Fn(Option<&K>, &K) -> bool + Send + Sync + 'static) -> Self {
        self.predicate = Some(Box::new(predicate));
        self
    }

    /// Which changes of a primary object, beside those named at [`Controller::new`], end the back-off of one that
    /// fails. They must not be what a reconcile itself writes, or it is tried again without a pause.
    #[must_use]
    pub fn news(mut self, news: impl Fn(&K, &K) -> bool + Send + Sync + 'static) -> Self {
        self.news = Some(Box::new(move |old, new| old.is_some_and(|old| news(old, new))));
        self
    }

    /// Ignores the objects for which `selection` is false, or panics, whatever enqueues them.
    #[must_use]
    pub fn only(mut self, selection: impl Fn(&K) -> bool + Send + Sync + 'static) -> Self {
        self.selection = Box::new(selection);
        self
    }

    /// Has the primary objects that `map` names reconciled at every change of `related`.
    #[must_use]
    pub fn watches<R>(
        mut self,
        related: &Cache<R>,
        map: impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self
    where
        R: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.pumps.push(pump_related(related, |_| Vec::new(), map));
        self
    }

    /// As [`Controller::watches`], and calls `map` for what is in `related` when the controller starts, as for new objects:
    /// for a `map` that remembers what it has seen. It may be called twice for an object that is created at that moment.
    #[must_use]
    pub fn watches_from_start<R>(
        mut self,
        related: &Cache<R>,
        map: impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self
    where
        R: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    {
        self.pumps.push(pump_related(related, Cache::list, map));
        self
    }

    /// Has the controlling owner of kind `K` reconciled at every change of an object in `owned`.
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

    /// Has every object whose key `keys` yields reconciled at once.
    #[must_use]
    pub fn called_by(mut self, mut keys: BoxStream<'static, ObjectKey>) -> Self {
        self.pumps.push(Box::new(move |work_queue| {
            Box::pin(async move {
                while let Some(key) = keys.next().await {
                    work_queue.enqueue(key, Trigger::NewRequest);
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

    /// When its objects are retried. To be called after [`Controller::backoff`], whose delays it uses.
    pub fn retries(&self) -> Retries {
        Retries {
            work_queue: self.work_queue.clone(),
            backoff: self.backoff,
        }
    }

    /// Counts reconciles, faults, durations and the queue's depth in `metrics`.
    #[must_use]
    pub fn metrics(mut self, metrics: &base_telemetry::Metrics) -> Self {
        self.metrics = Some(ControllerMetrics::new(metrics, &self.name));
        self
    }

    /// Reconciles until `stop`. Faults and panics of `reconcile` are logged and retried by their class. A panic of a function that
    /// looks at a change is logged: a change of a primary object then has it reconciled, one of a related object has no effect.
    pub async fn run<F, Fut>(self, stop: CancellationToken, reconcile: F)
    where
        F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Next, Fault>> + Send + 'static,
    {
        let Self {
            name,
            primary,
            work_queue,
            predicate,
            news,
            selection,
            pumps,
            concurrency,
            backoff,
            metrics,
        } = self;
        let mut pumping: JoinSet<()> = JoinSet::new();
        let changes = primary.subscribe();
        let classify = classifier(predicate, news);
        pumping.spawn(pump_primary(primary.clone(), changes, classify, work_queue.clone()));
        for pump in pumps {
            pumping.spawn(pump(work_queue.clone()));
        }
        let (tasks, keys) = (JoinSet::new(), BTreeMap::new());
        let mut work = Work {
            name,
            primary,
            selection,
            backoff,
            metrics,
            work_queue,
            reconcile: Arc::new(reconcile),
            tasks,
            keys,
        };
        loop {
            work.start(concurrency);
            let timer = work.work_queue.lock().queue.next_timer();
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = work.tasks.join_next_with_id() => work.finish(ended),
                Some(ended) = pumping.join_next() => work.pump_ended(ended),
                () = work.work_queue.wake.notified() => {}
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

/// Enqueues what `map` names: for the objects that are `known` at the start, then at every change.
fn pump_related<R>(
    related: &Cache<R>,
    known: fn(&Cache<R>) -> Vec<Arc<R>>,
    map: impl Fn(&Change<R>) -> Vec<ObjectKey> + Send + Sync + 'static,
) -> Pump
where
    R: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    let related = related.clone();
    Box::new(move |work_queue| {
        // Subscribed before the first list of the primary is read, so that nothing is missed in between.
        let mut changes = related.subscribe();
        let known = known(&related);
        Box::pin(async move {
            let enqueue = |change: &Change<R>| {
                let keys = guarded(&*change.object, || map(change)).unwrap_or_default();
                keys.into_iter()
                    .for_each(|key| work_queue.enqueue(key, Trigger::RelevantChange));
            };
            for object in known {
                enqueue(&Change::first(object));
            }
            loop {
                enqueue(&changes.next().await);
            }
        })
    })
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// What `look` gives; none if it panics, which is logged: the controller goes on with other changes and objects.
fn guarded<R: Resource<DynamicType = ()>, T>(object: &R, look: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(look)) {
        Ok(found) => Some(found),
        Err(panic) => {
            let (kind, object, text) = (R::kind(&()), ObjectKey::of(object), panic_text(&*panic));
            tracing::error!(%kind, %object, "a controller's function for changes panicked: {text}");
            None
        }
    }
}

/// Which trigger a change of a primary object is; none if it requires no reconcile. With a predicate, or for a kind without
/// generations, any change may be a new request or our own write: then only time distinguishes the two.
fn classifier<K>(predicate: Option<Predicate<K>>, news: Option<Predicate<K>>) -> Classify<K>
where
    K: Resource<DynamicType = ()> + 'static,
{
    let classify = move |old: Option<&K>, new: &K| {
        let requires_reconcile = match &predicate {
            Some(predicate) => predicate(old, new),
            None => changed_by_others(old, new),
        };
        let is_new = is_new_request(old, new) || news.as_ref().is_some_and(|news| news(old, new));
        let trigger = match is_new {
            true => Trigger::NewRequest,
            false if predicate.is_some() || new.meta().generation.is_none() => Trigger::RelevantChange,
            false => Trigger::OtherChange,
        };
        requires_reconcile.then_some(trigger)
    };
    Box::new(move |old, new| guarded(new, || classify(old, new)).unwrap_or(Some(Trigger::RelevantChange)))
}

async fn pump_primary<K>(cache: Cache<K>, mut changes: Changes<K>, classify: Classify<K>, work_queue: Arc<WorkQueue>)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
{
    // Nothing is reconciled before all is known: a reconcile may look for other objects of its kind.
    cache.ready().await;
    for object in cache.list() {
        if let Some(trigger) = classify(None, &object) {
            work_queue.enqueue(ObjectKey::of(&*object), trigger);
        }
    }
    loop {
        let change = changes.next().await;
        let key = ObjectKey::of(&*change.object);
        match change.new() {
            Some(new) => {
                let stale = || work_queue.lock().may_be_stale(&key).then_some(Trigger::OtherChange);
                if let Some(trigger) = classify(change.old.as_deref(), new).or_else(stale) {
                    work_queue.enqueue(key, trigger);
                }
            }
            None => work_queue.lock().forget(&key),
        }
    }
}

struct Work<K, F> {
    name: String,
    primary: Cache<K>,
    selection: Selection<K>,
    backoff: Backoff,
    metrics: Option<ControllerMetrics>,
    work_queue: Arc<WorkQueue>,
    reconcile: Arc<F>,
    tasks: JoinSet<(Result<Next, Fault>, Duration)>,
    keys: BTreeMap<Id, ObjectKey>,
}

type Ended = Result<(Id, (Result<Next, Fault>, Duration)), JoinError>;

impl<K, F, Fut> Work<K, F>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    F: Fn(Arc<K>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Next, Fault>> + Send + 'static,
{
    fn start(&mut self, concurrency: usize) {
        while self.tasks.len() < concurrency {
            let now = Instant::now();
            let Some(key) = self.work_queue.lock().queue.take(now) else {
                break;
            };
            let mut state = self.work_queue.lock();
            // Under the lock: a change that comes after this read finds the reconcile recorded.
            let is_selected = |object: &Arc<K>| guarded(&**object, || (self.selection)(object)).unwrap_or(false);
            let Some(object) = self.primary.get(&key).filter(is_selected) else {
                state.forget(&key);
                state.queue.done(&key, None, true, now);
                continue;
            };
            state.begin_reconcile(&key, object.meta().resource_version.clone());
            drop(state);
            // The call itself is inside the task: one that panics before it gives a future ends the task alone.
            let reconcile = self.reconcile.clone();
            let task = self
                .tasks
                .spawn(async move { (reconcile(object).await, now.elapsed()) });
            self.keys.insert(task.id(), key);
        }
        if let Some(metrics) = &self.metrics {
            metrics.depth(self.work_queue.lock().queue.depth());
        }
    }

    /// A stream of [`Controller::called_by`] has ended, by itself or by a panic, after which it cannot be read again.
    fn pump_ended(&self, ended: Result<(), JoinError>) {
        if let Err(Ok(panic)) = ended.map_err(JoinError::try_into_panic) {
            let text = panic_text(&*panic);
            tracing::error!(
                controller = self.name,
                "a stream of keys panicked and enqueues no object any more: {text}"
            );
        }
    }

    fn finish(&mut self, ended: Ended) {
        let (id, result, took) = match ended {
            Ok((id, (result, took))) => (id, result, took),
            Err(error) => (error.id(), Err(panicked(error)), Duration::ZERO),
        };
        let Some(key) = self.keys.remove(&id) else { return };
        let now = Instant::now();
        let mut state = self.work_queue.lock();
        let again = match &result {
            Ok(next) => {
                state.failing.remove(&key);
                match next {
                    Next::Change => None,
                    Next::After(delay) => Some(*delay),
                }
            }
            Err(fault) => {
                let failing = state.failing.entry(key.clone()).or_default();
                failing.in_a_row = failing.in_a_row.saturating_add(1);
                let delay = self.backoff.delay(fault.class, failing.in_a_row);
                self.log(&key, fault, failing, delay, now);
                Some(delay)
            }
        };
        state
            .queue
            .done(&key, again.map(|delay| now + delay), result.is_ok(), now);
        drop(state);
        if let Some(metrics) = &self.metrics {
            metrics.reconciled(took, result.as_ref().err().map(|fault| fault.class));
        }
    }

    fn log(&self, key: &ObjectKey, fault: &Fault, failing: &mut Failing, retry: Duration, now: Instant) {
        let (controller, kind) = (&self.name, K::kind(&()));
        let (class, hint, chain) = (fault.class, &fault.hint, fault.chain());
        // What others must do is often under way; what is still missing at the second attempt is worth a line.
        let may_pass = match class {
            FaultClass::Transient => true,
            FaultClass::Dependency | FaultClass::Access => failing.in_a_row < 2,
            FaultClass::User | FaultClass::Quota | FaultClass::Bug => false,
        };
        let is_logged = !may_pass && failing.log.should_log(&chain, now);
        let times = failing.log.times();
        match class {
            _ if !is_logged => {
                tracing::debug!(controller, %kind, object = %key, %class, hint, ?retry, times, "{chain}");
            }
            FaultClass::Bug => tracing::error!(controller, %kind, object = %key, %class, hint, ?retry, "{chain}"),
            _ => tracing::warn!(controller, %kind, object = %key, %class, hint, ?retry, "{chain}"),
        }
    }
}

/// The fault of a reconcile that did not return.
fn panicked(error: JoinError) -> Fault {
    match error.try_into_panic() {
        Ok(panic) => Fault::bug(format!("the reconcile panicked: {}", panic_text(&*panic)))
            .hint("report it with the log around it"),
        Err(_) => Fault::transient("the reconcile was cut off"),
    }
}
