//! Which deploy tasks a write of a Shoot requests of gardenlet, in annotation `shoot.gardener.cloud/tasks`
//! (gardener/gardener v1.150 plugin/pkg/shoot/mutator). It never removes a task: gardenlet does, when it is done.

use std::collections::BTreeSet;

use api_meta::annotations::{OPERATION, SHOOT_TASKS, operation, task};
use cluster_apiserver::Status;
use cluster_apiserver::kind::{Call, Objects, Operation};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::AdmissionPlugin;
use crate::admission::Plugin;
use crate::convert::annotation;
use crate::prepare::annotate;

const DNS: [&str; 3] = [
    task::DEPLOY_DNS_RECORD_INTERNAL,
    task::DEPLOY_DNS_RECORD_EXTERNAL,
    task::DEPLOY_DNS_RECORD_INGRESS,
];

/// Adds tasks on admission.
pub(crate) struct DeployTasks;

impl Plugin for DeployTasks {
    fn name(&self) -> Option<AdmissionPlugin> {
        Some(AdmissionPlugin::ShootMutator)
    }

    fn admit<'a>(
        &'a self,
        call: Call<'a>,
        object: &'a mut Value,
        old: Option<&'a Value>,
        _objects: &'a dyn Objects,
    ) -> BoxFuture<'a, Result<Vec<String>, Status>> {
        if call.subresource.is_none() && call.operation != Operation::Delete {
            add(object, &wanted(object, old));
        }
        Box::pin(async { Ok(Vec::new()) })
    }
}

fn wanted(object: &Value, old: Option<&Value>) -> Vec<&'static str> {
    let Some(old) = old else {
        return [task::DEPLOY_INFRASTRUCTURE].into_iter().chain(DNS).collect();
    };
    let differs = |pointer: &str| object.pointer(pointer) != old.pointer(pointer);
    let enabled = |shoot: &Value| {
        shoot
            .pointer("/spec/hibernation/enabled")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    let requested = |name: &str| annotation(object, OPERATION).split(';').any(|part| part.trim() == name);
    let wakes_up = enabled(old) && !enabled(object);
    let mut tasks = Vec::new();
    if wakes_up
        || differs("/spec/provider/infrastructureConfig")
        || differs("/spec/provider/workersSettings/sshAccess")
        || zones(object) != zones(old)
        || requested("rotate-ssh-keypair")
        || requested(operation::ROTATE_CREDENTIALS_START)
    {
        tasks.push(task::DEPLOY_INFRASTRUCTURE);
    }
    if wakes_up || differs("/spec/dns") {
        tasks.extend(DNS);
    }
    tasks
}

/// The zones of all worker pools; one without name for pools that have none. Where upstream's users write a new zone
/// into the infrastructure's configuration as well, an extension here may read it from the pools alone.
fn zones(shoot: &Value) -> BTreeSet<&str> {
    let pools = shoot.pointer("/spec/provider/workers").and_then(Value::as_array);
    pools.into_iter().flatten().flat_map(zones_of).collect()
}

fn zones_of(pool: &Value) -> Vec<&str> {
    match pool["zones"].as_array() {
        Some(zones) if !zones.is_empty() => zones.iter().filter_map(Value::as_str).collect(),
        _ => vec![""],
    }
}

fn add(object: &mut Value, tasks: &[&str]) {
    if tasks.is_empty() {
        return;
    }
    let mut all: Vec<String> = annotation(object, SHOOT_TASKS)
        .split(',')
        .filter(|task| !task.is_empty())
        .map(str::to_owned)
        .collect();
    for task in tasks {
        if !all.iter().any(|there| there == task) {
            all.push((*task).to_owned());
        }
    }
    annotate(object, SHOOT_TASKS, &all.join(","));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_changed_decides_what_is_deployed() {
        let old = json!({"metadata": {}, "spec": {"provider": {}, "hibernation": {"enabled": true}}});
        let change = |pointer: &str, value: Value| {
            let mut new = old.clone();
            let (parent, field) = pointer.rsplit_once('/').expect("pointer");
            new.pointer_mut(parent).expect("parent")[field] = value;
            wanted(&new, Some(&old)).len()
        };
        assert_eq!(wanted(&old, None).len(), 4);
        assert_eq!(change("/spec/purpose", json!("testing")), 0);
        assert_eq!(change("/spec/provider/infrastructureConfig", json!({"a": 1})), 1);
        assert_eq!(change("/spec/dns", json!({"domain": "x.y"})), 3);
        assert_eq!(change("/spec/hibernation", json!({"enabled": false})), 4);
        let operation = |word: &str| change("/metadata/annotations", json!({"gardener.cloud/operation": word}));
        assert_eq!(operation("reconcile"), 0);
        assert_eq!(operation("rotate-ssh-keypair"), 1);
    }

    #[test]
    fn infrastructure_is_deployed_for_a_zone_that_no_pool_had_before() {
        let shoot = |pools: Value| json!({"metadata": {}, "spec": {"provider": {"workers": pools}}});
        let old = shoot(json!([{"name": "a", "zones": ["x"]}, {"name": "b", "zones": ["y"]}]));
        let deploys = |pools: Value| wanted(&shoot(pools), Some(&old)) == [task::DEPLOY_INFRASTRUCTURE];
        assert!(deploys(
            json!([{"name": "a", "zones": ["x", "z"]}, {"name": "b", "zones": ["y"]}])
        ));
        assert!(deploys(json!([{"name": "a", "zones": ["x"]}])), "one less");
        let swapped = json!([{"name": "b", "zones": ["y", "x"]}, {"name": "c", "zones": ["x"]}]);
        assert!(!deploys(swapped), "the same zones, in other pools");
        let unnamed = json!([{"name": "a", "zones": ["x"]}, {"name": "b", "zones": ["y"]}, {"name": "c"}]);
        assert!(deploys(unnamed), "a pool without zones has one without name");
    }

    #[test]
    fn tasks_add_up_without_repeating() {
        let mut shoot = json!({"metadata": {"annotations": {"shoot.gardener.cloud/tasks": "deployInfrastructure,x"}}});
        add(&mut shoot, &["deployInfrastructure", "y"]);
        assert_eq!(annotation(&shoot, SHOOT_TASKS), "deployInfrastructure,x,y");
    }
}
