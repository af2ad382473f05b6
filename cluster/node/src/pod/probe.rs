//! Probes of a running container: when each is run next, and what its answers mean. Pure
//! (kubernetes/kubernetes v1.35 pkg/kubelet/prober/worker.go).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, Probe as Wanted};
use tokio::time::Instant;

use super::handler::Handler;
use super::slot::ImageTraits;

/// Pauses after the first failures of a readiness probe, until it has succeeded once: most programs need a moment to listen.
/// Kubernetes allows it: while a container is not ready, its readiness probe may be executed at other times than its period's.
const READINESS_FIRST_PAUSES: [Duration; 3] = [
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(400),
];

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Until it succeeds, the others wait.
    Startup,
    /// Whether callers are sent there.
    Readiness,
    /// Whether it is started again.
    Liveness,
}

impl Kind {
    /// As it begins a sentence.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Kind::Startup => "Startup",
            Kind::Readiness => "Readiness",
            Kind::Liveness => "Liveness",
        }
    }
}

struct Probe {
    kind: Kind,
    handler: Handler,
    period: Duration,
    timeout: Duration,
    /// How many equal results in a row count.
    success: u32,
    failure: u32,
    /// The grace period of a restart.
    grace: Option<Duration>,
    good: bool,
    /// Failures so far; `usize::MAX` once it has succeeded: then no pause is shortened.
    first_failures: usize,
    /// The last answer, and how often it came in a row.
    row: (bool, u32),
    /// `None` while an answer is waited for.
    due: Option<Instant>,
}

/// The probes of one run.
pub(crate) struct Probes {
    /// Those that are run, the startup probe first.
    probes: Vec<Probe>,
    /// The container itself reports whether it is ready.
    by_switch: bool,
}

/// A probe that is due.
pub(crate) struct DueProbe {
    pub(crate) kind: Kind,
    pub(crate) handler: Handler,
    pub(crate) timeout: Duration,
}

/// What an answer leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProbeAction {
    /// Nothing, or the container is ready now, or is not any more.
    GoOn,
    /// It is to be stopped, within the probe's own grace period if it has one, and started again.
    Restart(Option<Duration>),
}

impl Probes {
    /// The probes of a container that starts now. `traits`: whether its image lets them be run; a
    /// container of another image reports itself when it is ready, as does one whose readiness probe cannot be run here.
    pub(crate) fn new(container: &Container, traits: ImageTraits, now: Instant) -> Self {
        let wanted = [
            (Kind::Startup, &container.startup_probe),
            (Kind::Readiness, &container.readiness_probe),
            (Kind::Liveness, &container.liveness_probe),
        ];
        let probes: Vec<Probe> = wanted
            .into_iter()
            .filter_map(|(kind, wanted)| Probe::new(kind, wanted.as_ref()?, container, traits, now))
            .filter(|_| traits.probed)
            .collect();
        let has_readiness = probes.iter().any(|probe| probe.kind == Kind::Readiness);
        Probes {
            by_switch: !traits.probed || (!has_readiness && container.readiness_probe.is_some()),
            probes,
        }
    }

    /// Whether the container has started, by its startup probe.
    pub(crate) fn started(&self) -> bool {
        let mut startup = self.probes.iter().filter(|probe| probe.kind == Kind::Startup);
        startup.all(|probe| probe.good)
    }

    /// Whether it is ready; `switch` is what it reports itself.
    pub(crate) fn ready(&self, switch: bool) -> bool {
        let mut readiness = self.probes.iter().filter(|probe| probe.kind == Kind::Readiness);
        self.started() && (switch || !self.by_switch) && readiness.all(|probe| probe.good)
    }

    /// Those that are run at this stage.
    fn live(&self) -> impl Iterator<Item = &Probe> {
        let started = self.started();
        self.probes
            .iter()
            .filter(move |probe| (probe.kind == Kind::Startup) != started)
    }

    /// When the next probe is due.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.live().filter_map(|probe| probe.due).min()
    }

    /// The probes that are due; each has to be answered before it is due again.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<DueProbe> {
        let started = self.started();
        let live = self
            .probes
            .iter_mut()
            .filter(|probe| (probe.kind == Kind::Startup) != started);
        let due = live.filter(|probe| probe.due.is_some_and(|due| due <= now));
        due.map(|probe| {
            probe.due = None;
            DueProbe {
                kind: probe.kind,
                handler: probe.handler.clone(),
                timeout: probe.timeout,
            }
        })
        .collect()
    }

    /// Takes an answer.
    pub(crate) fn answered(&mut self, kind: Kind, good: bool, now: Instant) -> ProbeAction {
        let Some(probe) = self.probes.iter_mut().find(|probe| probe.kind == kind) else {
            return ProbeAction::GoOn;
        };
        probe.due = Some(now + probe.pause(good));
        probe.row = match probe.row {
            (last, times) if last == good => (good, times + 1),
            _ => (good, 1),
        };
        let enough = if good { probe.success } else { probe.failure };
        if probe.row.1 < enough {
            return ProbeAction::GoOn;
        }
        let was_good = std::mem::replace(&mut probe.good, good);
        let grace = probe.grace;
        if kind == Kind::Startup && good && !was_good {
            // The others are run at once, unless they are to wait longer.
            for other in self.probes.iter_mut().filter(|probe| probe.kind != Kind::Startup) {
                other.due = other.due.map(|due| due.max(now));
            }
        }
        match kind {
            Kind::Startup | Kind::Liveness if !good => ProbeAction::Restart(grace),
            _ => ProbeAction::GoOn,
        }
    }
}

impl Probe {
    /// The pause after an answer.
    fn pause(&mut self, good: bool) -> Duration {
        let soon = READINESS_FIRST_PAUSES.get(self.first_failures);
        let soon = soon.filter(|_| self.kind == Kind::Readiness && !good);
        self.first_failures = match good {
            true => usize::MAX,
            false => self.first_failures.saturating_add(1),
        };
        soon.map_or(self.period, |soon| self.period.min(*soon))
    }

    fn new(kind: Kind, wanted: &Wanted, container: &Container, traits: ImageTraits, now: Instant) -> Option<Self> {
        let seconds = |value: Option<i32>, default: u32| {
            let value = value.and_then(|value| u32::try_from(value).ok());
            value.filter(|value| *value > 0).unwrap_or(default)
        };
        let long = |value: u32| Duration::from_secs(u64::from(value));
        let delay = long(seconds(wanted.initial_delay_seconds, 0));
        let grace = wanted.termination_grace_period_seconds;
        Some(Probe {
            kind,
            handler: Handler::of(wanted, container, traits.commands)?,
            period: long(seconds(wanted.period_seconds, 10)),
            timeout: long(seconds(wanted.timeout_seconds, 1)),
            success: seconds(wanted.success_threshold, 1),
            failure: seconds(wanted.failure_threshold, 3),
            grace: grace.map(|grace| Duration::from_secs(u64::try_from(grace).unwrap_or(0))),
            good: kind == Kind::Liveness,
            first_failures: 0,
            row: (false, 0),
            due: Some(now + delay),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn probes(container: Value) -> Probes {
        let mut all = json!({"name": "c", "ports": [{"name": "web", "containerPort": 80}]});
        all.as_object_mut()
            .unwrap()
            .extend(container.as_object().unwrap().clone());
        let traits = ImageTraits {
            probed: true,
            commands: false,
        };
        Probes::new(&serde_json::from_value(all).unwrap(), traits, Instant::now())
    }

    fn due_kinds(probes: &mut Probes) -> Vec<(Kind, u64)> {
        let now = Instant::now();
        let due = probes.take_due(now);
        due.into_iter()
            .map(|probe| (probe.kind, probe.timeout.as_secs()))
            .collect()
    }

    async fn wait(probes: &Probes) -> u64 {
        let due = probes.due_at().unwrap();
        let begun = Instant::now();
        tokio::time::sleep_until(due).await;
        begun.elapsed().as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn thresholds_delays_and_periods_are_respected() {
        let http = json!({"httpGet": {"port": "web"}, "initialDelaySeconds": 5, "periodSeconds": 3, "timeoutSeconds": 2,
            "successThreshold": 2, "failureThreshold": 2});
        let mut probes = probes(json!({"readinessProbe": http}));
        assert_eq!(wait(&probes).await, 5);
        let mut answers = Vec::new();
        for good in [true, true, false, true, false, false] {
            assert_eq!(due_kinds(&mut probes), [(Kind::Readiness, 2)]);
            assert!(due_kinds(&mut probes).is_empty(), "it is not run twice at once");
            assert_eq!(
                probes.answered(Kind::Readiness, good, Instant::now()),
                ProbeAction::GoOn
            );
            answers.push(probes.ready(false));
            assert_eq!(wait(&probes).await, 3);
        }
        assert_eq!(answers, [false, true, true, true, true, false]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_container_that_was_never_ready_is_probed_sooner_a_few_times() {
        let probe = json!({"tcpSocket": {"port": 80}, "periodSeconds": 2});
        let mut probes = probes(json!({"readinessProbe": probe}));
        let mut pauses = Vec::new();
        for good in [false, false, false, false, false, true, false] {
            assert_eq!(due_kinds(&mut probes).len(), 1);
            probes.answered(Kind::Readiness, good, Instant::now());
            let begun = Instant::now();
            tokio::time::sleep_until(probes.due_at().unwrap()).await;
            pauses.push(begun.elapsed().as_millis());
        }
        assert_eq!(pauses, [100, 200, 400, 2000, 2000, 2000, 2000]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_startup_probe_holds_the_others_back() {
        let tcp = |more: Value| {
            let mut probe = json!({"tcpSocket": {"port": 80}});
            probe.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            probe
        };
        let mut probes = probes(json!({
            "startupProbe": tcp(json!({"failureThreshold": 2, "terminationGracePeriodSeconds": 7})),
            "livenessProbe": tcp(json!({"failureThreshold": 1, "initialDelaySeconds": 60})),
            "readinessProbe": tcp(json!({})),
        }));
        let now = Instant::now();
        assert_eq!(due_kinds(&mut probes), [(Kind::Startup, 1)]);
        assert_eq!(probes.answered(Kind::Startup, false, now), ProbeAction::GoOn);
        let grace = Some(Duration::from_secs(7));
        assert_eq!(probes.answered(Kind::Startup, false, now), ProbeAction::Restart(grace));
        assert!(!probes.started());
        assert_eq!(probes.answered(Kind::Startup, true, now), ProbeAction::GoOn);
        assert!(probes.started() && !probes.ready(true));
        assert_eq!(due_kinds(&mut probes), [(Kind::Readiness, 1)]);
        probes.answered(Kind::Readiness, true, now);
        assert!(probes.ready(false));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(due_kinds(&mut probes), [(Kind::Readiness, 1), (Kind::Liveness, 1)]);
        let restart = probes.answered(Kind::Liveness, false, Instant::now());
        assert_eq!(restart, ProbeAction::Restart(None));
    }

    #[tokio::test]
    async fn unsupported_probes_are_left_to_the_container() {
        let exec = json!({"exec": {"command": ["true"]}});
        let by_exec = probes(json!({"readinessProbe": exec, "livenessProbe": exec}));
        assert_eq!((by_exec.ready(false), by_exec.ready(true)), (false, true));
        assert_eq!(by_exec.due_at(), None);
        let none = probes(json!({}));
        assert!(none.ready(false), "without a probe it is ready when it runs");
        let nowhere = probes(json!({"readinessProbe": {"tcpSocket": {"port": "none"}}}));
        assert!(!nowhere.ready(false) && nowhere.ready(true));
    }
}
