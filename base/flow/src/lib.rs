//! Task graphs as data: build, check, print. A flow names its tasks by a closed enum, and declares what each waits
//! for, and which are skipped and why. It never runs anything and knows no async; `base-flow-run` does that.
//!
//! Behaviour of the engine follows gardener/gardener v1.150 `pkg/utils/flow`: a skipped task counts as done for its
//! dependents (but still stands between them and what it waits for itself), and leaves the progress total.
//!
//! ```
//! use base_flow::{Flow, Name, group};
//!
//! #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
//! enum Task { Deploy, Wait }
//! impl Name for Task {
//!     fn name(&self) -> &'static str {
//!         match self { Task::Deploy => "Deploying", Task::Wait => "Waiting" }
//!     }
//! }
//!
//! let mut builder = Flow::builder("example");
//! builder.group("base");
//! builder.task(Task::Deploy).in_group("base");
//! builder.task(Task::Wait).after([group("base")]);
//! let flow = builder.build()?;
//! assert!(flow.precedes(Task::Deploy, Task::Wait));
//! # Ok::<(), base_flow::FlowError>(())
//! ```

mod build;
mod print;
mod progress;
mod settings;
mod work;

pub use build::{After, Flow, FlowBuilder, FlowError, GroupBuilder, Node, Step, StepBuilder, group, sync_point};
pub use progress::Progress;
pub use settings::{Backoff, TaskSettings};

/// A task's name as users read it: in progress texts and in `status.lastErrors[].taskID`. Unique within a flow.
pub trait Name {
    /// The name; also the task's identity towards users.
    fn name(&self) -> &'static str;
}
