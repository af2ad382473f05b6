//! Operations that are not finished and wait to be called again. In memory: a process that starts calls them at once.

use std::time::Duration;

use api_extensions::ExtensionObject;
use api_meta::annotations::operation;
use jiff::Timestamp;
use tokio::time::Instant;

use crate::operation::{annotation_of, requested_at};

/// A pause of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Rest {
    until: Instant,
    wanted: Wanted,
}

/// What an object asks for: another of it ends a pause.
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
    /// A pause of the operation that was begun on `object`.
    pub(crate) fn new<K: ExtensionObject>(after: Duration, object: &K) -> Self {
        Self {
            until: Instant::now() + after,
            wanted: Wanted::of(object),
        }
    }

    /// Whether `object` still asks for the operation that pauses, and for nothing else. A request to reconcile is always a new
    /// one: the one that began the operation is off the object.
    pub(crate) fn is_of<K: ExtensionObject>(&self, object: &K) -> bool {
        self.wanted == Wanted::of(object) && annotation_of(object) != Some(operation::RECONCILE)
    }

    /// What is left of it; none when it is over.
    pub(crate) fn left(&self) -> Option<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}
