//! The audit record of completed requests: for subscribers, and in a bounded ring in memory to be read later.
//! It never holds a body.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;

/// Records that a test may want to read afterwards: a first shoot needs a few thousand requests. Nothing else should
/// retain as many: each takes the best part of a kilobyte.
pub const AUDIT_RECORDS_MAX: usize = 65_536;

/// One completed request. A watch is recorded when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The user of the request; `system:anonymous` without credentials, empty when authentication failed.
    pub user: String,
    /// The user's groups.
    pub groups: Vec<String>,
    /// The caller, when it impersonated the user; empty otherwise.
    pub impersonator: String,
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
    /// Audit annotations from admission: `WEBHOOK/KEY`, `POLICY/KEY`, and who changed what.
    pub annotations: BTreeMap<String, String>,
    /// Wall-clock time at completion.
    pub at: Timestamp,
}

type Subscriber = Box<dyn Fn(&AuditRecord) + Send + Sync>;

/// Where records go. Clones share one ring.
#[derive(Clone, Default)]
pub struct AuditLog(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// How many records are retained; older ones fall out.
    retained_max: usize,
    ring: Mutex<VecDeque<Arc<AuditRecord>>>,
    subscribers: Mutex<Vec<Subscriber>>,
}

impl AuditLog {
    /// A log that retains so many records.
    pub(crate) fn retaining(retained_max: usize) -> Self {
        Self(Arc::new(Shared {
            retained_max,
            ..Shared::default()
        }))
    }

    /// The records still retained, oldest first.
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

    /// Adds a record, which is only made if it is retained or there is a subscriber.
    pub(crate) fn record(&self, record: impl FnOnce() -> AuditRecord) {
        let subscribers = self.0.subscribers.lock().unwrap_or_else(PoisonError::into_inner);
        if subscribers.is_empty() && self.0.retained_max == 0 {
            return;
        }
        let record = record();
        for subscriber in subscribers.iter() {
            subscriber(&record);
        }
        drop(subscribers);
        if self.0.retained_max == 0 {
            return;
        }
        let mut ring = self.0.ring.lock().unwrap_or_else(PoisonError::into_inner);
        if ring.len() == self.0.retained_max {
            ring.pop_front();
        }
        ring.push_back(Arc::new(record));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(path: &str) -> AuditRecord {
        AuditRecord {
            user: "alice".to_owned(),
            groups: Vec::new(),
            impersonator: String::new(),
            verb: "get".to_owned(),
            group: String::new(),
            resource: String::new(),
            subresource: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: path.to_owned(),
            code: 200,
            annotations: BTreeMap::new(),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn log_retains_the_newest_records_and_makes_none_without_a_reader() {
        let paths = |log: &AuditLog| {
            log.records()
                .iter()
                .map(|record| record.path.clone())
                .collect::<Vec<_>>()
        };
        let log = AuditLog::retaining(2);
        for path in ["/a", "/b", "/c"] {
            log.record(|| record(path));
        }
        assert_eq!(paths(&log), ["/b", "/c"]);

        let log = AuditLog::retaining(0);
        log.record(|| unreachable!("no subscriber wants it"));
        let received = Arc::new(Mutex::new(Vec::new()));
        let sink = received.clone();
        log.subscribe(move |record| sink.lock().unwrap().push(record.path.clone()));
        log.record(|| record("/d"));
        assert_eq!(*received.lock().unwrap(), ["/d"]);
        assert!(paths(&log).is_empty());
    }
}
