//! The audit record of completed requests: a bounded ring in memory, and whoever subscribes.
//! It never holds a body.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// Records kept in memory; older ones fall out. A first shoot needs a few thousand requests.
pub const AUDIT_RECORDS_MAX: usize = 65_536;

/// One completed request. A watch is recorded when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// Who asked; `system:anonymous` without credentials, empty when authentication failed.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or the method.
    pub verb: String,
    /// The API group; empty for core and for other paths.
    pub group: String,
    /// The plural; empty for other paths.
    pub resource: String,
    /// The part; may be empty.
    pub subresource: String,
    /// The namespace; may be empty.
    pub namespace: String,
    /// The object's name; may be empty.
    pub name: String,
    /// The path without query.
    pub path: String,
    /// The HTTP code.
    pub code: u16,
    /// Wall-clock time at completion.
    pub at: Timestamp,
}

type Subscriber = Box<dyn Fn(&AuditRecord) + Send + Sync>;

/// Where records go. Clones share one ring.
#[derive(Clone, Default)]
pub struct AuditLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    ring: Mutex<VecDeque<Arc<AuditRecord>>>,
    subscribers: Mutex<Vec<Subscriber>>,
}

impl AuditLog {
    /// The records still kept, oldest first.
    pub fn records(&self) -> Vec<Arc<AuditRecord>> {
        self.0
            .ring
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .iter()
            .cloned()
            .collect()
    }

    /// Forgets what was recorded so far: for tests that look at what happens from here on.
    pub fn clear(&self) {
        self.0.ring.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Calls `subscriber` with every record from now on, in the request's own task: it must be quick.
    pub fn subscribe(&self, subscriber: impl Fn(&AuditRecord) + Send + Sync + 'static) {
        self.0
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(subscriber));
    }

    pub(crate) fn record(&self, record: AuditRecord) {
        for subscriber in self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            subscriber(&record);
        }
        let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == AUDIT_RECORDS_MAX {
            ring.pop_front();
        }
        ring.push_back(Arc::new(record));
    }
}
