//! Runs a [`base_flow::Flow`]: everything whose dependencies are done runs at once, a failed task stops only what
//! depends on it, faults that may pass are tried again, panics become faults. It reports what happens as a stream of
//! events and the result as an [`Outcome`]. It knows nothing of the tasks' meaning and writes nothing anywhere.
//!
//! Engine semantics follow gardener/gardener v1.150 `pkg/utils/flow/flow.go`, with one addition: an interrupt, which
//! ends a run at a task boundary because a newer request has made it pointless.

mod around;
mod attempt;
mod event;
mod feed;
mod run;
mod trace;
mod waits;

pub use around::{TaskLayer, Try, Work};
pub use attempt::{NotFinished, TaskContext};
pub use event::{Event, FlowEnd, Planned, What};
pub use feed::{FEED_MAX, Feed, FeedEvent, Listener, Received};
pub use run::{Options, Outcome, TaskError, run};
pub use trace::{TaskState, TaskTrace, Trace};
pub use waits::{current_task, wait_over, waits_for};
