//! Whether all machines have joined, and if not, why. Pure.

use api_machine::{Machine, MachineDeployment, MachinePhase, NAME_LABEL};
use api_meta::ErrorCode;
use api_meta::conditions::ACTION_REQUIRED;
use jiff::Timestamp;
use kube::ResourceExt;

use crate::machine::is_failed;

/// One deployment as it is planned and as it is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    /// The generation it was written as: what is seen may be older, or newer when an autoscaler has decided again.
    pub(crate) generation: i64,
}

/// Why machines are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing {
    /// In words, which may end with the thing to do.
    pub(crate) reason: String,
    /// The thing to do; empty where none is known.
    pub(crate) to_do: String,
}

impl Missing {
    /// For a reason with which nothing is to be done.
    pub(crate) fn because(reason: String) -> Self {
        let to_do = String::new();
        Self { reason, to_do }
    }
}

/// `None` when every deployment has exactly the machines it wants, all of its present class, all joined.
/// Otherwise the first reason why not, a machine's own reason before a mere number.
///
/// Machines that are being deleted are not counted, as by machine-controller-manager v0.60: a pool of fewer machines, or of none,
/// is whole while its surplus still goes. Upstream's generic Worker waits for machines to go only where their whole deployment
/// goes, and gardenlet waits for the nodes to go of a shoot that hibernates.
pub(crate) fn missing(wanted: &[Wanted<'_>], seen: &[&MachineDeployment], machines: &[&Machine]) -> Option<Missing> {
    wanted.iter().find_map(|wanted| {
        let Some(deployment) = seen.iter().find(|deployment| deployment.name_any() == wanted.name) else {
            let reason = format!("machine deployment {} is not there yet", wanted.name);
            return Some(Missing::because(reason));
        };
        let status = deployment.status.clone().unwrap_or_default();
        if status.observed_generation.unwrap_or_default() < wanted.generation {
            let reason = format!("machine deployment {} has not been looked at yet", wanted.name);
            return Some(Missing::because(reason));
        }
        let number = |count: Option<i32>| count.unwrap_or_default();
        let replicas_wanted = number(deployment.spec.replicas);
        let counts = [status.replicas, status.updated_replicas, status.available_replicas].map(number);
        if counts == [replicas_wanted; 3] {
            return None;
        }
        let mut reasons = machines
            .iter()
            .filter(|machine| machine.labels().get(NAME_LABEL).map(String::as_str) == Some(wanted.name))
            .filter_map(|machine| trouble_of(machine, wanted.class));
        let [replicas, updated, available] = counts;
        Some(reasons.next().unwrap_or_else(|| {
            Missing::because(format!(
                "machine deployment {}: {replicas} machines, {updated} up to date, {available} joined, {replicas_wanted} wanted",
                wanted.name
            ))
        }))
    })
}

/// A machine that fails for a reason that trying again does not solve.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The machine's name.
    pub(crate) machine: String,
    pub(crate) missing: Missing,
    /// What the reason means in `lastError.codes`.
    pub(crate) code: ErrorCode,
}

/// The machines of the present class that cannot be made or brought into their cluster, for a reason that trying again does not
/// solve. Errors from before the second of `since` are of an operation before.
pub(crate) fn failures(wanted: &[Wanted<'_>], machines: &[&Machine], since: Timestamp) -> Vec<Failure> {
    let failure = |machine: &Machine| {
        let deployment = machine.labels().get(NAME_LABEL)?;
        let wanted = wanted.iter().find(|wanted| wanted.name == deployment)?;
        let last = machine.status.as_ref()?.last_operation.as_ref()?;
        let joined = matches!(
            crate::machine_phase(machine),
            Some(MachinePhase::Running | MachinePhase::Unknown)
        );
        let reported = last.last_update_time.as_ref().map_or(since, |time| time.0);
        let is_old = reported.as_second() < since.as_second();
        if !is_failed(machine) || joined || is_old {
            return None;
        }
        let code = code_of(last.error_code.as_deref()?)?;
        let missing = trouble_of(machine, wanted.class).filter(|_| is_of(machine, wanted.class))?;
        machine.metadata.deletion_timestamp.is_none().then(|| Failure {
            machine: machine.name_any(),
            missing,
            code,
        })
    };
    machines.iter().filter_map(|machine| failure(machine)).collect()
}

/// Whether a machine that failed has been made since, rather than being tried again: only a machine that exists has a provider id.
/// One that has gone, or goes, does not fail any more either.
pub(crate) fn has_recovered(machines: &[&Machine], name: &str) -> bool {
    let Some(machine) = machines.iter().find(|machine| machine.name_any() == name) else {
        return true;
    };
    machine.metadata.deletion_timestamp.is_some() || (machine.spec.provider_id.is_some() && !is_failed(machine))
}

/// What a machine's error code means, where a person has to act. Texts of the provider tell more: a quota and a depleted
/// capacity have one code (gardener/machine-controller-manager v0.60 pkg/util/provider/machinecodes/codes).
fn code_of(code: &str) -> Option<ErrorCode> {
    match code {
        "ResourceExhausted" => Some(ErrorCode::InfraResourcesDepleted),
        "Unauthenticated" => Some(ErrorCode::InfraUnauthenticated),
        "PermissionDenied" => Some(ErrorCode::InfraUnauthorized),
        "InvalidArgument" => Some(ErrorCode::ConfigurationProblem),
        _ => None,
    }
}

fn is_of(machine: &Machine, class: &str) -> bool {
    let of = machine.spec.class.as_ref().and_then(|class| class.name.as_deref());
    of == Some(class)
}

/// Why a machine does not count.
fn trouble_of(machine: &Machine, class: &str) -> Option<Missing> {
    let status = machine.status.as_ref();
    let phase = status
        .and_then(|status| status.current_status.as_ref())
        .and_then(|current| current.phase.as_ref());
    let reported = status
        .and_then(|status| status.last_operation.as_ref())
        .and_then(|last| last.description.clone());
    let name = machine.name_any();
    if machine.metadata.deletion_timestamp.is_some() {
        return Some(Missing::because(format!("machine {name} is being removed")));
    }
    if !is_of(machine, class) {
        return Some(Missing::because(format!("machine {name} is waiting to be replaced")));
    }
    let hint = status
        .and_then(|status| status.conditions.iter().find(|one| one.type_ == ACTION_REQUIRED))
        .and_then(|condition| condition.message.clone());
    (phase != Some(&MachinePhase::Running)).then(|| Missing {
        reason: reported.unwrap_or_else(|| format!("machine {name} is being made")),
        to_do: hint.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use api_machine::{
        ClassSpec, LastOperation, MachineDeploymentSpec, MachineDeploymentStatus, MachineSpec, MachineState,
        MachineStatus,
    };
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    fn deployment(counts: [i32; 3], observed: i64) -> MachineDeployment {
        MachineDeployment {
            metadata: ObjectMeta {
                name: Some("d".into()),
                generation: Some(observed),
                ..Default::default()
            },
            spec: MachineDeploymentSpec {
                replicas: Some(1),
                ..Default::default()
            },
            status: Some(MachineDeploymentStatus {
                observed_generation: Some(observed),
                replicas: Some(counts[0]),
                updated_replicas: Some(counts[1]),
                available_replicas: Some(counts[2]),
                ..Default::default()
            }),
        }
    }

    const WANTED: [Wanted<'static>; 1] = [Wanted {
        name: "d",
        class: "c",
        generation: 2,
    }];

    #[test]
    fn a_machine_that_has_not_joined_is_quoted() {
        let machine = Machine {
            metadata: ObjectMeta {
                name: Some("m".into()),
                labels: Some([(NAME_LABEL.to_owned(), "d".to_owned())].into()),
                ..Default::default()
            },
            spec: MachineSpec {
                class: Some(ClassSpec {
                    name: Some("c".into()),
                    ..Default::default()
                }),
                ..Default::default()
            },
            status: Some(MachineStatus {
                last_operation: Some(LastOperation {
                    description: Some("Machine m has not joined: its node does not exist".into()),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        };
        let text = missing(&WANTED, &[&deployment([1, 1, 0], 2)], &[&machine]);
        assert_eq!(
            text,
            Some(Missing::because(
                "Machine m has not joined: its node does not exist".into()
            ))
        );
        assert_eq!(missing(&WANTED, &[&deployment([1, 1, 1], 2)], &[&machine]), None);
    }

    #[test]
    fn old_counts_and_old_machines_do_not_count() {
        let reason = |deployment: &MachineDeployment| missing(&WANTED, &[deployment], &[]).unwrap().reason;
        assert_eq!(
            reason(&deployment([1, 1, 1], 1)),
            "machine deployment d has not been looked at yet"
        );
        assert_eq!(
            reason(&deployment([2, 1, 2], 2)),
            "machine deployment d: 2 machines, 1 up to date, 2 joined, 1 wanted"
        );
        assert_eq!(
            missing(&WANTED, &[], &[]).unwrap().reason,
            "machine deployment d is not there yet"
        );
    }

    #[test]
    fn a_machine_that_no_retry_can_make_is_found_with_its_code() {
        let machine = |class: &str, code: Option<&str>| Machine {
            metadata: ObjectMeta {
                name: Some("m".into()),
                labels: Some([(NAME_LABEL.to_owned(), "d".to_owned())].into()),
                ..Default::default()
            },
            spec: MachineSpec {
                class: Some(ClassSpec::machine_class(class)),
                ..Default::default()
            },
            status: Some(MachineStatus {
                last_operation: Some(LastOperation {
                    description: Some("no".into()),
                    error_code: code.map(str::to_owned),
                    state: Some(MachineState::Failed),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        };
        let failure = |machine: &Machine, since| failures(&WANTED, &[machine], since).pop();
        let code = |machine: &Machine| failure(machine, Timestamp::UNIX_EPOCH).map(|failure| failure.code);
        let quota = machine("c", Some("ResourceExhausted"));
        assert_eq!(code(&quota), Some(ErrorCode::InfraResourcesDepleted));
        let found = failure(&quota, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!((found.machine.as_str(), found.missing.reason.as_str()), ("m", "no"));
        assert_eq!(code(&machine("c", Some("Unavailable"))), None, "it is tried again");
        assert_eq!(code(&machine("old", Some("ResourceExhausted"))), None);
        assert_eq!(code(&machine("c", None)), None);
        let mut old = quota.clone();
        let at = |second: i64| Timestamp::from_second(second).unwrap();
        let last = old.status.as_mut().and_then(|status| status.last_operation.as_mut());
        last.unwrap().last_update_time = Some(Time(at(5)));
        assert!(failure(&old, at(5)).is_some());
        assert!(failure(&old, at(6)).is_none(), "it is of another operation");
    }

    #[test]
    fn machine_recovers_when_it_exists_and_not_when_it_is_tried_again() {
        let machine = |provider_id: Option<&str>, state: MachineState| Machine {
            metadata: ObjectMeta {
                name: Some("m".into()),
                ..Default::default()
            },
            spec: MachineSpec {
                provider_id: provider_id.map(str::to_owned),
                ..Default::default()
            },
            status: Some(MachineStatus {
                last_operation: Some(LastOperation {
                    state: Some(state),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        };
        let recovered = |machine: &Machine| has_recovered(&[machine], "m");
        assert!(!recovered(&machine(None, MachineState::Failed)));
        assert!(
            !recovered(&machine(None, MachineState::Processing)),
            "it is tried again"
        );
        assert!(
            !recovered(&machine(Some("id"), MachineState::Failed)),
            "its cluster refuses it"
        );
        assert!(recovered(&machine(Some("id"), MachineState::Processing)));
        assert!(has_recovered(&[], "m"), "it has gone");
    }

    #[test]
    fn a_number_that_an_autoscaler_has_set_since_is_the_wanted_one() {
        let mut scaled = deployment([3, 3, 3], 5);
        scaled.spec.replicas = Some(3);
        assert_eq!(missing(&WANTED, &[&scaled], &[]), None);
    }
}
