//! What is known of a run from its events alone: the state of each task, how long it took, and which chain of tasks the
//! whole run took its time from. Pure; fed with events in their order, and wrong only as far as it has missed some.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::{Event, FlowEnd, Planned, What};

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Something it waits for is not done.
    Planned,
    /// It is being worked on.
    Running,
    /// A try failed; the next one begins then.
    Pausing {
        /// When the next try begins.
        until: Timestamp,
    },
    /// Done.
    Succeeded,
    /// Failed for this run.
    Failed,
    /// Stopped before it ended.
    Stopped,
}

/// One task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskTrace {
    /// Its name.
    pub name: String,
    /// The tasks it waits for.
    pub after: Vec<String>,
    /// Its state.
    pub state: TaskState,
    /// When its first try began.
    pub started: Option<Timestamp>,
    /// When it was done, failed or stopped.
    pub ended: Option<Timestamp>,
    /// Tries that failed.
    pub failures: u32,
    /// What the last failed try ended with.
    pub error: Option<String>,
    /// What it waits for outside of the run, with what is missing there.
    pub waits: BTreeMap<String, String>,
    /// What it waited for last, however that ended.
    pub waited_for: Option<String>,
}

impl TaskTrace {
    fn new(planned: Planned) -> Self {
        Self {
            name: planned.task,
            after: planned.after,
            state: TaskState::Planned,
            started: None,
            ended: None,
            failures: 0,
            error: None,
            waits: BTreeMap::new(),
            waited_for: None,
        }
    }

    /// Whether it has begun and not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.state, TaskState::Running | TaskState::Pausing { .. })
    }

    /// How long it has taken, up to `now` while it is open; zero before it begins.
    #[must_use]
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.started
            .map_or(Duration::ZERO, |started| between(started, self.ended.unwrap_or(now)))
    }

    fn end(&mut self, state: TaskState, at: Timestamp) {
        self.state = state;
        self.ended = Some(at);
        self.waits.clear();
    }
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    tasks: Vec<TaskTrace>,
    /// Tasks left out, with the reason.
    pub skipped: Vec<(String, String)>,
    /// When it began.
    pub started: Option<Timestamp>,
    /// When and how it ended.
    pub ended: Option<(Timestamp, FlowEnd)>,
    /// How many runs began before this one.
    pub runs_before: u32,
}

impl Trace {
    /// Applies the next event. A run that begins replaces the one before.
    pub fn take(&mut self, event: &Event) {
        let at = event.time;
        match &event.what {
            What::FlowStarted { plan, .. } => {
                *self = Self {
                    tasks: plan.iter().cloned().map(TaskTrace::new).collect(),
                    started: Some(at),
                    runs_before: self.runs_before + u32::from(self.started.is_some()),
                    ..Self::default()
                };
            }
            What::TaskSkipped { task, reason } => self.skipped.push((task.clone(), reason.clone())),
            What::TaskStarted { task } => {
                let task = self.task(task);
                task.state = TaskState::Running;
                task.started = Some(at);
            }
            What::TaskRetried {
                task,
                attempts,
                error,
                wait_ms,
            } => {
                let task = self.task(task);
                task.failures = *attempts;
                task.error = Some(error.clone());
                let until = at.checked_add(Duration::from_millis(*wait_ms)).unwrap_or(at);
                task.state = TaskState::Pausing { until };
            }
            What::TaskWaits { task, object, reason } => {
                let task = self.task(task);
                // It reports a wait: the pause between two tries is over.
                task.state = TaskState::Running;
                task.waits.insert(object.clone(), reason.clone());
                task.waited_for = Some(object.clone());
            }
            What::TaskWaitOver { task, object } => {
                self.task(task).waits.remove(object);
            }
            What::TaskSucceeded { task, .. } => self.task(task).end(TaskState::Succeeded, at),
            What::TaskFailed { task, error, .. } => {
                let task = self.task(task);
                task.failures += 1;
                task.error = Some(error.clone());
                task.end(TaskState::Failed, at);
            }
            What::TaskStopped { task } => self.task(task).end(TaskState::Stopped, at),
            What::FlowFinished { end } => {
                self.ended = Some((at, *end));
                for task in self.tasks.iter_mut().filter(|task| task.is_open()) {
                    task.end(TaskState::Stopped, at);
                }
            }
        }
    }

    /// The task of that name; one that no plan announced is put at the end.
    fn task(&mut self, name: &str) -> &mut TaskTrace {
        let at = self.tasks.iter().position(|task| task.name == name);
        let at = at.unwrap_or_else(|| {
            self.tasks.push(TaskTrace::new(Planned {
                task: name.to_owned(),
                after: Vec::new(),
            }));
            self.tasks.len() - 1
        });
        &mut self.tasks[at]
    }

    /// The tasks that are worked on, in flow order.
    #[must_use]
    pub fn tasks(&self) -> &[TaskTrace] {
        &self.tasks
    }

    /// How many tasks match.
    pub fn count(&self, of: impl Fn(&TaskTrace) -> bool) -> usize {
        self.tasks.iter().filter(|task| of(task)).count()
    }

    /// `100 * succeeded / all`, as [`base_flow::Progress`] has it; nothing is known before the run begins: 0.
    #[must_use]
    pub fn percent(&self) -> usize {
        let done = self.count(|task| task.state == TaskState::Succeeded);
        match (self.started, self.tasks.len()) {
            (None, _) => 0,
            (Some(_), 0) => 100,
            (Some(_), all) => 100 * done / all,
        }
    }

    /// How long the run has taken, up to `now` while it goes on.
    #[must_use]
    pub fn duration(&self, now: Timestamp) -> Duration {
        self.started.map_or(Duration::ZERO, |started| {
            between(started, self.ended.map_or(now, |(at, _)| at))
        })
    }

    /// What a planned task still waits for.
    pub fn waits_for<'a>(&'a self, task: &'a TaskTrace) -> impl Iterator<Item = &'a TaskTrace> {
        let undone = |one: &&TaskTrace| one.state != TaskState::Succeeded;
        task.after
            .iter()
            .filter_map(|name| self.tasks.iter().find(|one| one.name == *name))
            .filter(undone)
    }

    /// The chain that the run took its time from, first task first: back from the task that ended last, always to
    /// the one it waited for that ended last. Only a shorter task of this chain makes the run shorter.
    #[must_use]
    pub fn critical_path(&self) -> Vec<&TaskTrace> {
        let ended = |tasks: &mut dyn Iterator<Item = &'_ TaskTrace>| -> Option<usize> {
            tasks
                .filter(|task| task.started.is_some() && task.ended.is_some())
                .max_by_key(|task| (task.ended, task.started))
                .and_then(|last| self.tasks.iter().position(|task| task.name == last.name))
        };
        let mut path = Vec::new();
        let mut next = ended(&mut self.tasks.iter());
        // A plan has no cycles; events from elsewhere could have one, which must not loop for ever.
        while let Some(at) = next.filter(|_| path.len() < self.tasks.len()) {
            let task = &self.tasks[at];
            path.push(task);
            next = ended(&mut self.tasks.iter().filter(|one| task.after.contains(&one.name)));
        }
        path.reverse();
        path
    }
}

fn between(from: Timestamp, to: Timestamp) -> Duration {
    Duration::try_from(to.duration_since(from)).unwrap_or_default()
}
