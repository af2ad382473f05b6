//! What calls for an object, and when it has its turn then: at once, or after the back-off of its failures.
//!
//! In controller-runtime (v0.22 pkg/controller/priorityqueue and client-go's workqueue) every event of an object that
//! fails has it reconciled at once: one that comes during the turn right after it, one that comes later in front of its
//! back-off. A controller that labels what it fails on, or whose status another one turns into a label, so retries
//! without a pause, unless its author has added a predicate. Here only a change that requests something new ends a back-off.
//! Nothing is lost by that: a failure always plans another turn, and that turn sees the object as it is then.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use api_meta::{FaultClass, annotations};
use kube::Resource;
use kube::api::ObjectMeta;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::key::ObjectKey;
use crate::queue::Queue;
use crate::trouble::FailureLog;

/// While an object fails, changes of related objects call for it no sooner than this: they may be our own
/// writes, and must not defeat the backoff.
const RELATED_PAUSE: Duration = Duration::from_secs(1);

/// How urgent a call for an object that fails is. One that does not fail has its turn at once, whatever calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weight {
    /// Something else is requested: at once.
    News,
    /// Something has changed that may matter, and that may be our own doing: after [`RELATED_PAUSE`].
    Related,
    /// Something about it has changed that requests nothing: when its back-off is over.
    Touch,
}

/// The queue of one controller and the failures of its objects, shared by all callers.
#[derive(Default)]
pub(crate) struct Calls {
    state: Mutex<State>,
    pub(crate) wake: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) queue: Queue,
    pub(crate) failing: BTreeMap<ObjectKey, Failing>,
    turns: BTreeMap<ObjectKey, Turn>,
}

/// The last turn of an object.
#[derive(Debug)]
struct Turn {
    /// The resource version of the object as it was seen.
    version: Option<String>,
    /// Whether the turn before saw the same.
    twice: bool,
}

impl State {
    /// Records that a turn begins for an object as `version`.
    pub(crate) fn begins(&mut self, key: &ObjectKey, version: Option<String>) {
        let before = self.turns.get(key);
        let twice = version.is_some() && before.is_some_and(|before| before.version == version);
        self.turns.insert(key.clone(), Turn { version, twice });
    }

    /// Whether the last turn may have seen the object as it was before the previous turn's write: what it found done may
    /// not be done any more. The next change of the object, even of its status alone, must call for a turn.
    pub(crate) fn may_be_stale(&self, key: &ObjectKey) -> bool {
        self.turns.get(key).is_some_and(|turn| turn.twice)
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.failing.remove(key);
        self.turns.remove(key);
    }
}

/// The failures of one object since it last succeeded.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    pub(crate) in_a_row: u32,
    pub(crate) log: FailureLog,
}

impl Calls {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn call(&self, key: ObjectKey, weight: Weight) {
        let now = Instant::now();
        let mut state = self.lock();
        let fails = state.failing.contains_key(&key);
        let after_failure = match weight {
            Weight::News => Some(now),
            Weight::Related if fails => Some(now + RELATED_PAUSE),
            Weight::Related => Some(now),
            Weight::Touch => None,
        };
        if !state.queue.request_again(&key, after_failure) {
            match after_failure {
                _ if !fails => state.queue.add(key, now, now),
                Some(at) => state.queue.add(key, at, now),
                // It waits for its back-off already.
                None => {}
            }
        }
        drop(state);
        self.wake.notify_one();
    }
}

/// Knows when the objects of one controller are retried.
#[derive(Clone)]
pub struct Retries {
    pub(crate) calls: Arc<Calls>,
    pub(crate) backoff: Backoff,
}

impl Retries {
    /// How long the object `key`, which is being reconciled, will wait if it fails now with a fault of this class. A change
    /// that ends its back-off, or one of a related object, has it retried sooner.
    pub fn delay(&self, key: &ObjectKey, class: FaultClass) -> Duration {
        let before = self.calls.lock().failing.get(key).map_or(0, |failing| failing.in_a_row);
        self.backoff.delay(class, before.saturating_add(1))
    }
}

/// Whether anything but the status, and the annotations that belong to it, changed: the generation, labels, annotations,
/// finalizers, owners, the deletion timestamp. For kinds without generation (ConfigMap, Secret, Node, ...), whether anything changed.
pub fn changed_by_others<K: Resource>(old: Option<&K>, new: &K) -> bool {
    let Some(old) = old else { return true };
    let (old, new) = (old.meta(), new.meta());
    if new.generation.is_none() || old.uid != new.uid {
        return true;
    }
    let annotations = |meta: &ObjectMeta| {
        let mut all = meta.annotations.clone().unwrap_or_default();
        all.retain(|name, _| !name.starts_with(annotations::STATUS_PREFIX));
        all
    };
    let concerns = |meta: &ObjectMeta| {
        (
            meta.generation,
            meta.deletion_timestamp.clone(),
            meta.labels.clone(),
            annotations(meta),
            meta.finalizers.clone(),
            meta.owner_references.clone(),
        )
    };
    concerns(old) != concerns(new)
}

/// Whether a change requests something else, or lets a deletion go on. Neither can be a controller's own doing turn
/// after turn: operations are requested by others, and what is being deleted gets no new finalizers.
pub(crate) fn is_news<K: Resource>(old: Option<&K>, new: &K) -> bool {
    let Some(old) = old else { return true };
    let (old, new) = (old.meta(), new.meta());
    let operation = |meta: &ObjectMeta| meta.annotations.as_ref()?.get(annotations::OPERATION).cloned();
    let held = |meta: &ObjectMeta| meta.finalizers.as_ref().map_or(0, Vec::len);
    old.uid != new.uid
        || old.generation != new.generation
        || old.deletion_timestamp.is_some() != new.deletion_timestamp.is_some()
        || operation(new).is_some() && operation(old) != operation(new)
        || new.deletion_timestamp.is_some() && held(new) < held(old)
}
