//! What the server takes in of writes, its own and those of others on the same store: access rules, admission and served
//! kinds, each in the order of the store.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use cluster_store::{Entry, Key, Revision};

use crate::registry::{Role, Served};
use crate::server::Inner;
use crate::{admission, aggregation, crds, policy};

/// Revisions remembered at most. The race they guard against lasts as long as a write takes, so that the older half can be
/// forgotten.
const APPLIED_MAX: usize = 10_000;

/// The newest revision of each object that changes how this server behaves: two writers of one object may get here in
/// another order than their writes were made in.
#[derive(Default)]
pub(crate) struct Applied(Mutex<BTreeMap<Key, Revision>>);

/// Whether nothing newer of the object was seen before; then this is the newest.
fn is_newest(applied: &mut BTreeMap<Key, Revision>, entry: &Entry) -> bool {
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

impl Inner {
    /// Called after every write of the store by this server.
    pub(crate) fn written(self: &Arc<Self>, served: &Served, entry: &Entry, removed: bool) {
        if &*served.store_name == admission::QUOTAS {
            self.admission.note_quota();
        }
        let leads_there = served.role == Role::Service || served.plural() == "endpointslices";
        if leads_there && self.aggregation.is_used() {
            self.aggregation.note_change();
        }
        let definition = served.role == Role::CustomResourceDefinition;
        if definition || matches!(served.group(), policy::GROUP | admission::GROUP | aggregation::GROUP) {
            self.take_in(entry, removed);
        }
    }

    /// Takes in a write of what changes how this server behaves, unless something newer of the object was seen before.
    fn take_in(self: &Arc<Self>, entry: &Entry, removed: bool) {
        let mut applied = self.applied.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !is_newest(&mut applied, entry) {
            return;
        }
        if &*entry.key.resource == crds::STORE_NAME {
            crds::written(self, entry, removed);
        } else if entry.key.resource.starts_with(admission::GROUP) {
            self.admission.written(entry, removed);
        } else if entry.key.resource.starts_with(aggregation::GROUP) {
            self.aggregation.written(entry, removed);
        } else {
            self.access
                .written(&entry.key, if removed { None } else { Some(&entry.object) });
            policy::aggregate_later(self, entry);
        }
    }

    /// Called for every write that a watch of the store tells, this server's own among them.
    pub(crate) fn heard(self: &Arc<Self>, entry: &Entry, removed: bool) {
        if &*entry.key.resource == admission::QUOTAS {
            return self.admission.note_quota();
        }
        let known = {
            let applied = self.applied.0.lock().unwrap_or_else(PoisonError::into_inner);
            applied.get(&entry.key).copied()
        };
        // An own write is taken in already.
        if known.is_none_or(|known| known < entry.revision) {
            self.take_in(entry, removed);
        }
    }
}
