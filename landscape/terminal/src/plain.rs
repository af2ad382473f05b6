//! The same story as lines, for files, pipes and terminals that cannot draw: one for each task that ends, few for one
//! that is late or is tried again. Pure: a view in, lines out.

use std::collections::BTreeMap;
use std::time::Duration;

use base_flow_run::{Event, TaskTrace, What};
use jiff::Timestamp;

use super::text::{seconds, tame};
use super::view::View;

/// A task is late when it has taken so long; how often a line may tell of it again.
const LATE: Duration = Duration::from_secs(10);

/// What has been printed, so that nothing is printed twice.
#[derive(Debug, Default)]
pub struct Plain {
    stage: String,
    state: String,
    /// Per task: when its last line was printed, and the line.
    printed: BTreeMap<String, (Timestamp, String)>,
}

impl Plain {
    /// The lines for an event that `view` has taken in already.
    pub fn event(&mut self, view: &View, event: &Event) -> Vec<String> {
        let at = event.time;
        let line = |what: &str, text: &str| vec![stamped(view, at, &format!("{what:<7} {}", tame(text)))];
        match &event.what {
            What::FlowStarted { tasks, skipped, .. } => {
                self.printed.clear();
                line("begins", &format!("{}: {tasks} tasks, {skipped} skipped", event.flow))
            }
            What::TaskSucceeded { task, .. } => line("done", &format!("{task} ({})", time_of(view, task, at))),
            What::TaskFailed { task, error, .. } => {
                line("failed", &format!("{task} ({}): {error}", time_of(view, task, at)))
            }
            What::TaskRetried {
                task,
                attempts,
                error,
                wait_ms,
            } => {
                if !self.may_print(task, at) {
                    return Vec::new();
                }
                self.printed.insert(task.clone(), (at, error.clone()));
                let next = seconds(Duration::from_millis(*wait_ms));
                line(
                    "retry",
                    &format!("{task}: try {attempts} failed, the next begins in {next}: {error}"),
                )
            }
            _ => Vec::new(),
        }
    }

    /// The lines for what has become late by `now`.
    pub fn late(&mut self, view: &View, now: Timestamp) -> Vec<String> {
        let late = |task: &&TaskTrace| task.is_open() && task.duration(now) >= LATE;
        let mut lines = Vec::new();
        for task in view.trace.tasks().iter().filter(late) {
            let waits: Vec<String> = task
                .waits
                .iter()
                .map(|(object, reason)| format!("{object}: {reason}"))
                .collect();
            let why = match (&task.error, waits.is_empty()) {
                (_, false) => waits.join("; "),
                (Some(error), true) => format!("try {} failed: {error}", task.failures),
                (None, true) => "it is still being worked on".to_owned(),
            };
            let same = self.printed.get(&task.name).is_some_and(|(_, printed)| *printed == why);
            if same || !self.may_print(&task.name, now) {
                continue;
            }
            let text = tame(&format!("{} ({}): {why}", task.name, seconds(task.duration(now))));
            lines.push(stamped(view, now, &format!("late    {text}")));
            self.printed.insert(task.name.clone(), (now, why));
        }
        lines
    }

    /// The lines for the Shoot's own status.
    pub fn standing(&mut self, view: &View, now: Timestamp) -> Vec<String> {
        let standing = &view.standing;
        let mut lines = Vec::new();
        if !standing.before.is_empty() && standing.before != self.stage {
            lines.push(stamped(view, now, &standing.before));
            self.stage.clone_from(&standing.before);
        }
        let state = match standing.state.as_str() {
            "Error" | "Failed" => format!("{} {}: {}", standing.type_, standing.state, standing.description),
            _ => String::new(),
        };
        if !state.is_empty() && state != self.state {
            lines.push(stamped(view, now, &tame(&state)));
        }
        self.state = state;
        lines
    }

    /// Whether the last line on the task is old enough for another.
    fn may_print(&self, task: &str, now: Timestamp) -> bool {
        self.printed.get(task).is_none_or(|(at, _)| {
            let since = Duration::try_from(now.duration_since(*at)).unwrap_or_default();
            since >= LATE
        })
    }
}

fn time_of(view: &View, name: &str, now: Timestamp) -> String {
    let task = view.trace.tasks().iter().find(|task| task.name == name);
    seconds(task.map_or(Duration::ZERO, |task| task.duration(now)))
}

fn stamped(view: &View, at: Timestamp, text: &str) -> String {
    let since = at.duration_since(view.since).as_secs_f64();
    format!("{since:7.2} s  {:3} %  {text}", view.percent())
}
