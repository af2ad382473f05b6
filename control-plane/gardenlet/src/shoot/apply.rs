//! Runs a shoot's flow and shows how far it is. What a task does stands in `task/`; what is to be done was decided
//! before.

use std::collections::BTreeSet;

use base_flow::{Flow, Name, Progress};
use base_flow_run::{Event, Options, Outcome, Try, What};
use control_plane_shoot_flow::ShootTask;
use futures::FutureExt;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::operation::Operation;
use super::report::{Step, progressed};
use super::task;

/// What the owner is shown of a run.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shown {
    percent: i32,
    description: String,
    running: Vec<String>,
    cleaned: Vec<String>,
}

/// Runs the flow to its end, or until `interrupt`. `failed_before`: the tasks in the shoot's `lastErrors`.
pub(crate) async fn run_flow(
    operation: &Operation,
    flow: &Flow<ShootTask>,
    failed_before: BTreeSet<String>,
    interrupt: CancellationToken,
) -> Outcome<ShootTask> {
    let (show, shown) = watch::channel(Shown::default());
    let options = Options {
        interrupt,
        failed_before,
        ..Options::new(operation.context.clock.clone())
    };
    let subject = format!("{}/{}", operation.shoot.garden_namespace, operation.shoot.name);
    let subscribe = |event: &Event, progress: &Progress<ShootTask>| {
        log(operation, event);
        operation.context.config.feed.send(&subject, event);
        // Waits change nothing of the progress; long ones are reported by `Waiting`.
        if let What::TaskWaits { .. } | What::TaskWaitOver { .. } = event.what {
            return;
        }
        show.send_modify(|shown| {
            shown.percent = progress.percent();
            shown.description = progress.description();
            shown.running = progress.running().map(|task| task.name().to_owned()).collect();
            if let What::TaskSucceeded {
                task,
                failed_before: true,
            } = &event.what
            {
                shown.cleaned.push(task.clone());
            }
        });
    };
    let running = base_flow_run::run(
        flow,
        &options,
        |task, context| {
            let attempt = context.attempt;
            let one = || Try {
                subject: subject.clone(),
                flow: flow.name().to_owned(),
                task: task.name(),
                attempt,
            };
            let work = move || task::execute(operation, task, context.clone());
            operation.context.config.task_layer.around(one, work)
        },
        subscribe,
    );
    tokio::select! {
        biased;
        outcome = running.boxed() => outcome,
        never = report(operation, shown) => match never {},
    }
}

/// Writes what is to be shown, with what has been waited for long; what comes while a write is under way is written
/// together with the next.
async fn report(operation: &Operation, mut shown: watch::Receiver<Shown>) -> std::convert::Infallible {
    loop {
        tokio::select! {
            biased;
            changed = shown.changed() => {
                if changed.is_err() {
                    return std::future::pending().await;
                }
            }
            () = operation.waiting.changed() => {}
        }
        let Shown {
            percent,
            description,
            running,
            cleaned,
        } = shown.borrow_and_update().clone();
        let step = Step {
            percent,
            description,
            waits: operation.waiting.long(&running),
            running,
            succeeded: cleaned,
        };
        let now = operation.context.clock.now();
        let written = operation
            .status
            .report(|status, report| progressed(status, report, &step, now))
            .await;
        if let Err(fault) = written {
            // Progress is for the reader only: the run goes on, and its end is written with all errors.
            tracing::debug!(
                shoot = operation.shoot.namespace,
                "progress is not written: {}",
                fault.chain()
            );
        }
    }
}

fn log(operation: &Operation, event: &Event) {
    let shoot = operation.shoot.namespace.as_str();
    match &event.what {
        // The controller logs it with its next try, and gardenlet when it is given up: each error once.
        What::TaskFailed { task, error, .. } => tracing::debug!(shoot, task, "{error}"),
        What::TaskRetried {
            task, error, attempts, ..
        } => tracing::debug!(shoot, task, attempts, "{error}"),
        What::FlowStarted { tasks, skipped, .. } => tracing::info!(shoot, tasks, skipped, "{} begins", event.flow),
        What::FlowFinished { end } => tracing::info!(shoot, ?end, "{} ends", event.flow),
        What::TaskStarted { task } => tracing::debug!(shoot, task, "begins"),
        What::TaskSucceeded { task, .. } => tracing::debug!(shoot, task, "done"),
        What::TaskWaits { task, object, reason } => tracing::debug!(shoot, task, object, "waits: {reason}"),
        What::TaskWaitOver { task, object } => tracing::trace!(shoot, task, object, "waits no longer"),
        What::TaskSkipped { task, reason } => tracing::trace!(shoot, task, reason, "skipped"),
        What::TaskStopped { task } => tracing::debug!(shoot, task, "stopped"),
    }
}
