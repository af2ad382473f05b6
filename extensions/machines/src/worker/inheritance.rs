//! What of the machines that another seed has left belongs to which deployment, class and set here. Pure.
//!
//! A machine stays what it is: its name, its provider ID and its class. Where its class is the planned one, it belongs to the
//! set of the planned template; otherwise the class is made again under its name after the planned one, so that the machine can
//! be replaced or removed: for that a driver needs nothing but credentials and the provider ID.

use std::collections::BTreeMap;

use api_machine::{ClassSpec, Machine, MachineClass, MachineSet, MachineTemplateSpec, SavedDeployment, SavedMachines};
use api_meta::{ErrorCode, Fault};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

use super::classes::Marks;
use super::plan::{Planned, meta};
use crate::deployment::{labelled, new_set, template_hash};
use crate::names::{FINALIZER, TEMPLATE_HASH_LABEL};
use crate::passed_on::pass_on;

/// A deployment with the machines that it inherits.
pub(super) struct Inherited {
    /// The deployment with its class; wanted without machines where the Worker has no such pool or zone any more.
    pub(super) plan: Planned,
    /// Desired machines.
    pub(super) replicas: i32,
    /// Its sets. The one of the planned class comes last.
    pub(super) sets: Vec<InheritedSet>,
}

/// A set with its machines, which have no owner yet.
pub(super) struct InheritedSet {
    pub(super) class: MachineClass,
    pub(super) set: MachineSet,
    pub(super) machines: Vec<Machine>,
}

/// What is inherited of `saved` by the deployments of `planned`.
///
/// # Errors
/// A machine without a class; a bug: a template cannot be JSON.
pub(super) fn inherit(
    planned: &[Planned],
    saved: &SavedMachines,
    marks: Marks,
    hibernated: bool,
) -> Result<Vec<Inherited>, Fault> {
    let mut inherited = Vec::new();
    for (name, of_deployment) in &saved.machine_deployments {
        let plan = planned.iter().find(|plan| plan.name() == name);
        let Some(plan) = plan
            .cloned()
            .or_else(|| planned.first().map(|like| unwanted(like, name, of_deployment, marks)))
        else {
            continue;
        };
        let sets = sets_of(&plan, of_deployment)?;
        inherited.push(Inherited {
            replicas: plan.replicas(Some(of_deployment.replicas), hibernated),
            plan,
            sets,
        });
    }
    Ok(inherited)
}

/// A deployment that the Worker has no pool or zone for any more: its machines are taken over in order to be removed.
fn unwanted(like: &Planned, name: &str, saved: &SavedDeployment, marks: Marks) -> Planned {
    let namespace = like.class.metadata.namespace.clone().unwrap_or_default();
    let class = format!("{name}-unwanted");
    let mut plan = like.clone();
    (plan.minimum, plan.maximum) = (0, 0);
    plan.class = class_like(&like.class, &class);
    plan.deployment.metadata = meta(&namespace, name, marks);
    let labels = BTreeMap::from([(api_machine::NAME_LABEL.to_owned(), name.to_owned())]);
    let spec = &mut plan.deployment.spec;
    spec.selector.get_or_insert_default().match_labels = Some(labels.clone());
    let mut of_machines = marks.labels();
    of_machines.extend(labels);
    spec.template.metadata = ObjectMeta {
        labels: Some(of_machines),
        ..ObjectMeta::default()
    };
    spec.template = template_of(&spec.template, &class);
    // Labels, annotations and taints of nodes, and times, stay those of its own machines, and are not the other pool's.
    let own = saved.machines.first().map(|machine| machine.spec.clone());
    pass_on(&own.unwrap_or_default(), spec.template.spec.get_or_insert_default());
    plan
}

/// A class of another name, with a Secret of its own.
fn class_like(class: &MachineClass, name: &str) -> MachineClass {
    let mut class = class.clone();
    class.metadata.name = Some(name.to_owned());
    if let Some(secret) = &mut class.secret_ref {
        secret.name = Some(name.to_owned());
    }
    class
}

fn template_of(template: &MachineTemplateSpec, class: &str) -> MachineTemplateSpec {
    let mut template = template.clone();
    template.spec.get_or_insert_default().class = Some(ClassSpec::machine_class(class));
    template
}

fn class_of(class: Option<&ClassSpec>) -> &str {
    class.and_then(|class| class.name.as_deref()).unwrap_or_default()
}

fn without_class(deployment: &str, machine: &Machine) -> Fault {
    let name = machine.name_any();
    Fault::user(format!(
        "status.state of the Worker: machineDeployments.{deployment}.machines: {name} has no spec.class.name, and a machine can only \
         be taken over, replaced or removed by its class"
    ))
    .code(ErrorCode::ConfigurationProblem)
    .hint(format!(
        "add spec.class.name to the machine {name} in the ShootState's machine-state, or take it out there and delete it in the cloud"
    ))
}

fn sets_of(plan: &Planned, saved: &SavedDeployment) -> Result<Vec<InheritedSet>, Fault> {
    let mut by_class: BTreeMap<&str, Vec<&Machine>> = BTreeMap::from([(plan.class_name(), Vec::new())]);
    for machine in &saved.machines {
        let class = class_of(machine.spec.class.as_ref());
        if class.is_empty() {
            return Err(without_class(plan.name(), machine));
        }
        by_class.entry(class).or_default().push(machine);
    }
    let mut sets = Vec::new();
    for (class, machines) in by_class {
        let template = template_of(&plan.deployment.spec.template, class);
        let hash = template_hash(&template)?;
        let mut set = new_set(&plan.deployment, &format!("{}-{hash}", plan.name()), &hash);
        set.spec.template = Some(labelled(&template, &hash));
        set.spec.replicas = Some(i32::try_from(machines.len()).unwrap_or(i32::MAX));
        let machines = machines.into_iter().map(|machine| taken_over(machine, &set)).collect();
        sets.push(InheritedSet {
            class: class_like(&plan.class, class),
            set,
            machines,
        });
    }
    sets.sort_by_key(|set| set.class.name_any() == plan.class_name());
    Ok(sets)
}

/// The machine as it is created here.
fn taken_over(machine: &Machine, set: &MachineSet) -> Machine {
    let mut labels = machine.metadata.labels.clone().unwrap_or_default();
    labels.remove(TEMPLATE_HASH_LABEL);
    labels.extend(set.metadata.labels.clone().unwrap_or_default());
    Machine {
        metadata: ObjectMeta {
            name: machine.metadata.name.clone(),
            namespace: set.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: machine.metadata.annotations.clone(),
            finalizers: Some(vec![FINALIZER.to_owned()]),
            ..ObjectMeta::default()
        },
        spec: machine.spec.clone(),
        status: None,
    }
}

#[cfg(test)]
mod tests {
    use api_extensions::{Worker, WorkerPool};
    use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
    use serde_json::json;

    use super::*;
    use crate::worker::classes::ClassPart;
    use crate::worker::plan::plan;

    const MARKS: Marks = Marks {
        label: "test/made-for",
        value: "worker",
        manager: "test",
    };

    fn planned() -> Vec<Planned> {
        let mut worker = Worker::default();
        worker.metadata.namespace = Some("ns".into());
        worker.spec.pools = vec![WorkerPool {
            name: "p".into(),
            minimum: 1,
            maximum: 5,
            max_surge: IntOrString::Int(1),
            node_agent_secret_name: Some("agent".into()),
            labels: [("of".to_owned(), "p".to_owned())].into(),
            ..Default::default()
        }];
        plan(&worker, "x", MARKS, |_| Ok(ClassPart::new(1, json!({}).into()))).unwrap()
    }

    fn machine(name: &str, class: &str) -> Machine {
        serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {"node": name, TEMPLATE_HASH_LABEL: "go"}},
            "spec": {"class": {"name": class}, "providerID": format!("x://{name}")},
        }))
        .unwrap()
    }

    fn saved(deployment: &str, machines: Vec<Machine>) -> SavedMachines {
        let saved = SavedDeployment {
            replicas: 3,
            machines,
            ..Default::default()
        };
        SavedMachines {
            machine_deployments: [(deployment.to_owned(), saved)].into(),
        }
    }

    #[test]
    fn machines_of_the_planned_class_belong_to_the_set_the_deployment_expects() {
        let planned = planned();
        let class = planned[0].class_name().to_owned();
        let saved = saved("ns-p-z1", vec![machine("a", &class), machine("b", "ns-p-z1-old")]);
        let inherited = inherit(&planned, &saved, MARKS, false).unwrap();
        assert_eq!((inherited.len(), inherited[0].replicas), (1, 3));
        let [old, new] = inherited[0].sets.as_slice() else {
            panic!("two sets")
        };
        assert_eq!(new.class, planned[0].class);
        let hash = template_hash(&planned[0].deployment.spec.template).unwrap();
        assert_eq!(new.set.name_any(), format!("ns-p-z1-{hash}"));
        assert_eq!((new.set.spec.replicas, old.set.spec.replicas), (Some(1), Some(1)));
        assert_eq!(old.class.name_any(), "ns-p-z1-old");
        assert_eq!(new.machines[0].spec.provider_id.as_deref(), Some("x://a"));
        let labels = new.machines[0].labels();
        assert_eq!((labels["node"].as_str(), &labels[TEMPLATE_HASH_LABEL]), ("a", &hash));
        assert_eq!(labels["test/made-for"], "worker");
    }

    #[test]
    fn machines_of_a_removed_pool_are_inherited_and_then_removed() {
        let mut machine = machine("a", "ns-q-z1-old");
        let of_q = json!({"metadata": {"labels": {"of": "q"}}});
        machine.spec.node_template = serde_json::from_value(of_q).unwrap();
        let own = machine.spec.node_template.clone();
        let saved = saved("ns-q-z1", vec![machine]);
        let inherited = inherit(&planned(), &saved, MARKS, false).unwrap();
        assert_eq!((inherited[0].plan.name(), inherited[0].replicas), ("ns-q-z1", 0));
        let machine = &inherited[0].sets[0].machines[0];
        assert_eq!(machine.labels()[api_machine::NAME_LABEL], "ns-q-z1");
        let template = &inherited[0].plan.deployment.spec.template;
        assert_eq!(
            template.spec.as_ref().unwrap().node_template,
            own,
            "not that of another pool"
        );
        let labels = [("name", "ns-q-z1"), ("test/made-for", "worker")];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(template.metadata.labels, Some(labels.into()));
        assert!(inherit(&[], &saved, MARKS, false).unwrap().is_empty());
    }

    #[test]
    fn a_saved_machine_without_a_class_is_an_error_that_names_it() {
        let mut machine = machine("a", "c");
        machine.spec.class = None;
        let fault = inherit(&planned(), &saved("ns-p-z1", vec![machine]), MARKS, false)
            .err()
            .unwrap();
        assert!(
            fault
                .to_string()
                .contains("machineDeployments.ns-p-z1.machines: a has no"),
            "{fault}"
        );
        assert!(
            fault.hint.contains("add spec.class.name to the machine a"),
            "{}",
            fault.hint
        );
    }
}
