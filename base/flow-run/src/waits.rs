//! What a task waits for, reported by the task itself from wherever it waits. Outside of a run the report is dropped.

use tokio::sync::mpsc::UnboundedSender;

use crate::What;

tokio::task_local! {
    /// The task that reports: set around each poll of a task, so that helpers below need no handle.
    static SPEAKER: Speaker;
}

#[derive(Clone, Debug)]
struct Speaker {
    task: &'static str,
    events: UnboundedSender<What>,
}

/// Makes the waits that `work` reports events of `task`.
pub(crate) async fn heard<F: Future>(task: &'static str, events: UnboundedSender<What>, work: F) -> F::Output {
    SPEAKER.scope(Speaker { task, events }, work).await
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
    SPEAKER.try_with(|speaker| speaker.task).ok()
}

fn send_event(what: impl FnOnce(String) -> What) {
    // Outside of a run there is no speaker; at its very end there is no receiver.
    let _ = SPEAKER.try_with(|speaker| speaker.events.send(what(speaker.task.to_owned())));
}
