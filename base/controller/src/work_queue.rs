//! Which objects a controller is to reconcile, and when: at once, or after the back-off of their failures.
//!
//! In controller-runtime (v0.22 pkg/controller/priorityqueue and client-go's workqueue) every event of an object that
//! fails has it reconciled at once: one that comes during a reconcile right after it, one that comes later in front of its
//! back-off. A controller that labels what it fails on, or whose status another one turns into a label, so retries
//! without a pause, unless its author has added a predicate. Here only a change that requests something new ends a back-off.
//! Nothing is lost by that: a failure always plans another reconcile, which sees the object as it is then.

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

/// While an object fails, a change that may be our own write has it reconciled no sooner than this: it must not defeat the
/// back-off.
const RELEVANT_CHANGE_PAUSE: Duration = Duration::from_secs(1);

/// Why an object is enqueued, which decides when one that fails is reconciled. Another is reconciled at once, whatever the
/// trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trigger {
    /// Something else is requested: at once.
    NewRequest,
    /// Something has changed that may matter, and that may be our own doing: after [`RELEVANT_CHANGE_PAUSE`].
    RelevantChange,
    /// Something about it has changed that requests nothing: when its back-off is over.
    OtherChange,
}

/// The queue of one controller and the failures of its objects, shared by all that enqueue.
#[derive(Default)]
pub(crate) struct WorkQueue {
    state: Mutex<State>,
    pub(crate) wake: Notify,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) queue: Queue,
    pub(crate) failing: BTreeMap<ObjectKey, Failing>,
    last_reconciles: BTreeMap<ObjectKey, LastReconcile>,
}

/// The last reconcile of an object.
#[derive(Debug)]
struct LastReconcile {
    /// The resource version of the object as it was seen.
    version: Option<String>,
    /// Whether the one before saw the same.
    twice: bool,
}

impl State {
    /// Records that a reconcile begins of an object as `version`.
    pub(crate) fn begin_reconcile(&mut self, key: &ObjectKey, version: Option<String>) {
        let before = self.last_reconciles.get(key);
        let twice = version.is_some() && before.is_some_and(|before| before.version == version);
        self.last_reconciles
            .insert(key.clone(), LastReconcile { version, twice });
    }

    /// Whether the last reconcile may have seen the object as it was before the write of the one before: what it found done may
    /// not be done any more. The next change of the object, even of its status alone, must have it reconciled.
    pub(crate) fn may_be_stale(&self, key: &ObjectKey) -> bool {
        self.last_reconciles.get(key).is_some_and(|last| last.twice)
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&mut self, key: &ObjectKey) {
        self.failing.remove(key);
        self.last_reconciles.remove(key);
    }
}

/// The failures of one object since it last succeeded.
#[derive(Debug, Default)]
pub(crate) struct Failing {
    pub(crate) in_a_row: u32,
    pub(crate) log: FailureLog,
}

impl WorkQueue {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enqueue(&self, key: ObjectKey, trigger: Trigger) {
        let now = Instant::now();
        let mut state = self.lock();
        let fails = state.failing.contains_key(&key);
        let after_failure = match trigger {
            Trigger::NewRequest => Some(now),
            Trigger::RelevantChange if fails => Some(now + RELEVANT_CHANGE_PAUSE),
            Trigger::RelevantChange => Some(now),
            Trigger::OtherChange => None,
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
    pub(crate) work_queue: Arc<WorkQueue>,
    pub(crate) backoff: Backoff,
}

impl Retries {
    /// How long the object `key`, which is being reconciled, will wait if it fails now with a fault of this class. A change
    /// that ends its back-off, or one of a related object, has it retried sooner.
    pub fn delay(&self, key: &ObjectKey, class: FaultClass) -> Duration {
        let before = self
            .work_queue
            .lock()
            .failing
            .get(key)
            .map_or(0, |failing| failing.in_a_row);
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

/// Whether a change requests something else, or lets a deletion go on. Neither can be a controller's own doing again
/// and again: operations are requested by others, and what is being deleted gets no new finalizers.
pub(crate) fn is_new_request<K: Resource>(old: Option<&K>, new: &K) -> bool {
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
