//! How many machines a set makes and which it removes. Pure.

use std::cmp::Reverse;

use api_machine::{Machine, MachinePhase, MachineSetStatus, MachineSummary};
use kube::ResourceExt;

use crate::machine_phase;
use crate::names::{PRIORITY_ANNOTATION, PRIORITY_DEFAULT};

/// Machines made or removed in one turn at most: a typing error in a number must not exhaust an account (upstream's
/// burst).
const BURST_MAX: usize = 100;

/// What a set does next.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Machines to make.
    pub(crate) create: usize,
    /// Machines to delete, by name.
    pub(crate) delete: Vec<String>,
}

/// Whether a machine counts towards the wanted number.
fn counts(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none() && machine_phase(machine) != Some(&MachinePhase::Failed)
}

/// Failed machines go and are replaced; beyond the wanted number the least useful go.
pub(crate) fn plan(replicas: usize, machines: &[Machine]) -> Plan {
    let mut delete: Vec<String> = machines
        .iter()
        .filter(|machine| machine.metadata.deletion_timestamp.is_none() && !counts(machine))
        .map(|machine| machine.name_any())
        .collect();
    let mut counting: Vec<&Machine> = machines.iter().filter(|machine| counts(machine)).collect();
    let surplus = counting.len().saturating_sub(replicas);
    counting.sort_by_key(|machine| worth(machine));
    delete.extend(counting.iter().take(surplus).map(|machine| machine.name_any()));
    delete.truncate(BURST_MAX);
    Plan {
        create: replicas.saturating_sub(counting.len()).min(BURST_MAX),
        delete,
    }
}

type Worth = (i32, u8, Reverse<Option<jiff::Timestamp>>, String);

/// How near a machine is to running (machine-controller-manager v0.60 pkg/controller/controller_utils.go, `ActiveMachines`).
fn progress_of(machine: &Machine) -> u8 {
    match machine_phase(machine) {
        Some(MachinePhase::CrashLoopBackOff) => 0,
        Some(MachinePhase::Unknown) => 1,
        Some(MachinePhase::Available) => 3,
        Some(MachinePhase::Running) => 4,
        _ => 2,
    }
}

/// The lower, the sooner it goes: by priority, then those that are farthest from running, then the newest.
fn worth(machine: &Machine) -> Worth {
    let priority = machine
        .annotations()
        .get(PRIORITY_ANNOTATION)
        .and_then(|text| text.parse().ok());
    (
        priority.unwrap_or(PRIORITY_DEFAULT),
        progress_of(machine),
        Reverse(machine.metadata.creation_timestamp.as_ref().map(|time| time.0)),
        machine.name_any(),
    )
}

/// The set's status about its machines. `minReadySeconds` is not waited for: a machine whose node is ready
/// is available, as in machine-controller-manager, which counts phases and not seconds.
pub(crate) fn status(machines: &[Machine], generation: i64, before: Option<&MachineSetStatus>) -> MachineSetStatus {
    let staying: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.metadata.deletion_timestamp.is_none())
        .collect();
    let running = staying
        .iter()
        .filter(|machine| machine_phase(machine) == Some(&MachinePhase::Running))
        .count();
    let count = |number: usize| Some(i32::try_from(number).unwrap_or(i32::MAX));
    MachineSetStatus {
        replicas: count(staying.len()),
        fully_labeled_replicas: count(staying.len()),
        ready_replicas: count(running),
        available_replicas: count(running),
        observed_generation: Some(generation),
        failed_machines: staying.iter().filter_map(|machine| failure_of(machine)).collect(),
        ..before.cloned().unwrap_or_default()
    }
}

/// The summary of a machine that failed or cannot be made.
fn failure_of(machine: &Machine) -> Option<MachineSummary> {
    if !matches!(
        machine_phase(machine),
        Some(MachinePhase::Failed | MachinePhase::CrashLoopBackOff)
    ) {
        return None;
    }
    Some(MachineSummary {
        name: machine.metadata.name.clone(),
        provider_id: machine.spec.provider_id.clone(),
        last_operation: machine.status.as_ref().and_then(|status| status.last_operation.clone()),
        owner_ref: machine.owner_references().first().map(|owner| owner.name.clone()),
    })
}

#[cfg(test)]
mod tests {
    use api_machine::{CurrentStatus, MachineStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

    use super::*;

    fn machine(name: &str, phase: MachinePhase, born: i64) -> Machine {
        Machine {
            metadata: ObjectMeta {
                name: Some(name.into()),
                creation_timestamp: Some(Time(jiff::Timestamp::from_second(born).unwrap())),
                ..Default::default()
            },
            status: Some(MachineStatus {
                current_status: Some(CurrentStatus {
                    phase: Some(phase),
                    ..Default::default()
                }),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    use MachinePhase::{Failed, Pending, Running};

    fn going(mut machine: Machine) -> Machine {
        machine.metadata.deletion_timestamp = machine.metadata.creation_timestamp.clone();
        machine
    }

    #[track_caller]
    fn check(replicas: usize, machines: &[Machine], create: usize, delete: &[&str]) {
        let expected = Plan {
            create,
            delete: delete.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(plan(replicas, machines), expected);
    }

    #[test]
    fn failed_machines_are_deleted_and_replaced_and_going_ones_do_not_count() {
        check(2, &[], 2, &[]);
        check(2, &[machine("a", Running, 1), machine("b", Failed, 1)], 1, &["b"]);
        check(1, &[going(machine("a", Running, 1))], 1, &[]);
        check(2, &[machine("a", Running, 1), machine("b", Pending, 1)], 0, &[]);
        check(usize::MAX, &[], 100, &[]);
    }

    #[test]
    fn the_least_useful_go_first() {
        let mut cheap = machine("cheap", Running, 1);
        cheap.annotations_mut().insert(PRIORITY_ANNOTATION.into(), "1".into());
        let machines = [
            machine("old", Running, 1),
            machine("new", Running, 9),
            machine("young", Pending, 5),
            cheap,
        ];
        check(3, &machines, 0, &["cheap"]);
        check(2, &machines, 0, &["cheap", "young"]);
        check(1, &machines, 0, &["cheap", "young", "new"]);
        check(0, &machines, 0, &["cheap", "young", "new", "old"]);
        let failing = machine("failing", MachinePhase::CrashLoopBackOff, 1);
        let joining = machine("joining", Pending, 9);
        check(1, &[joining, failing], 0, &["failing"]);
    }

    #[test]
    fn planning_twice_leaves_nothing() {
        let mut machines = vec![
            machine("a", Running, 1),
            machine("b", Failed, 1),
            machine("c", Running, 1),
        ];
        let first = plan(1, &machines);
        machines.retain(|machine| !first.delete.contains(&machine.name_any()));
        assert_eq!(plan(1, &machines), Plan::default());
    }
}
