//! Operations that are not finished and wait to be called again. In memory: a process that starts calls them at once.

use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::annotations::operation;
use base_controller::ObjectKey;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::context::{AGAIN_MIN, Carried};
use crate::operation::{annotation_of, requested_at};
use crate::remembered::Remembered;
use crate::watches::Due;

/// A pause of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    began: Instant,
    until: Instant,
    wanted: Wanted,
    /// The last signal for the object when the call began that has ended in the pause.
    signal: Option<u64>,
    /// What that call has left for the next.
    pub(crate) carried: Option<Carried>,
    /// It is no pause of the operation's own: a transient fault has ended the call.
    pub(crate) interrupted: bool,
}

/// What an object requests: another request ends a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    uid: Option<String>,
    generation: Option<i64>,
    deleting: bool,
    operation: Option<String>,
    requested: Option<Timestamp>,
}

impl Wanted {
    fn of<K: ExtensionObject>(object: &K) -> Self {
        let meta = object.meta();
        Self {
            uid: meta.uid.clone(),
            generation: meta.generation,
            deleting: meta.deletion_timestamp.is_some(),
            operation: annotation_of(object).map(str::to_owned),
            requested: requested_at(object),
        }
    }
}

impl Rest {
    /// A pause of the operation that was begun on `object` after `signal`.
    pub(crate) fn new<K: ExtensionObject>(
        after: Duration,
        object: &K,
        signal: Option<u64>,
        carried: Option<Carried>,
    ) -> Self {
        let began = Instant::now();
        Self {
            began,
            until: began + after,
            wanted: Wanted::of(object),
            signal,
            carried,
            interrupted: false,
        }
    }

    /// What a call leaves that a transient fault has ended: the back-off is the pause.
    pub(crate) fn interrupted<K: ExtensionObject>(object: &K, signal: Option<u64>, carried: Option<Carried>) -> Self {
        Self {
            interrupted: true,
            ..Self::new(Duration::ZERO, object, signal, carried)
        }
    }

    /// Whether `object` still requests the operation that pauses, and nothing else. A request to reconcile is always a new
    /// one: the one that began the operation is off the object.
    pub(crate) fn is_of<K: ExtensionObject>(&self, object: &K) -> bool {
        self.wanted == Wanted::of(object) && annotation_of(object) != Some(operation::RECONCILE)
    }

    /// What is left of it if `signal` is the last one; none when it is over. A new signal ends it, but not sooner than the
    /// shortest pause: what is waited for may change often.
    pub(crate) fn left(&self, signal: Option<u64>) -> Option<Duration> {
        let until = match signal == self.signal {
            true => self.until,
            false => self.until.min(self.began + AGAIN_MIN),
        };
        let left = until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// The pauses of all objects of a kind, and the last signal for each: what it may wait for has changed.
pub(crate) struct Rests {
    entries: Remembered<Rest>,
    signals: Due,
}

impl Rests {
    /// `exists` as in [`Remembered::new`].
    pub(crate) fn new(exists: impl Fn(&ObjectKey) -> bool + Clone + Send + Sync + 'static) -> Self {
        Self {
            entries: Remembered::new(exists.clone()),
            signals: Due::new(exists),
        }
    }

    pub(crate) fn get(&self, key: &ObjectKey) -> Option<Rest> {
        self.entries.get(key)
    }

    pub(crate) fn forget(&self, key: &ObjectKey) {
        drop(self.entries.take(key));
    }

    pub(crate) fn put(&self, key: &ObjectKey, rest: Rest) {
        self.entries.put(key, rest);
    }

    /// The last signal for an object.
    pub(crate) fn signal_of(&self, key: &ObjectKey) -> Option<u64> {
        self.signals.of(key)
    }

    /// Signals to an object that what it may wait for has changed. Whether it pauses: one at work finds the signal when it
    /// begins a pause, one that fails has its back-off.
    pub(crate) fn signal(&self, key: &ObjectKey) -> bool {
        self.signals.mark(key);
        self.entries.get(key).is_some()
    }
}
