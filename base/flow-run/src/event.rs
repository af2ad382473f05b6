//! What a run reports: one serialisable stream of events, from which progress, traces and screens are made.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Something happened in a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// When, on the run's clock.
    pub time: Timestamp,
    /// The flow's name.
    pub flow: String,
    /// What happened.
    pub what: What,
}

/// A task before it begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// The task's name.
    pub task: String,
    /// The tasks it waits for. A task left out is replaced by those that it waits for.
    pub after: Vec<String>,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum What {
    /// The run begins.
    FlowStarted {
        /// Tasks that will be worked on, if all goes well.
        tasks: usize,
        /// Tasks left out.
        skipped: usize,
        /// The tasks that will be worked on, in flow order, each with what it waits for.
        plan: Vec<Planned>,
    },
    /// A task is not worked on in this run.
    TaskSkipped {
        /// The task's name.
        task: String,
        /// Why.
        reason: String,
    },
    /// Everything the task waits for is done; its first try begins.
    TaskStarted {
        /// The task's name.
        task: String,
    },
    /// A try failed with a fault that may pass; there will be another.
    TaskRetried {
        /// The task's name.
        task: String,
        /// Tries so far.
        attempts: u32,
        /// What went wrong.
        error: String,
        /// Until the next try, in milliseconds.
        wait_ms: u64,
    },
    /// The task waits for something outside of the run, or still waits but for another reason.
    TaskWaits {
        /// The task's name.
        task: String,
        /// What it waits for, as "Kind namespace/name".
        object: String,
        /// What is missing there.
        reason: String,
    },
    /// That wait is over, one way or the other.
    TaskWaitOver {
        /// The task's name.
        task: String,
        /// What it waited for.
        object: String,
    },
    /// The task is done.
    TaskSucceeded {
        /// The task's name.
        task: String,
        /// Whether it had failed in the run before: its error is to be forgotten now.
        failed_before: bool,
    },
    /// The task has failed for this run.
    TaskFailed {
        /// The task's name.
        task: String,
        /// What went wrong.
        error: String,
        /// Error codes for users.
        codes: Vec<String>,
    },
    /// The task was stopped before it ended (the run was cancelled, or interrupted while the task waited).
    TaskStopped {
        /// The task's name.
        task: String,
    },
    /// The run is over.
    FlowFinished {
        /// How.
        end: FlowEnd,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum FlowEnd {
    /// Every task was done or skipped.
    Succeeded,
    /// Some task failed; everything that did not depend on it was done.
    Failed,
    /// Stopped at a task boundary because the run had become pointless.
    Interrupted,
    /// Stopped at once.
    Cancelled,
}
