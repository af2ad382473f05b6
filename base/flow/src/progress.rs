//! How far a run of a flow is, as users read it. Pure: fed by the engine that runs the flow.

use std::collections::BTreeSet;

use crate::{Flow, Name};

/// Counts of a running flow. Percent and texts as gardener/gardener v1.150 `pkg/utils/flow/progress_reporter*.go`.
#[derive(Clone, Debug)]
pub struct Progress<T> {
    flow: String,
    total: usize,
    succeeded: BTreeSet<T>,
    failed: BTreeSet<T>,
    running: BTreeSet<T>,
    finished: bool,
}

impl<T: Copy + Ord + Name> Progress<T> {
    /// Nothing has started yet.
    #[must_use]
    pub fn new(flow: &Flow<T>) -> Self {
        Self {
            flow: flow.name().to_owned(),
            total: flow.steps().filter(|step| step.skipped().is_none()).count(),
            succeeded: BTreeSet::new(),
            failed: BTreeSet::new(),
            running: BTreeSet::new(),
            finished: false,
        }
    }

    /// The task is being worked on.
    pub fn start(&mut self, task: T) {
        self.running.insert(task);
    }

    /// The task is done.
    pub fn succeed(&mut self, task: T) {
        self.running.remove(&task);
        self.succeeded.insert(task);
    }

    /// The task has failed for this run.
    pub fn fail(&mut self, task: T) {
        self.running.remove(&task);
        self.failed.insert(task);
    }

    /// The task was stopped before it ended.
    pub fn stop(&mut self, task: T) {
        self.running.remove(&task);
    }

    /// No task will start any more.
    pub fn finish(&mut self) {
        self.finished = true;
    }

    /// `100 * succeeded / (all - skipped)`, 0 to 100; an empty flow counts as done.
    #[must_use]
    pub fn percent(&self) -> i32 {
        if self.total == 0 {
            return 100;
        }
        i32::try_from(100 * self.succeeded.len() / self.total).expect("succeeded tasks are a part of the total")
    }

    /// The names of the running tasks joined by ", ", in flow order of their enum; before the first task
    /// "Starting FLOW", after the last "FLOW finished".
    #[must_use]
    pub fn description(&self) -> String {
        if self.finished {
            return format!("{} finished", self.flow);
        }
        if self.running.is_empty() {
            return format!("Starting {}", self.flow);
        }
        self.running.iter().map(Name::name).collect::<Vec<_>>().join(", ")
    }

    /// The running tasks.
    pub fn running(&self) -> impl Iterator<Item = T> + '_ {
        self.running.iter().copied()
    }

    /// The tasks done so far.
    pub fn succeeded(&self) -> impl Iterator<Item = T> + '_ {
        self.succeeded.iter().copied()
    }

    /// The tasks that have failed in this run.
    pub fn failed(&self) -> impl Iterator<Item = T> + '_ {
        self.failed.iter().copied()
    }
}
