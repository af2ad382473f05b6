//! What a machine's phase is and what happens next, from what is seen. Pure: no client, no clock.

use std::time::Duration;

use api_machine::{Machine, MachineOperationType, MachinePhase, MachineState};
use api_meta::conditions::{BOOTSTRAP_TOKEN_REFUSED, ERROR_REPORTED};
use api_meta::{ErrorCode, Fault, FaultClass, Seen};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, NodeCondition};

use super::drain::DRAIN_TIMEOUT;
use crate::driver::DriverState;

/// How long joining may take unless the machine sets a time (machine-controller-manager's default).
pub(crate) const CREATION_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// How long a node may be unhealthy unless the machine sets a time (same source).
pub(crate) const HEALTH_TIMEOUT: Duration = Duration::from_secs(10 * 60);
/// How long a node may still be called ready when its machine is gone: longer than its Lease holds, after which
/// the shoot's node controller sets another time.
pub(crate) const GONE_TIMEOUT: Duration = Duration::from_secs(2 * 60);

/// How often a machine is looked at that has not joined: its provider may have ended it, and not all of them report that.
const JOINING_PAUSE: Duration = Duration::from_secs(60);

/// What to do about a machine whose token is refused.
const RENEW_TOKEN: &str = "have the Shoot reconciled: it renews the bootstrap token of its machines";

/// What there is to see of a machine that has been made and is not to be deleted.
#[derive(Debug)]
pub(crate) struct View<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) driver: &'a Seen<DriverState>,
    pub(crate) node: &'a Seen<std::sync::Arc<Node>>,
    pub(crate) now: Timestamp,
    /// When observation began: before that, a machine in trouble cannot be distinguished from a cluster that was down
    /// altogether, so no time runs against it.
    pub(crate) began: Timestamp,
}

/// Its new status, and when to look again though nothing changes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) phase: MachinePhase,
    pub(crate) operation: MachineOperationType,
    pub(crate) state: MachineState,
    pub(crate) description: String,
    /// What went wrong, by machine-controller-manager's names.
    pub(crate) code: Option<&'static str>,
    /// The thing to do that goes with the description; empty if there is none.
    pub(crate) to_do: String,
    /// The reason of the condition that carries the thing to do.
    pub(crate) reason: &'static str,
    pub(crate) look_again: Option<Duration>,
}

/// The phase the machine was last seen in, and since when.
pub(crate) fn phase_of(machine: &Machine) -> (Option<&MachinePhase>, Option<Timestamp>) {
    let current = machine
        .status
        .as_ref()
        .and_then(|status| status.current_status.as_ref());
    let since = current
        .and_then(|current| current.last_update_time.as_ref())
        .map(|time| time.0);
    (current.and_then(|current| current.phase.as_ref()), since)
}

/// Whether its node has been ready once.
fn has_joined(phase: Option<&MachinePhase>) -> bool {
    matches!(
        phase,
        Some(MachinePhase::Running | MachinePhase::Unknown | MachinePhase::Failed)
    )
}

/// Evaluates a machine. `None`: too little can be seen for a new status.
pub(crate) fn evaluate(view: &View<'_>) -> Option<Verdict> {
    let (phase, since) = phase_of(view.machine);
    if phase == Some(&MachinePhase::Failed) {
        return None;
    }
    let name = view.machine.metadata.name.as_deref().unwrap_or_default();
    let health = match view.node {
        Seen::Unknown(_) => None,
        Seen::Absent => Some(Err("its node does not exist".to_owned())),
        Seen::Present(node) => Some(health_of(node)),
    };
    let gone = matches!(view.driver, Seen::Present(DriverState::Gone));
    match (health, gone, has_joined(phase)) {
        (None, false, true) => None,
        (None, false, false) => Some(unseen(view, name)),
        (None, true, _) => Some(failed(format!(
            "Machine {name} does not exist any more at the provider"
        ))),
        (Some(Ok(())), true, _) => Some(waning(
            view,
            phase,
            since,
            GONE_TIMEOUT,
            format!("Machine {name} does not exist any more at the provider"),
        )),
        (Some(Err(why)), true, _) => Some(failed(format!(
            "Machine {name} does not exist any more at the provider; {why}"
        ))),
        (Some(Ok(())), false, _) => Some(Verdict {
            phase: MachinePhase::Running,
            operation: if has_joined(phase) {
                MachineOperationType::HealthCheck
            } else {
                MachineOperationType::Create
            },
            state: MachineState::Successful,
            description: format!("Machine {name} has joined the cluster"),
            code: None,
            to_do: String::new(),
            reason: ERROR_REPORTED,
            look_again: None,
        }),
        (Some(Err(why)), false, true) => {
            let timeout = view
                .machine
                .spec
                .health_timeout
                .map_or(HEALTH_TIMEOUT, |timeout| timeout.to_std());
            if view.machine.spec.disable_health_timeout == Some(true) {
                return Some(Verdict {
                    look_again: None,
                    ..unknown(format!("Machine {name} is unhealthy: {why}"))
                });
            }
            Some(waning(
                view,
                phase,
                since,
                timeout,
                format!("Machine {name} is unhealthy: {why}"),
            ))
        }
        (Some(Err(why)), false, false) => Some(joining(view, name, &why)),
    }
}

/// A machine that has not joined: it may until its time is up, counted from its creation, or from when it could be seen.
fn joining(view: &View<'_>, name: &str, why: &str) -> Verdict {
    let timeout = view
        .machine
        .spec
        .creation_timeout
        .map_or(CREATION_TIMEOUT, |timeout| timeout.to_std());
    let began = view
        .machine
        .metadata
        .creation_timestamp
        .as_ref()
        .map_or(view.now, |time| time.0)
        .max(view.began);
    let left = timeout.saturating_sub(elapsed(began, view.now));
    let reported = match view.driver {
        Seen::Present(DriverState::Exists(Some(standing))) => format!(" ({})", standing.text),
        Seen::Unknown(why) => format!(" (its state at the provider is unknown: {why})"),
        _ => String::new(),
    };
    let verdict = if left.is_zero() {
        failed(format!(
            "Machine {name} has not joined the cluster within {timeout:?}: {why}{reported}"
        ))
    } else {
        Verdict {
            phase: MachinePhase::Pending,
            operation: MachineOperationType::Create,
            state: MachineState::Processing,
            description: format!("Machine {name} has not joined: {why}{reported}"),
            code: None,
            to_do: String::new(),
            reason: ERROR_REPORTED,
            look_again: Some(left.min(JOINING_PAUSE)),
        }
    };
    match view.driver {
        Seen::Present(DriverState::Exists(Some(standing))) if standing.token_refused => Verdict {
            to_do: RENEW_TOKEN.to_owned(),
            reason: BOOTSTRAP_TOKEN_REFUSED,
            ..verdict
        },
        _ => verdict,
    }
}

/// A machine that has not joined as far as is known, in a cluster that cannot be seen: no time runs against it.
fn unseen(view: &View<'_>, name: &str) -> Verdict {
    let why = view.node.unknown().unwrap_or("no reason given");
    Verdict {
        phase: MachinePhase::Pending,
        operation: MachineOperationType::Create,
        state: MachineState::Processing,
        description: format!("Machine {name} has not joined: the cluster's nodes cannot be seen ({why})"),
        code: None,
        to_do: String::new(),
        reason: ERROR_REPORTED,
        look_again: None,
    }
}

fn unknown(description: String) -> Verdict {
    Verdict {
        phase: MachinePhase::Unknown,
        operation: MachineOperationType::HealthCheck,
        state: MachineState::Processing,
        description,
        code: None,
        to_do: String::new(),
        reason: ERROR_REPORTED,
        look_again: None,
    }
}

fn failed(description: String) -> Verdict {
    Verdict {
        phase: MachinePhase::Failed,
        state: MachineState::Failed,
        ..unknown(description)
    }
}

/// The status of a machine for which a turn has failed; none for one that is given up anyway, and for what a second try
/// solves: a write that conflicts with another. Its phase stays, but a machine that could not be made or is to go
/// is called so, as by machine-controller-manager v0.60.
pub(crate) fn failing(machine: &Machine, fault: &Fault) -> Option<Verdict> {
    let (phase, _) = phase_of(machine);
    let deleting = machine.metadata.deletion_timestamp.is_some();
    let passes = fault.class == FaultClass::Transient && fault.codes.is_empty();
    if passes || !deleting && phase == Some(&MachinePhase::Failed) {
        return None;
    }
    let (phase, operation, what) = match machine.spec.provider_id {
        _ if deleting => (MachinePhase::Terminating, MachineOperationType::Delete, "removed"),
        None => (MachinePhase::CrashLoopBackOff, MachineOperationType::Create, "made"),
        Some(_) if has_joined(phase) => (
            phase.cloned().unwrap_or(MachinePhase::Unknown),
            MachineOperationType::HealthCheck,
            "looked after",
        ),
        Some(_) => (
            MachinePhase::Pending,
            MachineOperationType::Create,
            "brought into its cluster",
        ),
    };
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    Some(Verdict {
        phase,
        operation,
        state: MachineState::Failed,
        description: format!("Machine {name} cannot be {what}: {}", fault.text_with_hint()),
        code: Some(code_of(fault)),
        to_do: fault.hint.clone(),
        reason: ERROR_REPORTED,
        look_again: None,
    })
}

/// A fault by the names of machine-controller-manager v0.60 (pkg/util/provider/machinecodes/codes): cluster autoscalers
/// look for `ResourceExhausted`.
fn code_of(fault: &Fault) -> &'static str {
    let is = |code: ErrorCode| fault.codes.contains(&code);
    match fault.class {
        _ if is(ErrorCode::InfraResourcesDepleted) => "ResourceExhausted",
        _ if is(ErrorCode::InfraUnauthenticated) => "Unauthenticated",
        FaultClass::Quota => "ResourceExhausted",
        FaultClass::Access => "PermissionDenied",
        FaultClass::User => "InvalidArgument",
        FaultClass::Dependency | FaultClass::Transient => "Unavailable",
        FaultClass::Bug => "Internal",
    }
}

/// Unknown for `timeout`, counted from when it became so, then Failed.
fn waning(
    view: &View<'_>,
    phase: Option<&MachinePhase>,
    since: Option<Timestamp>,
    timeout: Duration,
    why: String,
) -> Verdict {
    let since = if phase == Some(&MachinePhase::Unknown) {
        since.unwrap_or(view.now).max(view.began)
    } else {
        view.now
    };
    let left = timeout.saturating_sub(elapsed(since, view.now));
    if left.is_zero() {
        failed(format!("{why}, for {timeout:?}"))
    } else {
        Verdict {
            look_again: Some(left),
            ..unknown(why)
        }
    }
}

/// How long the node of a machine that goes may still take to become empty: its drain time from its deletion on, as by
/// machine-controller-manager v0.60 (pkg/util/provider/machinecontroller, drainNode); not counted while no process saw it.
pub(crate) fn drain_time_left(machine: &Machine, began: Timestamp, now: Timestamp) -> Duration {
    let timeout = machine
        .spec
        .drain_timeout
        .map_or(DRAIN_TIMEOUT, |timeout| timeout.to_std());
    let deleted = machine.metadata.deletion_timestamp.as_ref();
    let since = deleted.map_or(now, |time| time.0).max(began);
    timeout.saturating_sub(elapsed(since, now))
}

fn elapsed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// Whether a node is healthy: ready, and no condition set that the kubelet sets for want of something.
pub(crate) fn health_of(node: &Node) -> Result<(), String> {
    let conditions: &[NodeCondition] = node
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    match conditions.iter().find(|condition| condition.type_ == "Ready") {
        Some(ready) if ready.status == "True" => Ok(()),
        Some(ready) => Err(format!(
            "its node is not ready ({})",
            ready
                .message
                .as_deref()
                .filter(|text| !text.is_empty())
                .or(ready.reason.as_deref())
                .unwrap_or("no reason given")
        )),
        None => Err("its node has not reported whether it is ready".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use api_machine::{CurrentStatus, MachineSpec, MachineStatus};
    use api_meta::GoDuration;
    use k8s_openapi::api::core::v1::NodeStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn machine(phase: Option<MachinePhase>, since: i64) -> Machine {
        Machine {
            metadata: ObjectMeta {
                name: Some("m".into()),
                creation_timestamp: Some(Time(at(0))),
                ..Default::default()
            },
            spec: MachineSpec {
                health_timeout: Some(GoDuration::from_secs(60)),
                ..Default::default()
            },
            status: phase.map(|phase| MachineStatus {
                current_status: Some(CurrentStatus {
                    phase: Some(phase),
                    last_update_time: Some(Time(at(since))),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        }
    }

    #[test]
    fn the_drain_time_counts_from_the_deletion_and_not_while_unobserved() {
        let mut going = machine(None, 0);
        going.metadata.deletion_timestamp = Some(Time(at(100)));
        let left = |machine: &Machine, began: i64, now: i64| drain_time_left(machine, at(began), at(now)).as_secs();
        assert_eq!(left(&going, 0, 130), 570);
        assert_eq!(left(&going, 0, 10_000), 0);
        assert_eq!(left(&going, 9_990, 10_000), 590);
        going.spec.drain_timeout = Some(GoDuration::from_secs(30));
        assert_eq!(left(&going, 0, 120), 10);
        assert_eq!(left(&going, 0, 130), 0);
    }

    #[test]
    fn a_fault_is_reported_with_its_operation_and_upstream_code() {
        let made = |phase: Option<MachinePhase>| {
            let mut made = machine(phase, 0);
            made.spec.provider_id = Some("p".into());
            made
        };
        let mut going = made(Some(MachinePhase::Failed));
        going.metadata.deletion_timestamp = Some(Time(at(5)));
        let reported = |machine: &Machine, fault: Fault| {
            let verdict = failing(machine, &fault)?;
            let Verdict {
                phase,
                operation,
                state,
                description,
                code,
                to_do,
                reason: ERROR_REPORTED,
                look_again: None,
            } = verdict
            else {
                return None;
            };
            assert_eq!(to_do, fault.hint);
            Some(format!(
                "{phase} {operation} {state} {}: {description}",
                code.unwrap_or_default()
            ))
        };
        let no = || Fault::user("no").hint("grant it");
        for (machine, fault, expected) in [
            (
                machine(None, 0),
                no(),
                "CrashLoopBackOff Create Failed InvalidArgument: Machine m cannot be made: no (to do: grant it)",
            ),
            (
                made(Some(MachinePhase::CrashLoopBackOff)),
                Fault::dependency("no").code(ErrorCode::InfraResourcesDepleted),
                "Pending Create Failed ResourceExhausted: Machine m cannot be brought into its cluster: no",
            ),
            (
                made(Some(MachinePhase::Running)),
                Fault::access("no"),
                "Running HealthCheck Failed PermissionDenied: Machine m cannot be looked after: no",
            ),
            (
                going,
                Fault::bug("no"),
                "Terminating Delete Failed Internal: Machine m cannot be removed: no",
            ),
        ] {
            assert_eq!(reported(&machine, fault).as_deref(), Some(expected));
        }
        assert_eq!(
            reported(&made(Some(MachinePhase::Failed)), no()),
            None,
            "it is given up anyway"
        );
        assert_eq!(reported(&made(None), Fault::transient("overtaken")), None);
        let limited = Fault::transient("slow down").code(ErrorCode::InfraRateLimitsExceeded);
        assert!(reported(&made(None), limited).is_some_and(|text| text.contains("Unavailable")));
    }

    fn node(ready: &str) -> Seen<Arc<Node>> {
        let condition = NodeCondition {
            type_: "Ready".into(),
            status: ready.into(),
            message: Some("kubelet stopped posting node status".into()),
            ..Default::default()
        };
        let status = NodeStatus {
            conditions: Some(vec![condition]),
            ..Default::default()
        };
        Seen::Present(Arc::new(Node {
            status: Some(status),
            ..Default::default()
        }))
    }

    const EXISTS: Seen<DriverState> = Seen::Present(DriverState::Exists(None));
    const GONE: Seen<DriverState> = Seen::Present(DriverState::Gone);

    #[track_caller]
    fn check(
        machine: &Machine,
        driver: Seen<DriverState>,
        node: Seen<Arc<Node>>,
        now: i64,
        expected: Option<(MachinePhase, Option<u64>)>,
    ) {
        check_since(0, machine, driver, node, now, expected);
    }

    #[track_caller]
    fn check_since(
        began: i64,
        machine: &Machine,
        driver: Seen<DriverState>,
        node: Seen<Arc<Node>>,
        now: i64,
        expected: Option<(MachinePhase, Option<u64>)>,
    ) {
        let verdict = evaluate(&View {
            machine,
            driver: &driver,
            node: &node,
            now: at(now),
            began: at(began),
        });
        let reported = verdict
            .clone()
            .map(|verdict| (verdict.phase, verdict.look_again.map(|again| again.as_secs())));
        assert_eq!(reported, expected, "{verdict:?}");
    }

    use MachinePhase::{Failed, Pending, Running, Unknown};

    #[test]
    fn a_machine_joins_when_its_node_is_ready_and_fails_at_timeout() {
        let new = machine(None, 0);
        check(&new, EXISTS, Seen::Absent, 10, Some((Pending, Some(60))));
        check(&new, EXISTS, node("False"), 1170, Some((Pending, Some(30))));
        check(&new, EXISTS, node("True"), 10, Some((Running, None)));
        check(&new, EXISTS, Seen::Absent, 1200, Some((Failed, None)));
        check(&new, GONE, Seen::Absent, 10, Some((Failed, None)));
    }

    #[test]
    fn the_time_to_recover_counts_from_when_the_node_became_unhealthy() {
        check(
            &machine(Some(Running), 5),
            EXISTS,
            node("Unknown"),
            100,
            Some((Unknown, Some(60))),
        );
        check(
            &machine(Some(Unknown), 100),
            EXISTS,
            node("Unknown"),
            130,
            Some((Unknown, Some(30))),
        );
        check(
            &machine(Some(Unknown), 100),
            EXISTS,
            node("True"),
            130,
            Some((Running, None)),
        );
        check(
            &machine(Some(Unknown), 100),
            EXISTS,
            node("False"),
            160,
            Some((Failed, None)),
        );
        check(
            &machine(Some(Running), 5),
            EXISTS,
            Seen::Absent,
            100,
            Some((Unknown, Some(60))),
        );
    }

    #[test]
    fn timeouts_of_a_machine_do_not_run_while_unobserved() {
        let unknown = machine(Some(Unknown), 100);
        check_since(
            10_000,
            &unknown,
            EXISTS,
            node("False"),
            10_010,
            Some((Unknown, Some(50))),
        );
        check_since(10_000, &unknown, EXISTS, node("False"), 10_060, Some((Failed, None)));
        let new = machine(None, 0);
        check_since(10_000, &new, EXISTS, Seen::Absent, 11_190, Some((Pending, Some(10))));
    }

    #[test]
    fn a_machine_gone_at_the_provider_fails_once_its_node_is_dead() {
        check(
            &machine(Some(Running), 5),
            GONE,
            node("True"),
            100,
            Some((Unknown, Some(120))),
        );
        check(
            &machine(Some(Unknown), 100),
            GONE,
            node("Unknown"),
            140,
            Some((Failed, None)),
        );
        check(
            &machine(Some(Running), 5),
            GONE,
            Seen::Unknown("no answer".into()),
            100,
            Some((Failed, None)),
        );
    }

    #[test]
    fn what_cannot_be_seen_changes_nothing_and_failed_stays_failed() {
        let blind = || Seen::Unknown("connection refused".to_owned());
        check(&machine(Some(Running), 5), EXISTS, blind(), 10_000, None);
        check(
            &machine(None, 0),
            Seen::Unknown("x".into()),
            blind(),
            10_000,
            Some((Pending, None)),
        );
        check(&machine(Some(Failed), 5), EXISTS, node("True"), 10, None);
    }
}
