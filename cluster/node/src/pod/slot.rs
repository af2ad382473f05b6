//! One container of a pod over all its runs: what it does now, how the last run ended, when the next may start. Pure.

use std::sync::Arc;
use std::time::Duration;

use base_clock::Clock;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated, ContainerStateWaiting, ContainerStatus,
    Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::probe::Probes;
use crate::context::{Ending, Left};
use crate::log::Log;
use crate::{Commands, EXIT_KILLED, Exit, LogWriter, PodNetwork, ReadySwitch, image_name};

/// The first pause before a restart; the restart after the first crash of a fresh container is immediate
/// (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet.go, container back-off).
const BACKOFF_MIN: Duration = Duration::from_secs(10);
/// The longest pause.
const BACKOFF_MAX: Duration = Duration::from_secs(300);
/// A run of this length forgives the crashes before it: twice the longest pause.
const BACKOFF_FORGIVEN_AFTER: Duration = Duration::from_secs(600);

/// How much of a log becomes a termination message (kubernetes/kubernetes v1.35 pkg/kubelet/container/runtime.go,
/// MaxContainerTerminationMessageLogLines and -LogLength).
const TERMINATION_LOG_LINES_MAX: usize = 80;
const TERMINATION_LOG_BYTES_MAX: usize = 2 << 10;

/// When a container is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    Always,
    OnFailure,
    Never,
}

impl Restart {
    /// The policy of a pod's ordinary containers.
    pub(crate) fn of(pod: &Pod) -> Self {
        match pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) {
            Some("Never") => Restart::Never,
            Some("OnFailure") => Restart::OnFailure,
            _ => Restart::Always,
        }
    }

    fn after(self, code: i32) -> bool {
        match self {
            Restart::Always => true,
            Restart::OnFailure => code != 0,
            Restart::Never => false,
        }
    }
}

/// What a container does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Doing {
    /// Not running, with reason and message; it may start at the instant, or now when there is none.
    Waiting {
        reason: &'static str,
        message: String,
        until: Option<Instant>,
    },
    /// Running since.
    Running(Timestamp),
    /// Over, and not to be started again.
    Over(ContainerStateTerminated),
}

/// What the image of a container supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ImageTraits {
    /// Its probes are run.
    pub(crate) probed: bool,
    /// Commands run in it.
    pub(crate) commands: bool,
}

/// What the node holds of a running container.
pub(crate) struct Run {
    pub(crate) stop: CancellationToken,
    pub(crate) ready: ReadySwitch,
    /// None for a simulated container: there is no task.
    pub(crate) task: Option<AbortHandle>,
    pub(crate) network: Option<PodNetwork>,
    pub(crate) killed: bool,
    pub(crate) started: Instant,
    pub(crate) probes: Probes,
    /// Which run of the container it is.
    pub(crate) number: u64,
    /// It was asked to stop, and is killed then.
    pub(crate) kill_at: Option<Instant>,
    /// Its hook after the start has not ended.
    pub(crate) in_post_start: bool,
    /// It stops because a probe failed, and is started again whatever its code is.
    pub(crate) unhealthy: bool,
    pub(crate) traits: ImageTraits,
    pub(crate) commands: Commands,
    pub(crate) ending: Ending,
}

impl Run {
    /// A run that begins now.
    pub(crate) fn new(container: &Container, traits: ImageTraits, ready: ReadySwitch, number: u64) -> Self {
        let now = Instant::now();
        Run {
            stop: CancellationToken::new(),
            ready,
            task: None,
            network: None,
            killed: false,
            started: now,
            probes: Probes::new(container, traits, now),
            number,
            kill_at: None,
            in_post_start: false,
            unhealthy: false,
            traits,
            commands: Commands::new(),
            ending: Ending::default(),
        }
    }

    /// When something happens to it by itself.
    fn due_at(&self) -> Option<Instant> {
        match self.kill_at {
            Some(at) => Some(at).filter(|_| !self.killed),
            None => self.probes.due_at().filter(|_| !self.in_post_start),
        }
    }
}

/// One container of a pod.
pub(crate) struct Slot {
    pub(crate) container: Container,
    pub(crate) restart: Restart,
    pub(crate) doing: Doing,
    pub(crate) last: Option<ContainerStateTerminated>,
    pub(crate) restarts: i32,
    pub(crate) run: Option<Run>,
    /// The log of the present run, or of the last one.
    pub(crate) log: Option<Arc<Log>>,
    /// The log of the run before.
    pub(crate) previous: Option<Arc<Log>>,
    /// Whether it is among the init containers.
    pub(crate) init: bool,
    /// An init container that goes on running.
    pub(crate) sidecar: bool,
    /// Added while the pod was there: it starts at once, once, and counts for nothing.
    pub(crate) ephemeral: bool,
    backoff: Duration,
}

impl Slot {
    /// A container that has not run on this node, with what its status reports of earlier runs: one that was running is
    /// lost, because containers do not outlive their node's process.
    pub(crate) fn new(container: Container, policy: Restart, init: bool, seen: Option<&ContainerStatus>) -> Self {
        let sidecar = init && container.restart_policy.as_deref() == Some("Always");
        let restart = match policy {
            _ if sidecar => Restart::Always,
            Restart::Always if init => Restart::OnFailure,
            policy => policy,
        };
        let mut slot = Slot {
            container,
            restart,
            doing: Doing::Waiting {
                reason: "ContainerCreating",
                message: String::new(),
                until: None,
            },
            last: None,
            restarts: 0,
            run: None,
            log: None,
            previous: None,
            init,
            sidecar,
            ephemeral: false,
            backoff: Duration::ZERO,
        };
        if let Some(seen) = seen {
            slot.adopt(seen);
        }
        slot
    }

    /// An ephemeral container, with its reported status.
    pub(crate) fn ephemeral(container: Container, seen: Option<&ContainerStatus>) -> Self {
        Slot {
            ephemeral: true,
            ..Slot::new(container, Restart::Never, false, seen)
        }
    }

    /// Whether it is an ordinary container of the pod.
    pub(crate) fn is_main(&self) -> bool {
        !self.init && !self.ephemeral
    }

    fn adopt(&mut self, seen: &ContainerStatus) {
        self.restarts = seen.restart_count;
        self.last = seen.last_state.as_ref().and_then(|state| state.terminated.clone());
        let Some(state) = &seen.state else { return };
        let ended = match (&state.running, &state.terminated) {
            (Some(running), _) => ContainerStateTerminated {
                exit_code: EXIT_KILLED,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("the node was restarted".to_owned()),
                started_at: running.started_at.clone(),
                ..ContainerStateTerminated::default()
            },
            (None, Some(terminated)) => terminated.clone(),
            (None, None) => return,
        };
        if self.restart.after(ended.exit_code) {
            self.restarts += 1;
            self.last = Some(ended);
        } else {
            self.doing = Doing::Over(ended);
        }
    }

    /// Whether it may start now.
    pub(crate) fn is_due(&self, now: Instant) -> bool {
        matches!(&self.doing, Doing::Waiting { until, .. } if until.is_none_or(|until| until <= now))
    }

    /// When it may start, if that lies ahead.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        match (&self.doing, &self.run) {
            (_, Some(run)) => run.due_at(),
            (Doing::Waiting { until, .. }, None) => *until,
            _ => None,
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.run.is_some()
    }

    /// Whether an init container lets the next one start.
    pub(crate) fn lets_next_start(&self) -> bool {
        match &self.doing {
            Doing::Over(ended) => ended.exit_code == 0,
            Doing::Running(_) => self.sidecar && self.is_started(),
            Doing::Waiting { .. } => false,
        }
    }

    /// Whether the hook after its start has not ended.
    pub(crate) fn is_in_post_start(&self) -> bool {
        self.run.as_ref().is_some_and(|run| run.in_post_start)
    }

    pub(crate) fn is_ready(&self) -> bool {
        let ready = |run: &Run| !run.in_post_start && run.probes.ready(run.ready.is_ready());
        self.run.as_ref().is_some_and(ready)
    }

    /// Whether it runs, and its startup probe has succeeded.
    fn is_started(&self) -> bool {
        let running = matches!(self.doing, Doing::Running(_));
        running
            && self
                .run
                .as_ref()
                .is_none_or(|run| !run.in_post_start && run.probes.started())
    }

    /// Whether it is over and will not be started again.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Over(_))
    }

    pub(crate) fn exit_code(&self) -> Option<i32> {
        match &self.doing {
            Doing::Over(ended) => Some(ended.exit_code),
            _ => None,
        }
    }

    /// The log of a run that begins.
    pub(crate) fn new_log(&mut self, clock: &Clock) -> LogWriter {
        let log = Log::new(clock.clone());
        self.previous = self.log.replace(log.clone());
        LogWriter::new(log)
    }

    /// Notes that it cannot start, and returns whether that is new.
    pub(crate) fn hold(&mut self, reason: &'static str, message: String) -> bool {
        self.hold_until(reason, message, None)
    }

    /// As [`Slot::hold`], until it is looked at again.
    pub(crate) fn hold_until(&mut self, reason: &'static str, message: String, until: Option<Instant>) -> bool {
        let same = |before: &Doing| matches!(before, Doing::Waiting { reason: had, message: shown, .. } if *had == reason && *shown == message);
        let is_new = !same(&self.doing);
        self.doing = Doing::Waiting { reason, message, until };
        is_new
    }

    /// Notes how a run ended. `again` is false in a pod that is being deleted. Returns the pause before the next run,
    /// if there is to be one.
    pub(crate) fn end(&mut self, exit: Exit, again: bool, clock_now: Timestamp, pod: &str) -> Option<Duration> {
        let run = self.run.take();
        let left = run.as_ref().map(|run| run.ending.left()).unwrap_or_default();
        let is_program = run.as_ref().is_some_and(|run| run.traits.commands);
        let message = self.termination_message(&exit, &left, is_program);
        if let Some(log) = &self.log {
            log.write(&exit.message);
            log.close();
        }
        let started = match &self.doing {
            Doing::Running(since) => Some(Time(*since)),
            _ => None,
        };
        let reason = if exit.code == 0 { "Completed" } else { "Error" };
        let ended = ContainerStateTerminated {
            exit_code: exit.code,
            reason: Some(left.reason.unwrap_or(reason).to_owned()),
            message: Some(message).filter(|message| !message.is_empty()),
            started_at: started,
            finished_at: Some(Time(clock_now)),
            ..ContainerStateTerminated::default()
        };
        let unhealthy = run.as_ref().is_some_and(|run| run.unhealthy) && self.restart != Restart::Never;
        let requested = run.is_some() && left.again;
        if !again || !(requested || unhealthy || self.restart.after(exit.code)) {
            self.doing = Doing::Over(ended);
            return None;
        }
        if run.is_some_and(|run| run.started.elapsed() >= BACKOFF_FORGIVEN_AFTER) {
            self.backoff = Duration::ZERO;
        }
        let pause = if requested { Duration::ZERO } else { self.backoff };
        if !requested {
            self.backoff = (pause * 2).clamp(BACKOFF_MIN, BACKOFF_MAX);
        }
        self.last = Some(ended);
        self.restarts += 1;
        let message = format!(
            "back-off {}s restarting failed container={} pod={pod}",
            pause.as_secs(),
            self.container.name
        );
        self.doing = Doing::Waiting {
            reason: "CrashLoopBackOff",
            message,
            until: Some(Instant::now() + pause),
        };
        Some(pause)
    }

    /// Why the container ended: the runtime's message, then what the container has left, or the end of its log where its policy
    /// wants that. Containers of this process have a message of their own instead of a log.
    /// (kubernetes/kubernetes v1.35 pkg/kubelet/kuberuntime/kuberuntime_container.go convertToKubeContainerStatus)
    fn termination_message(&self, exit: &Exit, left: &Left, is_program: bool) -> String {
        let policy = self.container.termination_message_policy.as_deref();
        let falls_back = policy == Some("FallbackToLogsOnError") && exit.code != 0 && left.message.is_empty();
        let output = match &self.log {
            Some(log) if falls_back && (is_program || exit.message.is_empty()) => {
                log.tail(TERMINATION_LOG_LINES_MAX, TERMINATION_LOG_BYTES_MAX)
            }
            _ => left.message.clone(),
        };
        match (exit.message.is_empty(), output.is_empty()) {
            (true, _) => output,
            (false, true) => exit.message.clone(),
            (false, false) => format!("{}: {output}", exit.message),
        }
    }

    /// The container's part of the pod's status.
    pub(crate) fn status(&self) -> ContainerStatus {
        let state = match &self.doing {
            // As a kubelet shows it, which knows of the container only then.
            Doing::Running(_) if self.is_in_post_start() => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some("ContainerCreating".to_owned()),
                    message: None,
                }),
                ..ContainerState::default()
            },
            Doing::Waiting { reason, message, .. } => ContainerState {
                waiting: Some(ContainerStateWaiting {
                    reason: Some((*reason).to_owned()),
                    message: Some(message.clone()).filter(|message| !message.is_empty()),
                }),
                ..ContainerState::default()
            },
            Doing::Running(since) => ContainerState {
                running: Some(ContainerStateRunning {
                    started_at: Some(Time(*since)),
                }),
                ..ContainerState::default()
            },
            Doing::Over(ended) => ContainerState {
                terminated: Some(ended.clone()),
                ..ContainerState::default()
            },
        };
        let image = self.container.image.clone().unwrap_or_default();
        let started = self.is_started();
        let has_run = matches!(self.doing, Doing::Running(_)) || self.last.is_some();
        let completed_init = self.init && self.exit_code() == Some(0);
        ContainerStatus {
            name: self.container.name.clone(),
            image_id: if has_run {
                image_name(&image).to_owned()
            } else {
                String::new()
            },
            image,
            ready: self.is_ready() || completed_init,
            started: Some(started),
            restart_count: self.restarts,
            state: Some(state),
            last_state: Some(ContainerState {
                terminated: self.last.clone(),
                ..ContainerState::default()
            }),
            ..ContainerStatus::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(restart: Restart, init: bool) -> Slot {
        Slot::new(
            Container {
                name: "c".into(),
                ..Container::default()
            },
            restart,
            init,
            None,
        )
    }

    fn start(slot: &mut Slot) {
        slot.doing = Doing::Running(Timestamp::UNIX_EPOCH);
        let ready = ReadySwitch::new(Arc::default());
        slot.run = Some(Run::new(&slot.container, ImageTraits::default(), ready, 0));
    }

    fn crash(slot: &mut Slot) -> Option<u64> {
        start(slot);
        let pause = slot.end(Exit::failed("x"), true, Timestamp::UNIX_EPOCH, "p");
        pause.map(|pause| pause.as_secs())
    }

    #[tokio::test(start_paused = true)]
    async fn crashes_are_paused_longer_and_longer_until_a_long_run_forgives_them() {
        let mut slot = slot(Restart::Always, false);
        let pauses: Vec<_> = (0..8).filter_map(|_| crash(&mut slot)).collect();
        assert_eq!(pauses, [0, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!((slot.restarts, slot.is_due(Instant::now())), (8, false));
        start(&mut slot);
        tokio::time::advance(BACKOFF_FORGIVEN_AFTER).await;
        assert_eq!(
            slot.end(Exit::done(), true, Timestamp::UNIX_EPOCH, "p"),
            Some(Duration::ZERO)
        );
        assert!(slot.is_due(Instant::now()));
    }

    #[tokio::test(start_paused = true)]
    async fn run_that_requests_the_next_one_is_not_counted_as_a_crash() {
        let mut slot = slot(Restart::Never, false);
        for _ in 0..3 {
            start(&mut slot);
            slot.run.as_ref().unwrap().ending.change(|ending| ending.again = true);
            let pause = slot.end(Exit::failed("x"), true, Timestamp::UNIX_EPOCH, "p");
            assert_eq!(pause, Some(Duration::ZERO));
        }
        assert_eq!(slot.restarts, 3);
        start(&mut slot);
        slot.run.as_ref().unwrap().ending.change(|ending| ending.again = true);
        assert_eq!(
            slot.end(Exit::done(), false, Timestamp::UNIX_EPOCH, "p"),
            None,
            "its pod ends"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn policies_decide_what_runs_again() {
        assert_eq!(crash(&mut slot(Restart::Never, false)), None);
        assert_eq!(crash(&mut slot(Restart::OnFailure, false)), Some(0));
        assert_eq!(
            crash(&mut slot(Restart::Always, true)),
            Some(0),
            "a failed init container is tried again"
        );
        let mut done = slot(Restart::Always, true);
        start(&mut done);
        assert_eq!(done.end(Exit::done(), true, Timestamp::UNIX_EPOCH, "p"), None);
        assert!(done.lets_next_start() && done.status().ready);
    }

    #[test]
    fn a_container_that_ran_on_a_node_that_is_gone_counts_as_killed() {
        let seen: ContainerStatus = serde_json::from_value(serde_json::json!({
            "name": "c", "image": "c", "imageID": "", "ready": true, "restartCount": 2,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
        }))
        .unwrap();
        let container = Container {
            name: "c".into(),
            ..Container::default()
        };
        let again = Slot::new(container.clone(), Restart::Always, false, Some(&seen));
        assert_eq!(again.restarts, 3);
        assert_eq!(again.last.as_ref().map(|last| last.exit_code), Some(EXIT_KILLED));
        let never = Slot::new(container, Restart::Never, false, Some(&seen));
        assert_eq!(never.exit_code(), Some(EXIT_KILLED));
    }
}
