//! Whether all machines have joined, and if not, why. Pure.

use api_machine::{Machine, MachineDeployment, MachinePhase};
use api_meta::conditions::ACTION_REQUIRED;
use kube::ResourceExt;

use super::plan::NAME_LABEL;

/// One deployment as it is planned and as it is seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) name: &'a str,
    pub(crate) class: &'a str,
    pub(crate) replicas: i32,
    /// The generation it was written as: what is seen may be older.
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
        let counts = [status.replicas, status.updated_replicas, status.available_replicas].map(number);
        if counts == [wanted.replicas; 3] {
            return None;
        }
        let mut reasons = machines
            .iter()
            .filter(|machine| machine.labels().get(NAME_LABEL).map(String::as_str) == Some(wanted.name))
            .filter_map(|machine| trouble_of(machine, wanted.class));
        let [replicas, updated, available] = counts;
        Some(reasons.next().unwrap_or_else(|| {
            Missing::because(format!(
                "machine deployment {}: {replicas} machines, {updated} up to date, {available} joined, {} wanted",
                wanted.name, wanted.replicas
            ))
        }))
    })
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
    if machine.spec.class.as_ref().and_then(|class| class.name.as_deref()) != Some(class) {
        return Some(Missing::because(format!("machine {name} is waiting to be replaced")));
    }
    let asks = status
        .and_then(|status| status.conditions.iter().find(|one| one.type_ == ACTION_REQUIRED))
        .and_then(|condition| condition.message.clone());
    (phase != Some(&MachinePhase::Running)).then(|| Missing {
        reason: reported.unwrap_or_else(|| format!("machine {name} is being made")),
        to_do: asks.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use api_machine::{ClassSpec, LastOperation, MachineDeploymentStatus, MachineSpec, MachineStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    use super::*;

    fn deployment(counts: [i32; 3], observed: i64) -> MachineDeployment {
        MachineDeployment {
            metadata: ObjectMeta {
                name: Some("d".into()),
                generation: Some(observed),
                ..Default::default()
            },
            status: Some(MachineDeploymentStatus {
                observed_generation: Some(observed),
                replicas: Some(counts[0]),
                updated_replicas: Some(counts[1]),
                available_replicas: Some(counts[2]),
                ..Default::default()
            }),
            ..Default::default()
        }
    }

    const WANTED: [Wanted<'static>; 1] = [Wanted {
        name: "d",
        class: "c",
        replicas: 1,
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
}
