//! The newest revision that a server has applied of each object that changes how it behaves.

use std::collections::BTreeMap;
use std::sync::Mutex;

use cluster_store::{Entry, Key, Revision};

/// Revisions remembered at most. The race they guard against lasts as long as a write takes, so that the older half can be
/// forgotten.
const APPLIED_MAX: usize = 10_000;

/// The newest revision of each such object: two writes of one object may get here in another order than they were stored in.
#[derive(Default)]
pub(crate) struct Applied(pub(crate) Mutex<BTreeMap<Key, Revision>>);

/// Whether nothing newer of the object was applied before; then this is recorded as the newest.
pub(crate) fn is_newest(applied: &mut BTreeMap<Key, Revision>, entry: &Entry) -> bool {
    if applied.get(&entry.key).is_some_and(|newest| *newest > entry.revision) {
        return false;
    }
    if applied.len() >= APPLIED_MAX {
        let mut revisions: Vec<Revision> = applied.values().copied().collect();
        let (_, middle, _) = revisions.select_nth_unstable(APPLIED_MAX / 2);
        let middle = *middle;
        applied.retain(|_, revision| *revision > middle);
    }
    applied.insert(entry.key.clone(), entry.revision);
    true
}
