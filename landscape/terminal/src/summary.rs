//! What stays on the screen when an operation has ended: how long it took and on what, or what went wrong. Pure.

use std::time::Duration;

use base_flow_run::{TaskState, TaskTrace};
use jiff::Timestamp;

use super::lines::Ended;
use super::paint::{Line, Paint};
use super::render::Canvas;
use super::text::{broken, seconds, tame};
use super::view::View;

/// Tasks of the critical path that took less than this part of the run share a line.
const SHORT_PART: u32 = 50;

/// The last lines. `now` is the time of the end. Names are cut where the canvas is narrow, errors are broken.
#[must_use]
pub fn summary(view: &View, now: Timestamp, canvas: Canvas) -> Vec<Line> {
    let mut lines = vec![headline(view, now)];
    if view.standing.ended == Some(Ended::Succeeded) {
        let path = critical_path(view, now).into_iter();
        lines.extend(path.map(|line| line.cut(canvas.width, canvas.letters.more())));
    } else {
        lines.extend(failures(view, now, canvas));
    }
    lines
}

fn headline(view: &View, now: Timestamp) -> Line {
    let standing = &view.standing;
    let total = Duration::try_from(now.duration_since(view.since)).unwrap_or_default();
    let done = view.trace.count(|task| task.state == TaskState::Succeeded);
    // There are no tasks if the operation had ended before the observation began.
    let tasks = match (view.trace.tasks().len(), view.trace.skipped.len()) {
        (0, _) => String::new(),
        (all, 0) => format!(", {done} of {all} tasks done"),
        (all, skipped) => format!(", {done} of {all} tasks done, {skipped} skipped"),
    };
    let (paint, what, when) = match &standing.ended {
        Some(Ended::Succeeded) => (Paint::Good, "Succeeded", "in"),
        Some(Ended::Failed(_)) => (Paint::Bad, "Failed", "after"),
        None => (Paint::Bad, "has not ended", "after"),
    };
    let subject = tame(&view.subject);
    let operation = if standing.before.is_empty() {
        format!("{} {what}", standing.type_)
    } else {
        format!("still {}", standing.before)
    };
    Line::default()
        .with(Paint::Strong, subject)
        .with(Paint::Normal, ": ")
        .with(paint, operation)
        .with(Paint::Normal, format!(" {when} {}{tasks}", seconds(total)))
}

fn critical_path(view: &View, now: Timestamp) -> Vec<Line> {
    let path = view.trace.critical_path();
    if path.is_empty() {
        return Vec::new();
    }
    let run = view.trace.duration(now);
    let on_path: Duration = path.iter().map(|task| task.duration(now)).sum();
    let is_long = |task: &&&TaskTrace| task.duration(now) * SHORT_PART >= run;
    let mut lines = vec![Line::default().with(
        Paint::Normal,
        format!(
            "critical path: {} tasks, {} of the flow's {}",
            path.len(),
            seconds(on_path),
            seconds(run)
        ),
    )];
    let line = |time: Duration, name: &str| {
        Line::default()
            .with(Paint::Strong, format!("  {:>7}", seconds(time)))
            .with(Paint::Normal, format!("  {name}"))
    };
    lines.extend(
        path.iter()
            .filter(is_long)
            .map(|task| line(task.duration(now), &tame(&task.name))),
    );
    let short: Vec<_> = path.iter().filter(|task| !is_long(task)).collect();
    if !short.is_empty() {
        let time = short.iter().map(|task| task.duration(now)).sum();
        lines.push(line(time, &format!("{} shorter ones together", short.len())));
    }
    lines
}

/// Each failure with task, object and reason. The Shoot's own errors come first: they contain a hint as well.
fn failures(view: &View, now: Timestamp, canvas: Canvas) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut printed = Vec::new();
    for trouble in &view.standing.troubles {
        let name = trouble.task.as_deref().unwrap_or("The operation");
        let task = view.trace.tasks().iter().find(|task| task.name == name);
        printed.push(name);
        lines.extend(failure(canvas, name, task, &trouble.text, now));
    }
    let tasks = view.trace.tasks().iter();
    for task in tasks.filter(|task| task.is_open() || task.state == TaskState::Failed) {
        if printed.contains(&task.name.as_str()) {
            continue;
        }
        let waits: Vec<String> = task
            .waits
            .iter()
            .map(|(object, reason)| format!("{object}: {reason}"))
            .collect();
        let text = task.error.clone().unwrap_or_else(|| waits.join("; "));
        lines.extend(failure(canvas, &task.name, Some(task), &text, now));
    }
    lines
}

fn failure(canvas: Canvas, name: &str, task: Option<&TaskTrace>, text: &str, now: Timestamp) -> Vec<Line> {
    let mark = canvas.letters.pick("✗", "x");
    let time = task.map_or(String::new(), |task| format!("  {}", seconds(task.duration(now))));
    let text = tame(text);
    // Most errors name the object themselves.
    let object = task
        .and_then(|task| task.waited_for.as_deref())
        .map(tame)
        .filter(|object| !text.contains(object.as_str()))
        .map_or(String::new(), |object| format!("{object}: "));
    let mut lines = vec![
        Line::default()
            .with(Paint::Bad, format!("{mark} {}", tame(name)))
            .with(Paint::Faint, time),
    ];
    let room = canvas.width.saturating_sub(4);
    let text = broken(&format!("{object}{text}"), room, usize::MAX, canvas.letters.more());
    lines.extend(
        text.into_iter()
            .map(|line| Line::default().with(Paint::Normal, format!("    {line}"))),
    );
    lines
}
