//! A flow while it is written down: lines that read like the table they come from. A line holds the order; why a step is
//! skipped stands in `skips`.

use std::time::Duration;

use base_flow::{After, Flow, FlowBuilder, GroupBuilder, StepBuilder};

use crate::facts::{Goal, ShootFacts};
use crate::single::Single;
use crate::skips;
use crate::slots::{ShootFlowError, check_slots};
use crate::step::{ShootTask, Step, Subject, Verb, Way};
use crate::times::{CONNECT_TIMEOUT, WRITE_BACKOFF, WRITE_TIMEOUT};

/// What a step may wait for.
#[derive(Clone, Copy)]
pub(crate) enum Before {
    Step(Step),
    Group(&'static str),
    SyncPoint(&'static str),
}

impl From<Step> for Before {
    fn from(step: Step) -> Self {
        Self::Step(step)
    }
}

impl From<Single> for Before {
    fn from(single: Single) -> Self {
        Self::Step(single.into())
    }
}

/// Every step of the group.
pub(crate) fn group(name: &'static str) -> Before {
    Before::Group(name)
}

/// The point where branches meet.
pub(crate) fn sync_point(name: &'static str) -> Before {
    Before::SyncPoint(name)
}

/// A flow being written down.
pub(crate) struct Draft<'f> {
    flow: FlowBuilder<ShootTask>,
    facts: &'f ShootFacts,
    goal: &'f Goal,
}

/// A step being written down.
pub(crate) struct Line<'d> {
    step: StepBuilder<'d, ShootTask>,
    way: Way,
}

/// A group being written down.
pub(crate) struct GroupLine<'d> {
    group: GroupBuilder<'d, ShootTask>,
    way: Way,
}

fn after(way: Way, before: Before) -> After<ShootTask> {
    match before {
        Before::Step(step) => After::Task(ShootTask { way, step }),
        Before::Group(name) => After::Group(name),
        Before::SyncPoint(name) => After::SyncPoint(name),
    }
}

impl<'f> Draft<'f> {
    /// Begins a flow.
    pub(crate) fn new(name: &str, facts: &'f ShootFacts, goal: &'f Goal) -> Self {
        Self {
            flow: Flow::builder(name),
            facts,
            goal,
        }
    }

    /// Whether the shoot hibernates or is hibernated.
    pub(crate) fn hibernates(&self) -> bool {
        self.goal.way() == Way::Hibernate
    }

    /// What decides on tasks.
    pub(crate) fn facts(&self) -> &'f ShootFacts {
        self.facts
    }

    /// Defines a group: what it waits for, each of its steps waits for.
    pub(crate) fn group(&mut self, name: &'static str) -> GroupLine<'_> {
        let way = self.goal.way();
        let group = self.flow.group(name);
        GroupLine { group, way }
    }

    /// Defines a point where branches meet.
    pub(crate) fn sync_point(&mut self, name: &'static str, before: impl IntoIterator<Item = Before>) {
        let way = self.goal.way();
        let before = before.into_iter().map(|one| after(way, one));
        self.flow.sync_point(name, before.collect::<Vec<_>>());
    }

    fn line(&mut self, step: Step, timeout: Duration, waits: bool) -> Line<'_> {
        let reason = skips::reason(self.facts, self.goal, step);
        let way = self.goal.way();
        let task = self.flow.task(ShootTask { way, step }).timeout(timeout);
        let mut task = task.retry(WRITE_BACKOFF);
        if waits {
            task = task.waits();
        }
        if let Some(reason) = reason {
            task = task.skip_if(true, reason);
        }
        Line { step: task, way }
    }

    /// A step that writes objects: tried again within [`WRITE_TIMEOUT`].
    pub(crate) fn write(&mut self, step: impl Into<Step>) -> Line<'_> {
        self.line(step.into(), WRITE_TIMEOUT, false)
    }

    /// A step that talks to a shoot's API server, which may have come up this moment.
    pub(crate) fn connect(&mut self, step: impl Into<Step>) -> Line<'_> {
        self.line(step.into(), CONNECT_TIMEOUT, false)
    }

    /// A step that watches until something holds; it reports itself what it waited for when the time is up. A call that
    /// fails meanwhile, as it can at any moment, is no reason to begin the whole flow again.
    pub(crate) fn wait(&mut self, step: impl Into<Step>, timeout: Duration) -> Line<'_> {
        self.line(step.into(), timeout, true)
    }

    /// Writes a subject.
    pub(crate) fn deploy(&mut self, subject: impl Subject) -> Line<'_> {
        self.write(subject.step(Verb::Deploy))
    }

    /// Waits until a subject is ready.
    pub(crate) fn ready(&mut self, subject: impl Subject, timeout: Duration) -> Line<'_> {
        self.wait(subject.step(Verb::Wait), timeout)
    }

    /// Requests the deletion of a subject.
    pub(crate) fn destroy(&mut self, subject: impl Subject) -> Line<'_> {
        self.write(subject.step(Verb::Destroy))
    }

    /// Waits until a subject is gone.
    pub(crate) fn gone(&mut self, subject: impl Subject, timeout: Duration) -> Line<'_> {
        self.wait(subject.step(Verb::WaitDestroyed), timeout)
    }

    /// Checks and resolves what was written down.
    pub(crate) fn build(self) -> Result<Flow<ShootTask>, ShootFlowError> {
        let flow = self.flow.build()?;
        check_slots(&flow).map_err(ShootFlowError::NotGiven)?;
        Ok(flow)
    }
}

impl Line<'_> {
    /// The step waits for these.
    pub(crate) fn after<B: Into<Before>>(self, before: impl IntoIterator<Item = B>) -> Self {
        let way = self.way;
        let before = before.into_iter().map(|one| after(way, one.into()));
        let step = self.step.after(before.collect::<Vec<_>>());
        Self { step, way }
    }

    /// The step waits for these if `condition` holds.
    pub(crate) fn after_if<B: Into<Before>>(self, condition: bool, before: impl IntoIterator<Item = B>) -> Self {
        if condition { self.after(before) } else { self }
    }

    /// The step belongs to the group.
    pub(crate) fn in_group(self, group: &'static str) -> Self {
        let Self { step, way } = self;
        let step = step.in_group(group);
        Self { step, way }
    }
}

impl GroupLine<'_> {
    /// Each step of the group waits for these.
    pub(crate) fn after<B: Into<Before>>(self, before: impl IntoIterator<Item = B>) -> Self {
        let way = self.way;
        let before = before.into_iter().map(|one| after(way, one.into()));
        let group = self.group.after(before.collect::<Vec<_>>());
        Self { group, way }
    }
}
