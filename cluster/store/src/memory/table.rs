//! The objects of one resource and the history of their changes. Synchronous; the caller holds the lock.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::time::Instant;

use super::notifier::{Notifier, Notifiers};
use super::{
    HISTORY_AGE_MAX, HISTORY_BURST_BYTES_MAX, HISTORY_BURST_CHANGES_MAX, HISTORY_BYTES_MAX, HISTORY_CHANGES_MAX,
    HISTORY_CHANGES_MIN, HISTORY_FRESH_AGE,
};
use crate::{Change, ChangeKind, Entry, Key, Listing, Page, Range, Revision, StoreError};

/// One change and what is needed to undo it.
struct Record {
    change: Arc<Change>,
    /// The revision of the previous object; meaningless when there was none.
    previous_revision: Revision,
    /// When it was recorded.
    at: Instant,
}

impl Record {
    fn revision(&self) -> Revision {
        self.change.entry.revision
    }

    /// The bytes that only the history retains.
    fn superseded_bytes(&self) -> usize {
        self.change.previous().map_or(0, |previous| previous.bytes().len())
    }

    /// The revisions that only this record still needed: what it superseded and, of a deletion, its own.
    fn needed_by_history_alone(&self) -> impl Iterator<Item = Revision> {
        let superseded = self.change.previous().map(|_| self.previous_revision);
        superseded
            .into_iter()
            .chain(self.change.is_delete().then(|| self.revision()))
    }

    /// The entry as it was before this change.
    fn before(&self) -> Option<Entry> {
        self.change.previous().map(|object| Entry {
            key: self.change.entry.key.clone(),
            revision: self.previous_revision,
            object: object.clone(),
        })
    }
}

/// What the history no longer needs.
pub(super) struct Dropped {
    /// Revisions whose object or deletion can no longer be read.
    pub(super) rows: Vec<Revision>,
    /// Changes up to and including this revision have been forgotten.
    pub(super) horizon: Revision,
}

/// The effects of a recorded change.
#[derive(Default)]
pub(super) struct Recorded {
    pub(super) dropped: Option<Dropped>,
    /// To be woken once the store's lock is free.
    pub(super) notifiers: Vec<Arc<Notifier>>,
}

/// All objects of one resource.
pub(super) struct Table {
    entries: BTreeMap<Key, Entry>,
    /// In revision order.
    history: VecDeque<Record>,
    history_bytes: usize,
    notifiers: Notifiers,
}

impl Table {
    /// An empty table of a store that began at `start`.
    pub(super) fn new(start: Revision) -> Self {
        Table {
            entries: BTreeMap::new(),
            history: VecDeque::new(),
            history_bytes: 0,
            notifiers: Notifiers::new(start),
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Entry> {
        self.entries.get(key)
    }

    /// The notifiers of this resource's watchers.
    pub(super) fn notifiers(&mut self) -> &mut Notifiers {
        &mut self.notifiers
    }

    /// Inserts an entry that is older than the history.
    pub(super) fn put_unrecorded(&mut self, entry: Entry) {
        self.entries.insert(entry.key.clone(), entry);
    }

    pub(super) fn put(&mut self, entry: Entry, at: Instant) -> Recorded {
        let previous = self.entries.insert(entry.key.clone(), entry.clone());
        let previous_revision = previous.as_ref().map_or(Revision(0), |previous| previous.revision);
        let kind = ChangeKind::Put {
            previous: previous.map(|previous| previous.object),
        };
        self.record(Record {
            change: Arc::new(Change { kind, entry }),
            previous_revision,
            at,
        })
    }

    /// Removes an entry; nothing happens when it is not there.
    pub(super) fn delete(&mut self, key: &Key, revision: Revision, at: Instant) -> Recorded {
        let Some(previous) = self.entries.remove(key) else {
            return Recorded::default();
        };
        let entry = Entry {
            revision,
            ..previous.clone()
        };
        let kind = ChangeKind::Delete {
            previous: previous.object,
        };
        self.record(Record {
            change: Arc::new(Change { kind, entry }),
            previous_revision: previous.revision,
            at,
        })
    }

    fn record(&mut self, record: Record) -> Recorded {
        let now = record.at;
        let notifiers = self.notifiers.note(&record.change.entry.key, record.revision());
        self.history_bytes += record.superseded_bytes();
        self.history.push_back(record);
        Recorded {
            dropped: self.forget(now),
            notifiers,
        }
    }

    /// Drops the changes beyond the limits of the history, and those that are too old.
    pub(super) fn forget(&mut self, now: Instant) -> Option<Dropped> {
        let mut rows = Vec::new();
        let mut forgotten = None;
        while self
            .history
            .front()
            .is_some_and(|oldest| self.exceeds_limits(oldest, now))
        {
            let Some(oldest) = self.history.pop_front() else { break };
            self.history_bytes -= oldest.superseded_bytes();
            self.notifiers.forget(&oldest.change.entry.key, oldest.revision());
            forgotten = Some(oldest.revision());
            rows.extend(oldest.needed_by_history_alone());
        }
        if self.history.is_empty() {
            self.history.shrink_to_fit();
        }
        forgotten.map(|horizon| Dropped { rows, horizon })
    }

    fn exceeds_limits(&self, oldest: &Record, now: Instant) -> bool {
        let age = now.saturating_duration_since(oldest.at);
        let beyond = |changes, bytes| {
            self.history.len() > changes || (self.history_bytes > bytes && self.history.len() > HISTORY_CHANGES_MIN)
        };
        age > HISTORY_AGE_MAX
            || beyond(HISTORY_BURST_CHANGES_MAX, HISTORY_BURST_BYTES_MAX)
            || (age > HISTORY_FRESH_AGE && beyond(HISTORY_CHANGES_MAX, HISTORY_BYTES_MAX))
    }

    /// Refuses a revision that the history does not reach back to.
    pub(super) fn reaches(&self, requested: Revision) -> Result<(), StoreError> {
        self.check_reaches(requested, self.notifiers.forgotten())
    }

    /// Refuses to go on from a revision when a later change of the notifier's range was dropped from the history.
    pub(super) fn reaches_for(&self, notifier: &Notifier, cursor: Revision) -> Result<(), StoreError> {
        self.check_reaches(cursor, notifier.forgotten())
    }

    fn check_reaches(&self, requested: Revision, forgotten: Revision) -> Result<(), StoreError> {
        if requested < forgotten {
            let oldest = self.notifiers.forgotten();
            return Err(StoreError::Expired { requested, oldest });
        }
        Ok(())
    }

    fn position_after(&self, revision: Revision) -> usize {
        self.history.partition_point(|record| record.revision() <= revision)
    }

    /// Appends about `limit` changes of the range after `cursor` and returns the new cursor. Changes that share a revision
    /// are never separated: the cursor stands behind all of them.
    pub(super) fn since(
        &self,
        mut cursor: Revision,
        range: &Range,
        limit: usize,
        into: &mut VecDeque<Arc<Change>>,
    ) -> Revision {
        let mut taken = 0;
        for record in self.history.range(self.position_after(cursor)..) {
            if taken >= limit && record.revision() > cursor {
                break;
            }
            if range.contains(&record.change.entry.key) {
                into.push_back(record.change.clone());
                taken += 1;
            }
            cursor = record.revision();
        }
        cursor
    }

    /// One page as of `at`, which must not be ahead of the store.
    pub(super) fn list(&self, range: &Range, page: &Page, at: Revision) -> Result<Listing, StoreError> {
        self.reaches(at)?;
        let first = Key {
            resource: range.resource.clone(),
            namespace: range.namespace.clone(),
            name: "".into(),
        };
        let lower = match &page.after {
            Some(after) if *after >= first => Bound::Excluded(after.clone()),
            _ => Bound::Included(first),
        };
        let in_page = |key: &Key| match &lower {
            Bound::Excluded(after) => key > after,
            Bound::Included(_) | Bound::Unbounded => true,
        };
        let mut undone = self.undone(range, at);
        undone.retain(|key, _| in_page(key));
        let current = self
            .entries
            .range((lower.clone(), Bound::Unbounded))
            .map(|(_, entry)| entry)
            // The keys of a namespace lie side by side.
            .take_while(|entry| range.namespace.is_none() || entry.key.namespace == range.namespace)
            .filter(|entry| range.contains(&entry.key));
        let limit = page.limit.map_or(usize::MAX, |limit| limit.get());
        let mut listing = Listing {
            entries: Vec::new(),
            revision: at,
            remaining: 0,
        };
        let mut add = |entry: &Entry| {
            if listing.entries.len() < limit {
                listing.entries.push(entry.clone());
            } else {
                listing.remaining += 1;
            }
        };
        if undone.is_empty() {
            current.for_each(&mut add);
        } else {
            let mut state: BTreeMap<&Key, &Entry> = current.map(|entry| (&entry.key, entry)).collect();
            for (key, before) in &undone {
                match before {
                    Some(entry) => state.insert(key, entry),
                    None => state.remove(*key),
                };
            }
            state.into_values().for_each(&mut add);
        }
        Ok(listing)
    }

    /// The state at `at` of the range's keys that have changed since.
    fn undone(&self, range: &Range, at: Revision) -> BTreeMap<&Key, Option<Entry>> {
        let mut undone = BTreeMap::new();
        for record in self.history.range(self.position_after(at)..) {
            let key = &record.change.entry.key;
            if range.contains(key) {
                // The first change after `at` knows the state at `at`; later ones do not.
                undone.entry(key).or_insert_with(|| record.before());
            }
        }
        undone
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::Object;

    fn entry(revision: u64) -> Entry {
        let object = serde_json::json!({"metadata": {"name": "a", "labels": {"no": revision.to_string()}}});
        Entry {
            key: Key::new("things", Some("default"), "a"),
            revision: Revision(revision),
            object: Object::from_value(object).unwrap().into(),
        }
    }

    #[test]
    fn a_change_is_dropped_after_five_minutes_with_what_it_superseded() {
        let (mut table, start) = (Table::new(Revision(1)), Instant::now());
        let second = |second| start + Duration::from_secs(second);
        assert!(table.put(entry(2), second(0)).dropped.is_none());
        assert!(table.put(entry(3), second(200)).dropped.is_none());
        assert!(table.forget(second(300)).is_none());
        assert_eq!(table.reaches(Revision(1)), Ok(()));

        let first = table.forget(second(301)).unwrap();
        assert_eq!((first.horizon, first.rows), (Revision(2), vec![]));
        assert!(table.reaches(Revision(1)).is_err());
        assert_eq!(table.reaches(Revision(2)), Ok(()));

        let last = table.forget(second(501)).unwrap();
        assert_eq!((last.horizon, last.rows), (Revision(3), vec![Revision(2)]));
        assert_eq!(table.reaches(Revision(3)), Ok(()), "whoever has seen all goes on");
        assert_eq!(table.history_bytes, 0);
        assert_eq!(table.get(&entry(3).key), Some(&entry(3)));
    }

    #[test]
    fn a_burst_is_retained_while_fresh_and_then_cut_to_the_limit() {
        let (mut table, start) = (Table::new(Revision(1)), Instant::now());
        let written = 2 * HISTORY_CHANGES_MAX as u64;
        for revision in 2..=written {
            assert!(table.put(entry(revision), start).dropped.is_none(), "{revision}");
        }
        assert!(table.forget(start + HISTORY_FRESH_AGE).is_none());
        assert_eq!(table.reaches(Revision(1)), Ok(()));

        let shortened = table
            .forget(start + HISTORY_FRESH_AGE + Duration::from_secs(1))
            .unwrap();
        assert_eq!(shortened.horizon, Revision(written - HISTORY_CHANGES_MAX as u64));
        assert_eq!(table.history.len(), HISTORY_CHANGES_MAX);
    }
}
