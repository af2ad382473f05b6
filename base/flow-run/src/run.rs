//! The engine: which task is next, and the result of all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;

use api_meta::Fault;
use base_clock::Clock;
use base_flow::{Flow, Name, Node, Progress};
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio_util::sync::CancellationToken;

use crate::attempt::{TaskContext, attempts};
use crate::waits::reporting;
use crate::{Event, FlowEnd, Planned, What};

/// What a run needs beside flow and executor.
#[derive(Clone, Debug)]
pub struct Options {
    /// Times of events.
    pub clock: Clock,
    /// Ends the run at once: the token of running tasks is cancelled, and they are dropped at their next await.
    pub cancel: CancellationToken,
    /// Ends the run at a task boundary: nothing new starts, waits and pauses between tries end,
    /// other running tasks finish their try.
    pub interrupt: CancellationToken,
    /// Names of the tasks that failed in the run before.
    pub failed_before: BTreeSet<String>,
}

impl Options {
    /// Options of a run that is not stopped and had no failure before.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self {
            clock,
            cancel: CancellationToken::new(),
            interrupt: CancellationToken::new(),
            failed_before: BTreeSet::new(),
        }
    }
}

/// The fault of one task.
#[derive(Debug)]
pub struct TaskError<T> {
    /// The task.
    pub task: T,
    /// What went wrong.
    pub fault: Fault,
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome<T> {
    /// How it ended.
    pub end: FlowEnd,
    /// The fault of each failed task, in the order of the task enum.
    pub errors: Vec<TaskError<T>>,
    /// Counts and names, as of the end.
    pub progress: Progress<T>,
}

/// Runs the flow to its end. `execute` does one try of one task; `on_event` is called with every event and the progress
/// as of that event, in order and never concurrently.
///
/// All tasks run concurrently inside this one future: dropping it drops them.
pub async fn run<T, F, Fut>(
    flow: &Flow<T>,
    options: &Options,
    execute: F,
    mut on_event: impl FnMut(&Event, &Progress<T>),
) -> Outcome<T>
where
    T: Copy + Ord + Name,
    F: Fn(T, TaskContext) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    // Retries and waits are reported from inside the tasks' futures; the channel brings them into the one ordered stream.
    let (inside, mut from_inside) = tokio::sync::mpsc::unbounded_channel();
    let mut state = State::new(flow, options, &mut on_event);
    let mut running = FuturesUnordered::new();
    let mut end = None;
    state.start();
    loop {
        if end.is_none() {
            for task in state.ready() {
                state.report(
                    What::TaskStarted {
                        task: task.name().to_owned(),
                    },
                    |progress| progress.start(task),
                );
                running.push(run_task(flow, options, task, &execute, inside.clone()));
            }
        }
        if running.is_empty() {
            break;
        }
        tokio::select! {
            biased;
            () = options.cancel.cancelled() => {
                end = Some(FlowEnd::Cancelled);
                break;
            }
            Some(what) = from_inside.recv() => state.report(what, |_| ()),
            Some((task, result)) = running.next() => {
                while let Ok(what) = from_inside.try_recv() {
                    state.report(what, |_| ());
                }
                state.ended(task, result);
            }
            () = options.interrupt.cancelled(), if end.is_none() => end = Some(FlowEnd::Interrupted),
        }
    }
    drop(running);
    // The last task may have ended by the interrupt before the interrupt itself was noticed.
    let end = end.or_else(|| options.interrupt.is_cancelled().then_some(FlowEnd::Interrupted));
    state.finish(end)
}

/// One task to its end; `None`: it was stopped while it waited, for others or for its next try.
async fn run_task<T, F, Fut>(
    flow: &Flow<T>,
    options: &Options,
    task: T,
    execute: &F,
    events: tokio::sync::mpsc::UnboundedSender<What>,
) -> (T, Option<Result<(), Fault>>)
where
    T: Copy + Ord + Name,
    F: Fn(T, TaskContext) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    let settings = flow.step(task).expect("only tasks of the flow are started").settings();
    let work = attempts(
        settings,
        options.cancel.child_token(),
        &options.interrupt,
        |context| execute(task, context),
        |count, fault, wait| {
            // The receiver lives as long as the run; if it is gone, the event has no receiver.
            let _ = events.send(What::TaskRetried {
                task: task.name().to_owned(),
                attempts: count,
                error: fault.chain(),
                wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
        },
    );
    let work = reporting(task.name(), events.clone(), work);
    if !settings.waits {
        return (task, work.await);
    }
    tokio::select! {
        biased;
        result = work => (task, result),
        () = options.interrupt.cancelled() => (task, None),
    }
}

fn planned<T: Name>((task, after): (T, Vec<T>)) -> Planned {
    Planned {
        task: task.name().to_owned(),
        after: after.iter().map(|earlier| earlier.name().to_owned()).collect(),
    }
}

struct State<'a, T, S> {
    flow: &'a Flow<T>,
    options: &'a Options,
    on_event: S,
    progress: Progress<T>,
    /// What each node still waits for.
    waiting: BTreeMap<Node<T>, BTreeSet<Node<T>>>,
    errors: BTreeMap<T, Fault>,
}

impl<'a, T, S> State<'a, T, S>
where
    T: Copy + Ord + Name,
    S: FnMut(&Event, &Progress<T>),
{
    fn new(flow: &'a Flow<T>, options: &'a Options, on_event: S) -> Self {
        let waiting = flow.edges().clone();
        Self {
            flow,
            options,
            on_event,
            progress: Progress::new(flow),
            waiting,
            errors: BTreeMap::new(),
        }
    }

    fn start(&mut self) {
        let skipped: Vec<_> = self
            .flow
            .steps()
            .filter_map(|step| Some((step.task(), step.skipped()?)))
            .collect();
        let plan: Vec<Planned> = self.flow.work().into_iter().map(planned).collect();
        self.report(
            What::FlowStarted {
                tasks: plan.len(),
                skipped: skipped.len(),
                plan,
            },
            |_| (),
        );
        for (task, reason) in skipped {
            let what = What::TaskSkipped {
                task: task.name().to_owned(),
                reason: reason.to_owned(),
            };
            self.report(what, |_| ());
        }
    }

    /// Takes out the tasks that may start now. Sync points and skipped tasks are done on the way.
    fn ready(&mut self) -> Vec<T> {
        let mut tasks = Vec::new();
        loop {
            let free: Vec<Node<T>> = self
                .waiting
                .iter()
                .filter(|(_, before)| before.is_empty())
                .map(|(node, _)| *node)
                .collect();
            let mut passed = false;
            for node in free {
                self.waiting.remove(&node);
                match node {
                    Node::Task(task) if !self.skips(task) => tasks.push(task),
                    Node::Task(_) | Node::SyncPoint(_) => {
                        self.done(node);
                        passed = true;
                    }
                }
            }
            if !passed {
                return tasks;
            }
        }
    }

    fn skips(&self, task: T) -> bool {
        self.flow.step(task).is_some_and(|step| step.skipped().is_some())
    }

    fn done(&mut self, node: Node<T>) {
        for before in self.waiting.values_mut() {
            before.remove(&node);
        }
    }

    fn ended(&mut self, task: T, result: Option<Result<(), Fault>>) {
        let name = task.name().to_owned();
        match result {
            Some(Ok(())) => {
                self.done(Node::Task(task));
                let failed_before = self.options.failed_before.contains(&name);
                self.report(
                    What::TaskSucceeded {
                        task: name,
                        failed_before,
                    },
                    |progress| progress.succeed(task),
                );
            }
            Some(Err(fault)) => {
                let codes = fault.codes.iter().map(ToString::to_string).collect();
                let what = What::TaskFailed {
                    task: name,
                    error: fault.chain(),
                    codes,
                };
                self.errors.insert(task, fault);
                self.report(what, |progress| progress.fail(task));
            }
            None => self.report(What::TaskStopped { task: name }, |progress| progress.stop(task)),
        }
    }

    fn report(&mut self, what: What, change: impl FnOnce(&mut Progress<T>)) {
        change(&mut self.progress);
        let event = Event {
            time: self.options.clock.now(),
            flow: self.flow.name().to_owned(),
            what,
        };
        (self.on_event)(&event, &self.progress);
    }

    fn finish(mut self, stopped: Option<FlowEnd>) -> Outcome<T> {
        let left: Vec<T> = self.progress.running().collect();
        for task in left {
            self.ended(task, None);
        }
        let all_done = self.waiting.is_empty() && self.errors.is_empty();
        let end = match stopped {
            // An interrupt that came when nothing was left to start has interrupted nothing.
            Some(FlowEnd::Interrupted) | None if all_done && self.all_succeeded() => FlowEnd::Succeeded,
            Some(end) => end,
            None => FlowEnd::Failed,
        };
        self.report(What::FlowFinished { end }, Progress::finish);
        let errors = self
            .errors
            .into_iter()
            .map(|(task, fault)| TaskError { task, fault })
            .collect();
        Outcome {
            end,
            errors,
            progress: self.progress,
        }
    }

    fn all_succeeded(&self) -> bool {
        let done: BTreeSet<T> = self.progress.succeeded().collect();
        self.flow
            .steps()
            .all(|step| step.skipped().is_some() || done.contains(&step.task()))
    }
}
