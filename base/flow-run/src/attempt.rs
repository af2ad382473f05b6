//! One task until it is done, has failed for good, or its time is up.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use api_meta::{Fault, FaultClass, panic_text};
use base_flow::TaskSettings;
use futures::FutureExt;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// What a task knows about its run.
#[derive(Clone, Debug)]
pub struct TaskContext {
    /// Which try this is, from 1.
    pub attempt: u32,
    /// When the task's time is up, for waits that report themselves what they waited for.
    pub deadline: Option<Instant>,
    /// Cancelled when the whole run is: work that must end in order can watch it; the rest is simply dropped.
    pub stop: CancellationToken,
}

/// A task was still at work when its time was up.
#[derive(Debug, thiserror::Error)]
#[error("not finished within {}s", .within.as_secs_f64())]
pub struct NotFinished {
    /// The task's time-out.
    pub within: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("task panicked: {0}")]
struct Panicked(String);

/// How much longer than its time-out a wait may take: enough for it to end by itself with what it waited for.
const WAIT_GRACE: Duration = Duration::from_secs(2);

/// Whether trying again inside the same run can help. A wrong specification, missing rights or a defect of ours will
/// not go away within a task's time-out; quotas and rate limits are left to the much longer waits between runs. A wait
/// ends by itself when others take too long: it is retried only when its watch broke.
fn may_pass(settings: TaskSettings, fault: &Fault) -> bool {
    match fault.class {
        FaultClass::Transient | FaultClass::Dependency if settings.waits => {
            fault.class == FaultClass::Transient && fault.codes.is_empty()
        }
        FaultClass::Transient | FaultClass::Dependency => fault.retryable(),
        FaultClass::User | FaultClass::Quota | FaultClass::Access | FaultClass::Bug => false,
    }
}

/// Tries until success, a fault that will not pass, or the time-out; `None`: interrupted between two tries.
/// `on_retry(attempts, fault, wait)` is called for each failed try that another one will follow.
pub(crate) async fn attempts<F, Fut>(
    settings: TaskSettings,
    stop: CancellationToken,
    interrupt: &CancellationToken,
    mut task: F,
    mut on_retry: impl FnMut(u32, &Fault, Duration),
) -> Option<Result<(), Fault>>
where
    F: FnMut(TaskContext) -> Fut,
    Fut: Future<Output = Result<(), Fault>>,
{
    let deadline = settings.timeout.map(|timeout| Instant::now() + timeout);
    let grace = if settings.waits { WAIT_GRACE } else { Duration::ZERO };
    let mut attempt = 0;
    let mut last: Option<Fault> = None;
    loop {
        attempt += 1;
        let context = TaskContext {
            attempt,
            deadline,
            stop: stop.clone(),
        };
        // The call itself is inside the block: a closure that panics before its first await is caught as well.
        let once = AssertUnwindSafe(async { task(context).await }).catch_unwind();
        let outcome = match deadline {
            // The last fault explains more than "not finished": it is what the tries ended with.
            Some(at) => match timeout_at(at + grace, once).await {
                Ok(outcome) => outcome,
                Err(_) => return Some(Err(last.unwrap_or_else(|| not_finished(settings)))),
            },
            None => once.await,
        };
        let fault = match outcome {
            Ok(Ok(())) => return Some(Ok(())),
            Ok(Err(fault)) => fault,
            Err(panic) => Fault::new(FaultClass::Bug, Panicked(panic_text(panic.as_ref()).to_owned()))
                .hint("report this as a defect, with the log of this process"),
        };
        let (Some(backoff), true) = (settings.retry, may_pass(settings, &fault)) else {
            return Some(Err(fault));
        };
        let wait = backoff.wait_after(attempt);
        if deadline.is_some_and(|at| Instant::now() + wait >= at) {
            return Some(Err(fault));
        }
        on_retry(attempt, &fault, wait);
        last = Some(fault);
        tokio::select! {
            biased;
            () = interrupt.cancelled() => return None,
            () = tokio::time::sleep(wait) => {}
        }
    }
}

fn not_finished(settings: TaskSettings) -> Fault {
    let within = settings.timeout.unwrap_or_default();
    Fault::new(FaultClass::Dependency, NotFinished { within })
        .hint("look at the objects this task works on; it is tried again with the next reconcile")
}
