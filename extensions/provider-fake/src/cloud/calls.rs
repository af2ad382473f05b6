//! A layer around clients of the cloud, and around other calls of a process: it counts calls and can end the process at
//! one of them. It changes neither calls nor answers.

use std::fmt;
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tokio::sync::Notify;

use super::api::{Answer, Call, CloudApi, CloudConnector};
use super::error::CloudError;
use super::memory::Keys;

/// One call that began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// What was requested, such as "create subnet".
    pub what: String,
    /// Whether it can have an effect.
    pub writes: bool,
}

/// When the process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    /// At this call, from 1.
    pub call: usize,
    /// Before the call has its effect; else after it, and before its answer.
    pub before: bool,
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.before { "before" } else { "after" };
        write!(f, "{place} the effect of call {}", self.call)
    }
}

/// Counts the calls of one process. Clones count together.
#[derive(Clone)]
pub struct Calls(Arc<Inner>);

struct Inner {
    end: Option<Moment>,
    ended: AtomicBool,
    ends: Notify,
    records: Mutex<Vec<CallRecord>>,
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("end", &self.0.end)
            .finish_non_exhaustive()
    }
}

impl Calls {
    /// Counts the calls of a process that ends at this moment, or of one that goes on.
    #[must_use]
    pub fn new(end: Option<Moment>) -> Self {
        Self(Arc::new(Inner {
            end,
            ended: AtomicBool::new(false),
            ends: Notify::new(),
            records: Mutex::default(),
        }))
    }

    /// Makes a call. At the end of the process, and from then on, it never returns: the caller is to be dropped.
    pub async fn make<T>(&self, record: CallRecord, call: impl Future<Output = T>) -> T {
        self.only_before_the_end().await;
        let end = self.count(record);
        if end == Some(true) {
            self.end();
        }
        self.only_before_the_end().await;
        let ends = (end == Some(false)).then(|| Ends(self));
        let answer = call.await;
        drop(ends);
        self.only_before_the_end().await;
        answer
    }

    /// Done once the process has ended; never without a moment.
    pub async fn ended(&self) {
        let ends = self.0.ends.notified();
        if !self.0.ended.load(Ordering::SeqCst) {
            ends.await;
        }
    }

    /// Whether the process has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::SeqCst)
    }

    /// The calls so far, in their order.
    #[must_use]
    pub fn records(&self) -> Vec<CallRecord> {
        self.lock().clone()
    }

    /// A connector whose clients' calls are counted.
    #[must_use]
    pub fn around(&self, cloud: Arc<dyn CloudConnector>) -> Arc<dyn CloudConnector> {
        Arc::new(Counted {
            calls: self.clone(),
            cloud,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<CallRecord>> {
        self.0.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a call; whether the process ends before or after its effect.
    fn count(&self, record: CallRecord) -> Option<bool> {
        let mut records = self.lock();
        records.push(record);
        let end = self.0.end.filter(|end| end.call == records.len());
        end.map(|end| end.before)
    }

    fn end(&self) {
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.ends.notify_one();
    }

    async fn only_before_the_end(&self) {
        if self.has_ended() {
            std::future::pending::<()>().await;
        }
    }
}

/// Ends the process when it is dropped: after the effect of a call, also of one that the process has given up itself.
struct Ends<'a>(&'a Calls);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

struct Counted {
    calls: Calls,
    cloud: Arc<dyn CloudConnector>,
}

impl CloudConnector for Counted {
    fn connect(&self, keys: &Keys, region: &str) -> Arc<dyn CloudApi> {
        Arc::new(CountedApi {
            calls: self.calls.clone(),
            api: self.cloud.connect(keys, region),
        })
    }
}

struct CountedApi {
    calls: Calls,
    api: Arc<dyn CloudApi>,
}

#[async_trait]
impl CloudApi for CountedApi {
    async fn call(&self, call: Call) -> Result<Answer, CloudError> {
        let record = CallRecord {
            what: format!("{} {}", call.verb(), call.kind()),
            writes: call.writes(),
        };
        self.calls.make(record, self.api.call(call)).await
    }
}
