//! The graph: a builder in which flows read like the table they come from, the checks, and the checked result.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::{Backoff, Name, TaskSettings};

/// What a task may wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum After<T> {
    /// One task.
    Task(T),
    /// Every task of a group.
    Group(&'static str),
    /// A sync point.
    SyncPoint(&'static str),
}

impl<T> From<T> for After<T> {
    fn from(task: T) -> Self {
        Self::Task(task)
    }
}

/// Every task of the group `name`.
#[must_use]
pub fn group<T>(name: &'static str) -> After<T> {
    After::Group(name)
}

/// The sync point `name`.
#[must_use]
pub fn sync_point<T>(name: &'static str) -> After<T> {
    After::SyncPoint(name)
}

/// Why a graph is not a flow. All of these are mistakes in the code that built it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FlowError {
    /// One task, group or sync point was defined twice, or two tasks share a name.
    #[error("{0} is defined twice")]
    Duplicate(String),
    /// Something waits for what is not in the flow.
    #[error("{waiting} waits for {missing}, which is not in the flow")]
    Unknown {
        /// What waits.
        waiting: String,
        /// What it waits for.
        missing: String,
    },
    /// A group without tasks: waiting for it would mean nothing.
    #[error("group {0} has no tasks")]
    EmptyGroup(String),
    /// Tasks that wait for each other, in order; the first is repeated at the end.
    #[error("tasks wait for each other: {}", .0.join(" -> "))]
    Cycle(Vec<String>),
}

/// A place in the graph: work, or a point where branches meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Node<T> {
    /// Work.
    Task(T),
    /// A point where branches meet; done as soon as everything it waits for is done.
    SyncPoint(&'static str),
}

/// One task of a checked flow.
#[derive(Clone, Debug)]
pub struct Step<T> {
    pub(crate) task: T,
    pub(crate) group: Option<&'static str>,
    pub(crate) skipped: Option<&'static str>,
    pub(crate) settings: TaskSettings,
    pub(crate) after: Vec<After<T>>,
}

impl<T: Copy> Step<T> {
    /// The task.
    pub fn task(&self) -> T {
        self.task
    }

    /// The group the task belongs to.
    pub fn group(&self) -> Option<&'static str> {
        self.group
    }

    /// Why the task is skipped; `None`: it is not.
    pub fn skipped(&self) -> Option<&'static str> {
        self.skipped
    }

    /// How it is to be tried.
    pub fn settings(&self) -> TaskSettings {
        self.settings
    }

    /// What it waits for, as declared (without what its group waits for).
    pub fn after(&self) -> &[After<T>] {
        &self.after
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Item<T> {
    Step(Step<T>),
    SyncPoint { name: &'static str, after: Vec<After<T>> },
}

#[derive(Clone, Debug)]
pub(crate) struct Group<T> {
    pub(crate) name: &'static str,
    pub(crate) after: Vec<After<T>>,
}

/// A checked task graph: every name is known, nothing waits for itself.
#[derive(Clone, Debug)]
pub struct Flow<T> {
    pub(crate) name: String,
    pub(crate) groups: Vec<Group<T>>,
    pub(crate) items: Vec<Item<T>>,
    /// Resolved: each node with the nodes it waits for, groups expanded.
    pub(crate) edges: BTreeMap<Node<T>, BTreeSet<Node<T>>>,
}

impl<T: Copy + Ord + Name> Flow<T> {
    /// Starts a flow called `name`, as in "`name` finished".
    pub fn builder(name: impl Into<String>) -> FlowBuilder<T> {
        FlowBuilder {
            name: name.into(),
            groups: Vec::new(),
            items: Vec::new(),
        }
    }

    /// The flow's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All tasks, skipped ones included, in the order of their definition.
    pub fn steps(&self) -> impl Iterator<Item = &Step<T>> {
        self.items.iter().filter_map(|item| match item {
            Item::Step(step) => Some(step),
            Item::SyncPoint { .. } => None,
        })
    }

    /// One task of the flow.
    #[must_use]
    pub fn step(&self, task: T) -> Option<&Step<T>> {
        self.steps().find(|step| step.task == task)
    }

    /// All nodes with the nodes they wait for directly, groups expanded.
    #[must_use]
    pub fn edges(&self) -> &BTreeMap<Node<T>, BTreeSet<Node<T>>> {
        &self.edges
    }

    /// Whether `later` cannot start before `earlier` is done (skipped tasks keep their place in the order).
    #[must_use]
    pub fn precedes(&self, earlier: T, later: T) -> bool {
        self.reaches(Node::Task(earlier), Node::Task(later))
    }

    /// The same without the edge by which `later` waits for `earlier`: for a check that the edge is needed. It prints as
    /// before.
    #[must_use]
    pub fn without(&self, earlier: Node<T>, later: Node<T>) -> Self
    where
        T: Clone,
    {
        let mut mutant = self.clone();
        if let Some(before) = mutant.edges.get_mut(&later) {
            before.remove(&earlier);
        }
        mutant
    }

    /// Whether `later` cannot start before `earlier` is done.
    #[must_use]
    pub fn reaches(&self, earlier: Node<T>, later: Node<T>) -> bool {
        let mut open = vec![later];
        let mut seen = BTreeSet::new();
        while let Some(node) = open.pop() {
            for before in self.edges.get(&node).into_iter().flatten() {
                if *before == earlier {
                    return true;
                }
                if seen.insert(*before) {
                    open.push(*before);
                }
            }
        }
        false
    }
}

/// Collects tasks, groups and sync points; `build` checks them. References may point forward.
#[derive(Debug)]
pub struct FlowBuilder<T> {
    name: String,
    groups: Vec<Group<T>>,
    items: Vec<Item<T>>,
}

impl<T: Copy + Ord + Name> FlowBuilder<T> {
    /// Defines a group; what it waits for, each of its tasks waits for.
    pub fn group(&mut self, name: &'static str) -> GroupBuilder<'_, T> {
        self.groups.push(Group {
            name,
            after: Vec::new(),
        });
        GroupBuilder {
            group: self.groups.last_mut().expect("a group was just pushed"),
        }
    }

    /// Defines a task.
    pub fn task(&mut self, task: T) -> StepBuilder<'_, T> {
        self.items.push(Item::Step(Step {
            task,
            group: None,
            skipped: None,
            settings: TaskSettings::default(),
            after: Vec::new(),
        }));
        let Some(Item::Step(step)) = self.items.last_mut() else {
            unreachable!("a step was just pushed")
        };
        StepBuilder { step }
    }

    /// Defines a sync point that waits for `after`.
    pub fn sync_point<A: Into<After<T>>>(&mut self, name: &'static str, after: impl IntoIterator<Item = A>) {
        self.items.push(Item::SyncPoint {
            name,
            after: after.into_iter().map(Into::into).collect(),
        });
    }

    /// Checks and resolves the graph.
    ///
    /// # Errors
    /// Duplicates, references to nothing, empty groups, cycles: see [`FlowError`].
    pub fn build(self) -> Result<Flow<T>, FlowError> {
        self.check_duplicates()?;
        let members = self.members()?;
        let mut edges: BTreeMap<Node<T>, BTreeSet<Node<T>>> = BTreeMap::new();
        let known: BTreeSet<Node<T>> = self.items.iter().map(node_of).collect();
        for item in &self.items {
            let node = node_of(item);
            let (own, inherited) = match item {
                Item::Step(step) => (
                    &step.after,
                    self.groups.iter().find(|group| step.group == Some(group.name)),
                ),
                Item::SyncPoint { after, .. } => (after, None),
            };
            let mut before = BTreeSet::new();
            for after in own.iter().chain(inherited.into_iter().flat_map(|group| &group.after)) {
                let targets = match after {
                    After::Task(task) => vec![Node::Task(*task)],
                    After::SyncPoint(name) => vec![Node::SyncPoint(name)],
                    After::Group(name) => members.get(name).cloned().unwrap_or_default(),
                };
                if targets.is_empty() || targets.iter().any(|target| !known.contains(target)) {
                    return Err(FlowError::Unknown {
                        waiting: title(&node),
                        missing: title_of_after(after),
                    });
                }
                before.extend(targets);
            }
            edges.insert(node, before);
        }
        check_cycles(&edges)?;
        Ok(Flow {
            name: self.name,
            groups: self.groups,
            items: self.items,
            edges,
        })
    }

    fn check_duplicates(&self) -> Result<(), FlowError> {
        let mut nodes = BTreeSet::new();
        let mut names = BTreeSet::new();
        for item in &self.items {
            let node = node_of(item);
            let fresh_name = match node {
                Node::Task(task) => names.insert(task.name()),
                Node::SyncPoint(_) => true,
            };
            if !nodes.insert(node) || !fresh_name {
                return Err(FlowError::Duplicate(title(&node)));
            }
        }
        let mut groups = BTreeSet::new();
        match self.groups.iter().find(|group| !groups.insert(group.name)) {
            Some(group) => Err(FlowError::Duplicate(format!("[{}]", group.name))),
            None => Ok(()),
        }
    }

    fn members(&self) -> Result<BTreeMap<&'static str, Vec<Node<T>>>, FlowError> {
        let mut members: BTreeMap<&'static str, Vec<Node<T>>> =
            self.groups.iter().map(|group| (group.name, Vec::new())).collect();
        for item in &self.items {
            if let Item::Step(Step {
                task,
                group: Some(name),
                ..
            }) = item
            {
                let Some(tasks) = members.get_mut(name) else {
                    return Err(FlowError::Unknown {
                        waiting: title(&Node::Task(*task)),
                        missing: format!("[{name}]"),
                    });
                };
                tasks.push(Node::Task(*task));
            }
        }
        match members.iter().find(|(_, tasks)| tasks.is_empty()) {
            Some((name, _)) => Err(FlowError::EmptyGroup(format!("[{name}]"))),
            None => Ok(members),
        }
    }
}

/// Settings of a group.
#[derive(Debug)]
pub struct GroupBuilder<'a, T> {
    group: &'a mut Group<T>,
}

impl<T> GroupBuilder<'_, T> {
    /// Each task of the group also waits for these.
    pub fn after<A: Into<After<T>>>(self, after: impl IntoIterator<Item = A>) -> Self {
        self.group.after.extend(after.into_iter().map(Into::into));
        self
    }
}

/// Settings of a task.
#[derive(Debug)]
pub struct StepBuilder<'a, T> {
    step: &'a mut Step<T>,
}

impl<T> StepBuilder<'_, T> {
    /// The task waits for these.
    pub fn after<A: Into<After<T>>>(self, after: impl IntoIterator<Item = A>) -> Self {
        self.step.after.extend(after.into_iter().map(Into::into));
        self
    }

    /// The task waits for these only if `condition` holds.
    pub fn after_if<A: Into<After<T>>>(self, condition: bool, after: impl IntoIterator<Item = A>) -> Self {
        if condition { self.after(after) } else { self }
    }

    /// The task belongs to the group.
    pub fn in_group(self, group: &'static str) -> Self {
        self.step.group = Some(group);
        self
    }

    /// The task is skipped for this reason if `condition` holds; the first reason that holds is kept.
    pub fn skip_if(self, condition: bool, reason: &'static str) -> Self {
        if condition && self.step.skipped.is_none() {
            self.step.skipped = Some(reason);
        }
        self
    }

    /// All tries together may take this long.
    pub fn timeout(self, timeout: Duration) -> Self {
        self.step.settings.timeout = Some(timeout);
        self
    }

    /// Faults that may pass are tried again.
    pub fn retry(self, backoff: Backoff) -> Self {
        self.step.settings.retry = Some(backoff);
        self
    }

    /// The task only waits: an interrupt stops it at once.
    pub fn waits(self) -> Self {
        self.step.settings.waits = true;
        self
    }
}

fn node_of<T: Copy>(item: &Item<T>) -> Node<T> {
    match item {
        Item::Step(step) => Node::Task(step.task),
        Item::SyncPoint { name, .. } => Node::SyncPoint(name),
    }
}

pub(crate) fn title<T: Name>(node: &Node<T>) -> String {
    match node {
        Node::Task(task) => task.name().to_owned(),
        Node::SyncPoint(name) => format!("({name})"),
    }
}

pub(crate) fn title_of_after<T: Name>(after: &After<T>) -> String {
    match after {
        After::Task(task) => task.name().to_owned(),
        After::Group(name) => format!("[{name}]"),
        After::SyncPoint(name) => format!("({name})"),
    }
}

/// Takes away nodes that wait for nothing until none is left; what cannot be taken away contains a cycle.
fn check_cycles<T: Copy + Ord + Name>(edges: &BTreeMap<Node<T>, BTreeSet<Node<T>>>) -> Result<(), FlowError> {
    let mut rest = edges.clone();
    loop {
        let free: Vec<Node<T>> = rest
            .iter()
            .filter(|(_, before)| before.is_empty())
            .map(|(node, _)| *node)
            .collect();
        if free.is_empty() {
            break;
        }
        for node in &free {
            rest.remove(node);
        }
        for before in rest.values_mut() {
            before.retain(|node| !free.contains(node));
        }
    }
    let Some((start, _)) = rest.first_key_value() else {
        return Ok(());
    };
    // Every node of the rest waits for a node of the rest: walking on must come back to a node already met.
    let mut path = vec![*start];
    loop {
        let last = path.last().expect("the path is never empty");
        let next = *rest[last].first().expect("nodes of the rest wait for something");
        if let Some(at) = path.iter().position(|node| *node == next) {
            let mut cycle: Vec<String> = path[at..].iter().map(title).collect();
            cycle.push(title(&next));
            return Err(FlowError::Cycle(cycle));
        }
        path.push(next);
    }
}
