//! The picture of an operation under way: a view, a time and a size in, lines out. Pure. No line is longer than the
//! size allows, and there are no more of them.

use base_flow_run::{TaskState, TaskTrace};
use jiff::Timestamp;

use super::paint::{Line, Paint};
use super::text::{broken, columns, cut, seconds, tame};
use super::view::View;

/// Lines of one error text: enough for the object, the reason and one thing to do.
const ERROR_LINES_MAX: usize = 4;
/// Lines of one reason to wait: objects have long names.
const REASON_LINES_MAX: usize = 2;
/// Objects shown below one task that waits for several.
const OBJECTS_MAX: usize = 3;
/// Widest bar: a longer one says no more.
const BAR_MAX: usize = 40;

/// The letters to draw with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Letters {
    /// Any.
    Unicode,
    /// ASCII alone.
    Ascii,
}

impl Letters {
    pub(crate) fn pick(self, unicode: &'static str, ascii: &'static str) -> &'static str {
        match self {
            Self::Unicode => unicode,
            Self::Ascii => ascii,
        }
    }

    pub(crate) fn more(self) -> &'static str {
        self.pick("…", "...")
    }
}

/// The room there is, and what to draw with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canvas {
    /// Columns.
    pub width: usize,
    /// Lines.
    pub height: usize,
    /// Letters.
    pub letters: Letters,
}

/// The picture.
#[must_use]
pub fn frame(view: &View, now: Timestamp, canvas: Canvas) -> Vec<Line> {
    let picture = Picture { view, now, canvas };
    let mut lines = vec![picture.head()];
    let mut room = canvas.height.saturating_sub(1);
    // What matters most comes first when room is given away, whatever its place on the screen.
    let wrong = picture.limited(picture.wrong(), &mut room, "more lines on errors");
    let done = picture.limited(picture.done().into_iter().collect(), &mut room, "");
    let open = picture.limited(picture.open(), &mut room, "more lines on running tasks");
    let planned = picture.limited(picture.planned(), &mut room, "more tasks wait");
    for part in [done, wrong, open, planned] {
        lines.extend(part);
    }
    lines.truncate(canvas.height);
    let more = canvas.letters.more();
    lines.into_iter().map(|line| line.cut(canvas.width, more)).collect()
}

struct Picture<'a> {
    view: &'a View,
    now: Timestamp,
    canvas: Canvas,
}

impl Picture<'_> {
    fn limited(&self, mut lines: Vec<Line>, room: &mut usize, what: &str) -> Vec<Line> {
        if lines.len() > *room {
            let left_out = lines.len() - room.saturating_sub(1);
            lines.truncate(room.saturating_sub(1));
            if *room > 0 {
                let text = format!("{} {left_out} {what}", self.canvas.letters.more());
                lines.push(Line::default().with(Paint::Faint, text));
            }
        }
        *room -= lines.len();
        lines
    }

    /// Whose operation, which, how far, how long.
    fn head(&self) -> Line {
        let view = self.view;
        let time = seconds(self.elapsed());
        if !view.standing.before.is_empty() && view.trace.started.is_none() {
            return Line::default()
                .with(Paint::Strong, tame(&view.subject))
                .with(Paint::Normal, format!("  {}  ", view.standing.before))
                .with(Paint::Faint, time);
        }
        let (done, all) = (self.count(&TaskState::Succeeded), view.trace.tasks().len());
        let operation = match view.standing.state.as_str() {
            "" | "Processing" => view.standing.type_.clone(),
            state => format!("{} {state}", view.standing.type_),
        };
        let tasks = match all {
            0 => String::new(),
            _ => format!("{done}/{all} tasks  "),
        };
        let tail = format!("{:3} %  {tasks}{time}", view.percent());
        let fixed = columns(&operation) + columns(&tail) + 6;
        // The bar's least width; the subject gives way to it.
        let subject = tame(&view.subject);
        let with_subject = fixed + columns(&subject) + 2 + 10 <= self.canvas.width;
        let mut line = Line::default();
        let mut taken = fixed;
        if with_subject {
            taken += columns(&subject) + 2;
            line = line.with(Paint::Strong, subject).with(Paint::Normal, "  ");
        }
        let bar = self.canvas.width.saturating_sub(taken).min(BAR_MAX);
        line = line.with(self.mood(), operation).with(Paint::Normal, "  ");
        if bar >= 4 {
            let full = bar * view.percent().min(100) / 100;
            let letters = self.canvas.letters;
            line = line
                .with(self.mood(), letters.pick("█", "#").repeat(full))
                .with(Paint::Faint, letters.pick("░", "-").repeat(bar - full))
                .with(Paint::Normal, "  ");
        }
        line.with(Paint::Normal, tail)
    }

    fn elapsed(&self) -> std::time::Duration {
        std::time::Duration::try_from(self.now.duration_since(self.view.since)).unwrap_or_default()
    }

    fn mood(&self) -> Paint {
        match self.view.standing.state.as_str() {
            "Failed" => Paint::Bad,
            "Error" => Paint::Uneasy,
            _ => Paint::Active,
        }
    }

    fn count(&self, state: &TaskState) -> usize {
        self.view.trace.count(|task| task.state == *state)
    }

    /// What is done, in one line: how much, and the newest with their durations.
    fn done(&self) -> Option<Line> {
        let ended = |task: &&TaskTrace| task.state == TaskState::Succeeded;
        let mut tasks: Vec<&TaskTrace> = self.view.trace.tasks().iter().filter(ended).collect();
        if tasks.is_empty() {
            return None;
        }
        let letters = self.canvas.letters;
        let mut text = format!(" {} done; last ", tasks.len());
        tasks.sort_by_key(|task| std::cmp::Reverse(task.ended));
        for (number, task) in tasks.into_iter().enumerate() {
            if columns(&text) >= self.canvas.width {
                break;
            }
            let between = if number == 0 { "" } else { ", " };
            text += &format!("{between}{} {}", tame(&task.name), seconds(task.duration(self.now)));
        }
        let mark = letters.pick("✓", "+");
        Some(Line::default().with(Paint::Good, mark).with(Paint::Faint, text))
    }

    /// What has failed, and what will be tried again.
    fn wrong(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let letters = self.canvas.letters;
        for task in self.view.trace.tasks() {
            let error = task.error.as_deref().unwrap_or_default();
            match &task.state {
                TaskState::Failed => {
                    lines.push(self.task_line(letters.pick("✗", "x"), Paint::Bad, task));
                    lines.extend(self.indented(error, Paint::Bad, ERROR_LINES_MAX));
                    lines.push(self.note(self.after_failure()));
                }
                TaskState::Pausing { until } if *until > self.now => {
                    let left = until.duration_since(self.now).try_into().unwrap_or_default();
                    lines.push(self.task_line(letters.pick("↻", "~"), Paint::Uneasy, task));
                    lines.extend(self.indented(error, Paint::Uneasy, ERROR_LINES_MAX));
                    let next = task.failures + 1;
                    lines.push(self.note(&format!("try {next} begins in {}", seconds(left))));
                }
                _ => {}
            }
        }
        for trouble in self.view.other_troubles() {
            let task = trouble.task.as_deref().unwrap_or("The operation");
            let mark = letters.pick("✗", "x");
            lines.push(Line::default().with(Paint::Bad, format!("{mark} {}", tame(task))));
            lines.extend(self.indented(&trouble.text, Paint::Bad, ERROR_LINES_MAX));
        }
        if self.view.missed > 0 {
            let text = format!("{} events were missed: lines may be behind", self.view.missed);
            lines.push(Line::default().with(Paint::Uneasy, text));
        }
        lines
    }

    /// What comes after a task has failed.
    fn after_failure(&self) -> &'static str {
        match (self.view.trace.ended, self.view.standing.state.as_str()) {
            (None, _) => "what does not depend on it goes on; then its class decides about the next run",
            (Some(_), "Failed") => "not tried again by itself: the Shoot must change",
            (Some(_), _) => "the next run begins by itself",
        }
    }

    /// What is being worked on, with the objects it waits for.
    fn open(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        let letters = self.canvas.letters;
        let pauses = |task: &TaskTrace| matches!(task.state, TaskState::Pausing { until } if until > self.now);
        for task in self.view.trace.tasks().iter().filter(|task| task.is_open()) {
            if pauses(task) {
                continue;
            }
            lines.push(self.task_line(letters.pick("●", "*"), Paint::Active, task));
            for (object, reason) in task.waits.iter().take(OBJECTS_MAX) {
                lines.extend(self.indented(&format!("{object}: {reason}"), Paint::Uneasy, REASON_LINES_MAX));
            }
            let left_out = task.waits.len().saturating_sub(OBJECTS_MAX);
            if left_out > 0 {
                lines.push(self.note(&format!("and {left_out} more objects")));
            }
        }
        lines
    }

    /// What cannot begin yet, with the tasks it waits for; what can begin next comes first.
    fn planned(&self) -> Vec<Line> {
        let trace = &self.view.trace;
        let mut tasks: Vec<(bool, &TaskTrace)> = trace
            .tasks()
            .iter()
            .filter(|task| task.state == TaskState::Planned)
            .map(|task| (!trace.waits_for(task).all(TaskTrace::is_open), task))
            .collect();
        tasks.sort_by_key(|(far, _)| *far);
        let mark = self.canvas.letters.pick("○", "o");
        // Half of a line for the name: the other half says what it waits for.
        let room = (self.canvas.width / 2).saturating_sub(2);
        tasks
            .into_iter()
            .map(|(_, task)| {
                let before: Vec<String> = trace.waits_for(task).map(|one| tame(&one.name)).collect();
                let name = cut(&tame(&task.name), room, self.canvas.letters.more());
                let pad = " ".repeat(room - columns(&name));
                Line::default()
                    .with(Paint::Faint, format!("{mark} {name}{pad}"))
                    .with(Paint::Faint, format!(" after {}", before.join(", ")))
            })
            .collect()
    }

    /// Mark and name at the left, how long at the right.
    fn task_line(&self, mark: &str, paint: Paint, task: &TaskTrace) -> Line {
        let time = seconds(task.duration(self.now));
        let room = self.canvas.width.saturating_sub(columns(mark) + columns(&time) + 3);
        let name = cut(&tame(&task.name), room, self.canvas.letters.more());
        let pad = " ".repeat(room - columns(&name));
        Line::default()
            .with(paint, format!("{mark} "))
            .with(Paint::Normal, format!("{name}{pad}  "))
            .with(Paint::Faint, time)
    }

    fn indented(&self, text: &str, paint: Paint, lines_max: usize) -> Vec<Line> {
        let room = self.canvas.width.saturating_sub(4);
        broken(&tame(text), room, lines_max, self.canvas.letters.more())
            .into_iter()
            .map(|line| Line::default().with(paint, format!("    {line}")))
            .collect()
    }

    fn note(&self, text: &str) -> Line {
        Line::default().with(Paint::Faint, format!("    {text}"))
    }
}
