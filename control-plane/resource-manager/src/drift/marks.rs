//! What the applied objects of one kind were when they were seen or written last, and which events are drift. Pure.

use std::collections::{BTreeMap, BTreeSet};

use base_controller::ObjectKey;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use sha2::{Digest, Sha256};

use crate::naming::{MANAGER, ORIGIN, resource_of_origin};

/// What an object was when it was seen or written last.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Mark {
    uid: Option<String>,
    version: Option<String>,
    /// Stands for the fields that are ours. A writer that changes the value of one takes it from us, and one that
    /// changes anything else does not.
    ours: Option<[u8; 32]>,
    origin: Option<ObjectKey>,
}

impl Mark {
    pub(super) fn of(meta: &ObjectMeta, cluster_id: &str) -> Self {
        let managed = meta.managed_fields.iter().flatten();
        let ours = managed
            .filter(|entry| entry.manager.as_deref() == Some(MANAGER) && entry.operation.as_deref() == Some("Apply"));
        let fields: Vec<_> = ours.filter_map(|entry| entry.fields_v1.as_ref()).collect();
        let digest = || Sha256::digest(serde_json::to_vec(&fields).unwrap_or_default()).into();
        let origin = meta.annotations.as_ref().and_then(|all| all.get(ORIGIN));
        Self {
            uid: meta.uid.clone(),
            version: meta.resource_version.clone(),
            ours: (!fields.is_empty()).then(digest),
            origin: origin.and_then(|origin| resource_of_origin(cluster_id, origin)),
        }
    }

    /// Whether both are the same object, the same in what is ours.
    fn is_as(&self, other: &Self) -> bool {
        let same = self.ours.is_some() && self.ours == other.ours;
        self.uid == other.uid && (self.version == other.version || same)
    }

    fn is_version_of(&self, other: &Self) -> bool {
        self.uid == other.uid && self.version == other.version
    }
}

/// An object that is being written.
#[derive(Default)]
struct Held {
    writers: usize,
    /// What was seen meanwhile; `None` where it was gone.
    events: Vec<Option<Mark>>,
}

/// All of one kind.
#[derive(Default)]
pub(super) struct Marks {
    marks: BTreeMap<ObjectKey, Mark>,
    /// Events of these wait for the answer to the write, which shows which of them are our own.
    held: BTreeMap<ObjectKey, Held>,
}

/// The ManagedResource to be called for, if the event is drift.
type Call = Option<ObjectKey>;

impl Marks {
    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty() && self.held.is_empty()
    }

    pub(super) fn keys(&self) -> BTreeSet<ObjectKey> {
        self.marks.keys().cloned().collect()
    }

    /// A write is about to be sent.
    pub(super) fn begin(&mut self, key: ObjectKey) {
        self.held.entry(key).or_default().writers += 1;
    }

    /// The write was answered with `mark`.
    pub(super) fn wrote(&mut self, key: &ObjectKey, mark: Mark) -> Call {
        let events = self.release(key);
        let changed_nothing = (self.marks.get(key)).is_some_and(|before| before.is_version_of(&mark));
        let is_ours = |event: &Option<Mark>| event.as_ref().is_some_and(|event| event.is_version_of(&mark));
        let later = match events.iter().rposition(is_ours) {
            Some(ours) => ours + 1,
            None if changed_nothing => 0,
            // All of them came before ours, which has overwritten them.
            None => events.len(),
        };
        self.marks.insert(key.clone(), mark);
        self.replay(key, events.into_iter().skip(later))
    }

    /// The write has failed, or its outcome is unknown.
    pub(super) fn gave_up(&mut self, key: &ObjectKey) -> Call {
        let events = self.release(key);
        self.replay(key, events)
    }

    fn release(&mut self, key: &ObjectKey) -> Vec<Option<Mark>> {
        let Some(held) = self.held.get_mut(key) else {
            return Vec::new();
        };
        held.writers -= 1;
        if held.writers > 0 {
            return Vec::new();
        }
        self.held.remove(key).map(|held| held.events).unwrap_or_default()
    }

    fn replay(&mut self, key: &ObjectKey, events: impl IntoIterator<Item = Option<Mark>>) -> Call {
        let calls = events.into_iter().map(|event| match event {
            Some(mark) => self.seen(key.clone(), mark),
            None => self.gone(key),
        });
        calls.fold(None, |all, call| call.or(all))
    }

    /// It is there, like this.
    pub(super) fn seen(&mut self, key: ObjectKey, mark: Mark) -> Call {
        if let Some(held) = self.held.get_mut(&key) {
            held.events.push(Some(mark));
            return None;
        }
        // One that is seen for the first time is our own doing.
        let before = self.marks.insert(key, mark.clone())?;
        (!before.is_as(&mark)).then_some(before.origin).flatten()
    }

    /// It is gone, or has lost the label by which it is watched.
    pub(super) fn gone(&mut self, key: &ObjectKey) -> Call {
        if let Some(held) = self.held.get_mut(key) {
            held.events.push(None);
            return None;
        }
        self.marks.remove(key)?.origin
    }

    /// `owner` wants it no more. What another wants by now stays.
    pub(super) fn forget(&mut self, key: &ObjectKey, owner: &ObjectKey) {
        let is_others = |mark: &Mark| mark.origin.as_ref().is_some_and(|origin| origin != owner);
        if !self.marks.get(key).is_some_and(is_others) {
            self.marks.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mark(version: &str, ours: &str, note: &str) -> Mark {
        let meta = serde_json::from_value(json!({
            "uid": "u", "resourceVersion": version, "annotations": {ORIGIN: "n/mr", "note": note},
            "managedFields": [
                {"manager": MANAGER, "operation": "Apply", "fieldsV1": {"f:data": {ours: {}}}},
                {"manager": "other", "operation": "Update", "fieldsV1": {"f:metadata": {note: {}}}},
            ],
        }));
        Mark::of(&meta.unwrap(), "")
    }

    fn key() -> ObjectKey {
        ObjectKey::namespaced("default", "a")
    }

    fn known() -> Marks {
        let mut marks = Marks::default();
        assert_eq!(marks.wrote(&key(), mark("1", "f:key", "")), None);
        marks
    }

    fn call() -> Call {
        Some(ObjectKey::namespaced("n", "mr"))
    }

    #[test]
    fn foreign_additions_are_no_drift_and_changes_and_deletions_are() {
        let mut marks = known();
        assert_eq!(marks.seen(key(), mark("2", "f:key", "theirs")), None);
        assert_eq!(marks.seen(key(), mark("3", "f:other", "theirs")), call());
        assert_eq!(marks.gone(&key()), call());
        assert!(marks.is_empty());
    }

    #[test]
    fn our_write_is_recognised_before_its_answer_and_later_ones_are_foreign() {
        for later in [None, Some(mark("3", "f:other", "")), Some(mark("3", "f:new", "theirs"))] {
            let mut marks = known();
            marks.begin(key());
            assert_eq!(marks.seen(key(), mark("2", "f:new", "")), None);
            if let Some(later) = later.clone() {
                assert_eq!(marks.seen(key(), later), None);
            }
            let taken = later.is_some_and(|later| !later.is_as(&mark("2", "f:new", "")));
            let called = marks.wrote(&key(), mark("2", "f:new", ""));
            assert_eq!(called, call().filter(|_| taken));
        }
    }

    #[test]
    fn drift_during_a_write_counts_unless_the_write_has_mended_it() {
        let during = |answer: Option<Mark>| {
            let mut marks = known();
            marks.begin(key());
            assert_eq!(marks.seen(key(), mark("2", "f:other", "")), None);
            match answer {
                Some(answer) => marks.wrote(&key(), answer),
                None => marks.gave_up(&key()),
            }
        };
        assert_eq!(during(Some(mark("3", "f:key", ""))), None, "ours came after theirs");
        assert_eq!(
            during(Some(mark("1", "f:key", ""))),
            call(),
            "ours changed nothing, and came before"
        );
        assert_eq!(during(None), call());
    }

    #[test]
    fn only_an_owner_of_a_mark_removes_it() {
        let mut marks = known();
        marks.forget(&key(), &ObjectKey::namespaced("n", "former"));
        assert!(!marks.is_empty());
        marks.forget(&key(), &ObjectKey::namespaced("n", "mr"));
        assert!(marks.is_empty());
    }
}
