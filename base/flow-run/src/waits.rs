//! What a task waits for, reported by the task itself from wherever it waits. Outside of a run the report is dropped.

use tokio::sync::mpsc::UnboundedSender;

use crate::What;

tokio::task_local! {
    /// The task that reports: set around each poll of a task, so that helpers below need no handle.
    static REPORTER: Reporter;
}

#[derive(Clone, Debug)]
struct Reporter {
    task: &'static str,
    events: UnboundedSender<What>,
}

/// Makes the waits that `work` reports events of `task`.
pub(crate) async fn reporting<F: Future>(task: &'static str, events: UnboundedSender<What>, work: F) -> F::Output {
    REPORTER.scope(Reporter { task, events }, work).await
}

/// The running task waits for `object` ("Kind namespace/name"), because of `reason`.
pub fn waits_for(object: &str, reason: &str) {
    send_event(|task| What::TaskWaits {
        task,
        object: object.to_owned(),
        reason: reason.to_owned(),
    });
}

/// The running task no longer waits for `object`.
pub fn wait_over(object: &str) {
    send_event(|task| What::TaskWaitOver {
        task,
        object: object.to_owned(),
    });
}

/// The name of the running task; nothing outside of a run.
pub fn current_task() -> Option<&'static str> {
    REPORTER.try_with(|reporter| reporter.task).ok()
}

fn send_event(what: impl FnOnce(String) -> What) {
    // Outside of a run there is no reporter; at its very end there is no receiver.
    let _ = REPORTER.try_with(|reporter| reporter.events.send(what(reporter.task.to_owned())));
}
