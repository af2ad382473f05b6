//! A pod's status from what its containers do: pure.

use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{HostIP, Pod, PodCondition, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::slot::{Doing, Restart, Slot};

/// Why a pod fails that has run for longer than it may, in the kubelet's words (kubernetes/kubernetes v1.35
/// pkg/kubelet/active_deadline.go).
pub(super) const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";
/// The same as a sentence.
pub(super) const DEADLINE_PASSED: &str = "Pod was active on the node longer than the specified deadline";

/// What a status is made of.
pub(crate) struct View<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) slots: &'a [Slot],
    pub(crate) pod_ip: Option<IpAddr>,
    pub(crate) host_ips: &'a [IpAddr],
    pub(crate) started: Timestamp,
    pub(crate) now: Timestamp,
    /// Whether the volumes are mounted.
    pub(crate) mounted: bool,
    /// Whether it has run for longer than it may.
    pub(crate) expired: bool,
}

/// The status to report. Conditions of others are not in it; `before` is the last one known, from which transition
/// times are taken.
pub(crate) fn status(view: &View<'_>, before: Option<&PodStatus>) -> PodStatus {
    let phase = phase(view);
    let statuses = |wanted: fn(&Slot) -> bool| {
        let statuses: Vec<_> = view
            .slots
            .iter()
            .filter(|slot| wanted(slot))
            .map(Slot::status)
            .collect();
        Some(statuses).filter(|statuses| !statuses.is_empty())
    };
    PodStatus {
        phase: Some(phase.to_owned()),
        conditions: Some(conditions(view, phase, before)),
        container_statuses: statuses(Slot::is_main),
        init_container_statuses: statuses(|slot| slot.init),
        ephemeral_container_statuses: statuses(|slot| slot.ephemeral),
        pod_ip: view.pod_ip.map(|ip| ip.to_string()),
        pod_ips: view.pod_ip.map(|ip| vec![PodIP { ip: ip.to_string() }]),
        host_ip: view.host_ips.first().map(ToString::to_string),
        host_ips: Some(
            view.host_ips
                .iter()
                .map(|ip| HostIP { ip: ip.to_string() })
                .collect::<Vec<_>>(),
        )
        .filter(|ips| !ips.is_empty()),
        start_time: Some(Time(view.started)),
        reason: view.expired.then(|| DEADLINE_EXCEEDED.to_owned()),
        message: view.expired.then(|| DEADLINE_PASSED.to_owned()),
        ..PodStatus::default()
    }
}

/// The phase, as the kubelet finds it (kubernetes/kubernetes v1.35 pkg/kubelet/kubelet_pods.go getPhase).
/// Nothing of a pod that has failed or succeeded still runs.
pub(crate) fn phase(view: &View<'_>) -> &'static str {
    let last = |slot: &Slot| (slot.sidecar || view.expired) && matches!(slot.doing, Doing::Running(_));
    match phase_by_containers(view) {
        "Failed" | "Succeeded" if view.slots.iter().any(last) => "Running",
        phase => phase,
    }
}

fn phase_by_containers(view: &View<'_>) -> &'static str {
    if view.expired {
        return "Failed";
    }
    let policy = Restart::of(view.pod);
    let counted = view.slots.iter().filter(|slot| !slot.ephemeral);
    let (init, main): (Vec<&Slot>, Vec<&Slot>) = counted.partition(|slot| slot.init);
    let failed_for_good = |slot: &&Slot| slot.exit_code().is_some_and(|code| code != 0);
    // How a sidecar ended does not decide the pod's phase.
    if init.iter().any(|slot| !slot.sidecar && failed_for_good(slot)) {
        return "Failed";
    }
    // A sidecar that restarts, or has ended with the pod, does not hold up the pod any more.
    let has_run = |slot: &Slot| slot.sidecar && (slot.last.is_some() || slot.is_over());
    let holds_up = |slot: &&Slot| !slot.lets_next_start() && !has_run(slot);
    if init.iter().any(holds_up) {
        return "Pending";
    }
    if main
        .iter()
        .any(|slot| (slot.is_in_post_start() || matches!(slot.doing, Doing::Waiting { .. })) && slot.last.is_none())
    {
        return "Pending";
    }
    let running = main.iter().any(|slot| slot.exit_code().is_none());
    match (running, policy) {
        (true, _) => "Running",
        // Over for good although it would be started again: the pod is being deleted.
        (false, Restart::Always) if view.pod.metadata.deletion_timestamp.is_none() => "Running",
        (false, _) if main.iter().any(failed_for_good) => "Failed",
        (false, _) => "Succeeded",
    }
}

fn conditions(view: &View<'_>, phase: &str, before: Option<&PodStatus>) -> Vec<PodCondition> {
    let over = phase == "Succeeded";
    let names = |slots: Vec<&Slot>| -> String {
        slots
            .iter()
            .map(|slot| slot.container.name.as_str())
            .collect::<Vec<_>>()
            .join(" ")
    };
    let uninitialized: Vec<&Slot> = view
        .slots
        .iter()
        .filter(|slot| slot.init && !slot.lets_next_start())
        .collect();
    let unready: Vec<&Slot> = view
        .slots
        .iter()
        .filter(|slot| (slot.is_main() || slot.sidecar) && !slot.is_ready())
        .collect();
    let gate = view
        .pod
        .spec
        .iter()
        .flat_map(|spec| spec.readiness_gates.iter().flatten())
        .find(|gate| {
            let conditions = view.pod.status.as_ref().and_then(|status| status.conditions.as_ref());
            !conditions
                .into_iter()
                .flatten()
                .any(|c| c.type_ == gate.condition_type && c.status == "True")
        });
    let completed = || Some(("PodCompleted", String::new()));
    let initialized = (!uninitialized.is_empty() && !over).then(|| {
        (
            "ContainersNotInitialized",
            format!("containers with incomplete status: [{}]", names(uninitialized)),
        )
    });
    let containers_ready = match (over, unready.is_empty()) {
        (true, _) => completed(),
        (false, true) => None,
        (false, false) => Some((
            "ContainersNotReady",
            format!("containers with unready status: [{}]", names(unready)),
        )),
    };
    let ready = containers_ready.clone().or_else(|| {
        gate.map(|gate| {
            let why = format!(
                "corresponding condition of pod readiness gate \"{}\" does not exist or is false.",
                gate.condition_type
            );
            ("ReadinessGatesNotReady", why)
        })
    });
    let sandbox = (!view.mounted).then(|| ("", String::new()));
    [
        ("PodReadyToStartContainers", sandbox),
        ("Initialized", initialized),
        ("Ready", ready),
        ("ContainersReady", containers_ready),
        ("PodScheduled", None),
    ]
    .into_iter()
    .map(|(type_, missing)| condition(type_, missing, view.now, before))
    .collect()
}

/// True when nothing is missing. The transition time is that of the last change of `status`.
fn condition(type_: &str, missing: Option<(&str, String)>, now: Timestamp, before: Option<&PodStatus>) -> PodCondition {
    let status = if missing.is_none() { "True" } else { "False" };
    let (reason, message) = missing.unwrap_or_default();
    let text = |text: String| Some(text).filter(|text| !text.is_empty());
    let since = before
        .and_then(|before| before.conditions.as_ref())
        .into_iter()
        .flatten()
        .find(|known| known.type_ == type_ && known.status == status)
        .and_then(|known| known.last_transition_time.clone());
    PodCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: text(reason.to_owned()),
        message: text(message),
        last_transition_time: Some(since.unwrap_or(Time(now))),
        ..PodCondition::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Container, ContainerStateTerminated};
    use serde_json::json;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Is {
        New,
        Crashing,
        Up,
        Done(i32),
    }

    fn slot(pod: &Pod, init: bool, is: Is) -> Slot {
        let container = Container {
            name: format!("{is:?}"),
            ..Container::default()
        };
        let mut slot = Slot::new(container, Restart::of(pod), init, None);
        let ended = |exit_code| ContainerStateTerminated {
            exit_code,
            ..ContainerStateTerminated::default()
        };
        match is {
            Is::New => {}
            Is::Crashing => slot.last = Some(ended(1)),
            Is::Up => slot.doing = Doing::Running(Timestamp::UNIX_EPOCH),
            Is::Done(code) => slot.doing = Doing::Over(ended(code)),
        }
        slot
    }

    fn phase_of(policy: &str, init: &[Is], main: &[Is]) -> &'static str {
        let pod: Pod =
            serde_json::from_value(json!({"metadata": {}, "spec": {"containers": [], "restartPolicy": policy}}))
                .unwrap();
        let slots: Vec<Slot> = init
            .iter()
            .map(|is| slot(&pod, true, *is))
            .chain(main.iter().map(|is| slot(&pod, false, *is)))
            .collect();
        phase(&View {
            pod: &pod,
            slots: &slots,
            pod_ip: None,
            host_ips: &[],
            started: Timestamp::UNIX_EPOCH,
            now: Timestamp::UNIX_EPOCH,
            mounted: true,
            expired: false,
        })
    }

    #[test]
    fn phases_follow_containers_and_policy() {
        use Is::{Crashing, Done, New, Up};
        for (policy, init, main, expected) in [
            ("Always", &[][..], &[New, Up][..], "Pending"),
            ("Always", &[], &[Crashing, Up], "Running"),
            ("Always", &[New], &[New], "Pending"),
            ("Always", &[Crashing], &[New], "Pending"),
            ("Always", &[Done(0)], &[Up], "Running"),
            ("Never", &[Done(1)], &[New], "Failed"),
            ("Never", &[], &[Done(0), Done(0)], "Succeeded"),
            ("Never", &[], &[Done(0), Done(3)], "Failed"),
            ("Never", &[], &[Done(3), Up], "Running"),
            ("OnFailure", &[], &[Done(0), Crashing], "Running"),
        ] {
            assert_eq!(phase_of(policy, init, main), expected, "{policy} {init:?} {main:?}");
        }
    }

    #[test]
    fn condition_retains_its_time_while_its_status_is_the_same() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = condition("Ready", Some(("A", "a".into())), at(1), None);
        let before = PodStatus {
            conditions: Some(vec![first]),
            ..PodStatus::default()
        };
        let same = condition("Ready", Some(("B", "b".into())), at(2), Some(&before));
        assert_eq!(same.last_transition_time, Some(Time(at(1))));
        assert_eq!(same.reason.as_deref(), Some("B"));
        let changed = condition("Ready", None, at(3), Some(&before));
        assert_eq!(changed.last_transition_time, Some(Time(at(3))));
    }
}
