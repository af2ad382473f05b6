//! Watch, queue, reconcile: what every controller stands on. A [`Cache`] has the objects of one kind, by one list and
//! one watch; a [`Controller`] turns changes of caches into reconciles, each object one at a time, and faults into
//! delays by their class. Beside them: events, leases, leadership.
//!
//! An idle controller sends no GET and no LIST: nothing here resyncs or polls. The queue is ours and not
//! kube-runtime's, because its order must not depend on hash seeds and a reconcile must not wait for a timer's
//! next tick.

mod backoff;
mod cache;
mod changes;
mod controller;
mod events;
mod index;
mod key;
mod lease;
mod metrics;
mod mirrors;
mod queue;
mod trouble;
mod work_queue;

pub use backoff::Backoff;
pub use cache::Cache;
pub use changes::{Change, Changes};
pub use controller::{Controller, Next};
pub use events::{EventType, Recorder};
pub use index::Index;
pub use key::ObjectKey;
pub use lease::{Lost, Terms, heartbeat, heartbeat_while, lead, lead_by};
pub use mirrors::{Mirror, MirrorChange, Mirrors};
pub use work_queue::{Retries, changed_by_others};
