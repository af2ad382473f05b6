//! Builds a memory store from rows stored elsewhere, and refuses rows that no sequence of writes can have left.
//!
//! Rows come in the order of their revisions: of every object its newest row; and of every resource all rows after its
//! horizon, the superseded ones and the deletions too. So the history is there again, and watches resume in it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

use super::{Forgotten, MemoryStore, Shared, State, Table};
use crate::Revision;
use crate::write::{Decided, DecidedKind};

/// A memory store that is being loaded.
pub(crate) struct Loader {
    state: State,
    start: Revision,
    /// Per resource, as stored: at or before it, only the newest states of objects are known.
    horizons: BTreeMap<Arc<str>, Revision>,
    /// After this revision every resource has its whole history, so no revision may be missing.
    complete_after: Revision,
    forgotten: Forgotten,
    /// The time of all loaded changes, from which their age is counted.
    begun: Instant,
}

impl Loader {
    /// Begins a store that once began at `start`.
    pub(crate) fn new(start: Revision, horizons: BTreeMap<Arc<str>, Revision>) -> Self {
        let tables = horizons
            .iter()
            .map(|(resource, horizon)| (resource.clone(), Table::new(*horizon)))
            .collect();
        let begun = Instant::now();
        Loader {
            complete_after: horizons.values().copied().fold(start, Revision::max),
            state: State {
                start,
                epoch: 0,
                revision: start,
                tables,
                swept: begun,
            },
            start,
            horizons,
            forgotten: Forgotten::default(),
            begun,
        }
    }

    /// The next row. Errors: what is wrong with it.
    pub(crate) fn row(&mut self, row: Decided) -> Result<(), String> {
        let (before, revision) = (self.state.revision, row.entry.revision);
        if revision <= before {
            return Err(format!("revision {revision} follows revision {before}"));
        }
        let latest_allowed = before.max(self.complete_after).0 + 1;
        if revision.0 > latest_allowed {
            return Err(format!(
                "the changes from revision {latest_allowed} to before revision {revision} are missing"
            ));
        }
        let resource = row.entry.key.resource.clone();
        let current = self.state.get(&row.entry.key).map(|current| current.revision);
        let horizon = self.horizons.get(&resource).copied().unwrap_or(self.start);
        if revision <= horizon {
            if current.is_some() || row.kind == DecidedKind::Delete {
                return Err(format!(
                    "the row of revision {revision} should be gone: the history of {resource} begins after {horizon}"
                ));
            }
            self.state.revision = revision;
            self.state.table(&resource).put_unrecorded(row.entry);
            return Ok(());
        }
        if current != row.previous {
            return Err(format!(
                "the row of revision {revision} replaced {}, but before it stands {}",
                shown(row.previous),
                shown(current)
            ));
        }
        // A store that is being loaded has no waiting readers.
        let _ = self.state.apply(row, self.begun, &mut self.forgotten);
        Ok(())
    }

    /// The store, which must have come to `newest`, and what its history has dropped while it was built.
    pub(crate) fn finish(self, newest: Revision) -> Result<(MemoryStore, Forgotten), String> {
        if self.state.revision != newest {
            return Err(format!(
                "the newest row has revision {}, but the file says it has come to revision {newest}",
                self.state.revision
            ));
        }
        let store = MemoryStore {
            shared: Arc::new(Shared {
                state: Mutex::new(self.state),
            }),
        };
        Ok((store, self.forgotten))
    }
}

fn shown(revision: Option<Revision>) -> String {
    match revision {
        Some(revision) => format!("revision {revision}"),
        None => "nothing".to_owned(),
    }
}
