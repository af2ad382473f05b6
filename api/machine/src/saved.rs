//! The machines of a Worker as gardenlet stores them while a shoot moves to another seed (gardener/gardener v1.150
//! pkg/utils/gardener/shootstate and pkg/apis/extensions/v1alpha1/helper `MachineState`). In a ShootState it is compressed;
//! in `status.state` of a Worker that is to be restored it stands as it is here.

use std::collections::BTreeMap;

use api_meta::or_empty;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use crate::{ClassSpec, Machine, MachineDeployment, MachineSet};

/// Label on sets and machines with the name of their deployment, as upstream selects them.
pub const NAME_LABEL: &str = "name";

/// The machines of a Worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedMachines {
    /// By the name of the deployment.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub machine_deployments: BTreeMap<String, SavedDeployment>,
}

/// What one deployment had.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SavedDeployment {
    /// Desired machines.
    pub replicas: i32,
    /// Its sets, without status and owners.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub machine_sets: Vec<MachineSet>,
    /// Its machines, without status and owners.
    #[serde(deserialize_with = "or_empty", skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<Machine>,
}

impl SavedMachines {
    /// What is stored of these objects of one namespace. Sets and machines without a deployment are left out.
    pub fn of(deployments: &[MachineDeployment], sets: &[MachineSet], machines: &[Machine]) -> Self {
        let name = |meta: &ObjectMeta| meta.name.clone().unwrap_or_default();
        let of_deployment = |meta: &ObjectMeta, deployment: &str| {
            let label = meta.labels.as_ref().and_then(|labels| labels.get(NAME_LABEL));
            label.is_some_and(|label| label == deployment)
        };
        let saved = |deployment: &MachineDeployment| {
            let deployment_name = name(&deployment.metadata);
            let machine_sets = sets.iter().filter(|set| of_deployment(&set.metadata, &deployment_name));
            let its_machines = machines
                .iter()
                .filter(|machine| of_deployment(&machine.metadata, &deployment_name));
            let saved = SavedDeployment {
                replicas: deployment.spec.replicas.unwrap_or_default(),
                machine_sets: machine_sets
                    .map(|set| MachineSet {
                        metadata: stored(&set.metadata),
                        spec: set.spec.clone(),
                        status: None,
                    })
                    .collect(),
                machines: its_machines
                    .map(|machine| Machine {
                        metadata: stored(&machine.metadata),
                        spec: machine.spec.clone(),
                        status: None,
                    })
                    .collect(),
            };
            (deployment_name, saved)
        };
        Self {
            machine_deployments: deployments.iter().map(saved).collect(),
        }
    }
}

impl ClassSpec {
    /// Names a MachineClass.
    pub fn machine_class(name: impl Into<String>) -> Self {
        Self {
            api_group: Some("machine.sapcloud.io".to_owned()),
            kind: Some("MachineClass".to_owned()),
            name: Some(name.into()),
        }
    }
}

/// What metadata means on another seed.
fn stored(meta: &ObjectMeta) -> ObjectMeta {
    ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        labels: meta.labels.clone(),
        annotations: meta.annotations.clone(),
        ..ObjectMeta::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn machines_are_stored_by_deployment_without_what_holds_on_one_seed_alone() {
        let deployment = serde_json::from_value(json!({"metadata": {"name": "d"}, "spec": {"replicas": 2}}));
        let set = json!({"metadata": {"name": "s", "labels": {"name": "d"}, "uid": "1"}, "status": {"replicas": 1}});
        let machine = json!({
            "metadata": {"name": "m", "labels": {"name": "d"}, "finalizers": ["f"],
                "ownerReferences": [{"apiVersion": "v", "kind": "k", "name": "s", "uid": "1"}]},
            "spec": {"providerID": "p"}, "status": {"currentStatus": {"phase": "Running"}},
        });
        let stray = json!({"metadata": {"name": "x", "labels": {"name": "other"}}});
        let machines = [machine, stray].map(|value| serde_json::from_value(value).unwrap());
        let saved = SavedMachines::of(
            &[deployment.unwrap()],
            &[serde_json::from_value(set).unwrap()],
            &machines,
        );
        let text = serde_json::to_value(&saved).unwrap();
        let of_d = &text["machineDeployments"]["d"];
        assert_eq!(of_d["replicas"], 2);
        assert_eq!(of_d["machines"].as_array().unwrap().len(), 1);
        let expected = json!({"name": "m", "labels": {"name": "d"}});
        assert_eq!(of_d["machines"][0]["metadata"], expected);
        assert_eq!(of_d["machines"][0]["spec"]["providerID"], "p");
        assert_eq!(of_d["machineSets"][0]["status"], json!(null));
        assert_eq!(serde_json::from_value::<SavedMachines>(text).unwrap(), saved);
    }

    #[test]
    fn the_state_that_gardener_writes_is_read() {
        let text = json!({"machineDeployments": {"d": {"replicas": 1, "machineSets": null, "machines": [
            {"metadata": {"name": "m", "creationTimestamp": null}, "spec": {"providerID": "p"}, "status": {}},
        ]}}});
        let saved: SavedMachines = serde_json::from_value(text).unwrap();
        let machine = &saved.machine_deployments["d"].machines[0];
        assert_eq!(machine.spec.provider_id.as_deref(), Some("p"));
    }
}
