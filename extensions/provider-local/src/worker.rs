//! Worker: what this provider puts into machine classes. Deployments, waits and the rest are those of `extensions-machines`.

use api_extensions::Worker;
use api_meta::{ErrorCode, Fault};
use async_trait::async_trait;
use extensions_machines::{ClassPart, MachineClasses, Marks, Place};
use extensions_sdk::Context;
use serde_json::json;

use crate::objects::MADE_FOR_LABEL;
use crate::provider_status::{API_VERSION, InfrastructureStatus};
use crate::run::EXTENSION_NAME;

/// Machines are pods in the networks of the Infrastructure.
pub(crate) struct PodClasses;

#[async_trait]
impl MachineClasses for PodClasses {
    type Facts = InfrastructureStatus;

    fn marks(&self) -> Marks {
        Marks {
            label: MADE_FOR_LABEL,
            value: "worker",
            manager: EXTENSION_NAME,
        }
    }

    async fn facts(&self, _: &Context, worker: &Worker) -> Result<InfrastructureStatus, Fault> {
        InfrastructureStatus::read(worker.spec.infrastructure_provider_status.as_ref(), "the Worker")
    }

    fn class(&self, infrastructure: &InfrastructureStatus, place: Place<'_>) -> Result<ClassPart, Fault> {
        let Place { pool, zone, .. } = place;
        let network = &infrastructure.network;
        let (number, subnet) = network.subnet(zone).ok_or_else(|| {
            Fault::dependency(format!(
                "pool {}: the infrastructure has no subnet in zone {zone:?}",
                pool.name
            ))
            .code(ErrorCode::RetryableConfigurationProblem)
            .hint("reconcile the Infrastructure: it was made before the zone was added")
        })?;
        let provider_spec = json!({
            "apiVersion": API_VERSION, "kind": "ProviderSpec",
            "machineType": pool.machine_type, "networkID": network.id, "subnet": subnet.cidr,
        });
        let config = pool.provider_config.as_ref().map(|raw| raw.get());
        // Upstream does not count the zone, and gives a machine's class to another when zones change places.
        let zone = (!zone.is_empty()).then_some(zone);
        Ok(ClassPart {
            hash_data: config.into_iter().chain(zone).map(str::to_owned).collect(),
            ..ClassPart::new(number, provider_spec.into())
        })
    }

    fn where_to_look(&self) -> &str {
        "the machine named, at its pod's log and at its OperatingSystemConfig"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extensions_machines::{Planned, plan};
    use kube::ResourceExt;
    use serde_json::Value;

    use super::*;
    use crate::provider_status::{NetworkStatus, Subnet};

    fn infrastructure(zones: &[&str]) -> InfrastructureStatus {
        let subnets = (0..)
            .zip(zones)
            .map(|(number, zone)| Subnet {
                zone: (*zone).into(),
                cidr: format!("10.0.{}.0/20", 16 * number),
            })
            .collect();
        let network = NetworkStatus {
            id: 1,
            cidr: "10.0.0.0/16".into(),
            subnets,
            egress_cidrs: vec![],
        };
        InfrastructureStatus::new("ns", network)
    }

    fn planned(pools: Value, zones: &[&str]) -> Result<Vec<Planned>, Fault> {
        let worker: Worker = serde_json::from_value(json!({
            "metadata": {"namespace": "shoot--zoo--ape", "name": "ape"},
            "spec": {"type": "x", "region": "r", "secretRef": {"name": "c"}, "pools": pools},
        }))
        .unwrap();
        let infrastructure = infrastructure(zones);
        plan(&worker, "x", PodClasses.marks(), |place| {
            PodClasses.class(&infrastructure, place)
        })
    }

    fn in_zones(zones: &[&str]) -> Value {
        json!([{
            "name": "p", "machineType": "m", "minimum": 1, "maximum": 1, "maxSurge": 1, "maxUnavailable": 0,
            "nodeAgentSecretName": "gardener-node-agent-p-0123456789abcdef", "zones": zones,
            "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
        }])
    }

    #[test]
    fn names_and_classes_of_a_zone_are_independent_of_other_zones() {
        /// Zone, deployment and class of each.
        fn placed(zones: &[&str], parts: &[&str]) -> BTreeMap<String, (String, String)> {
            let plans = planned(in_zones(zones), parts).unwrap();
            let place = |plan: &Planned| {
                let zone = plan.class.node_template.as_ref().unwrap().zone.clone();
                (zone, (plan.deployment.name_any(), plan.class.name_any()))
            };
            plans.iter().map(place).collect()
        }
        let both = placed(&["a", "b"], &["a", "b"]);
        assert_eq!(placed(&["b"], &["a", "b"])["b"], both["b"]);
        let alone = placed(&["a"], &["a"]);
        let swapped = placed(&["b", "a"], &["a", "b"]);
        assert_eq!((&swapped["a"], &swapped["b"]), (&alone["a"], &both["b"]));
        // The one subnet there is, given to another zone: machines of the old class are replaced, and it is not rewritten.
        let (before, after) = (&alone["a"], &placed(&["z"], &["z"])["z"]);
        assert!(before.0 == after.0 && before.1 != after.1, "{before:?} {after:?}");
    }

    #[test]
    fn a_zone_without_subnet_is_named() {
        let fault = planned(in_zones(&["z"]), &["a"]).unwrap_err();
        assert!(fault.to_string().contains("\"z\""), "{fault}");
        assert_eq!(planned(in_zones(&[]), &[""]).unwrap().len(), 1);
    }

    /// The file was written by the version before Workers became generic: another name or template replaces machines of shoots
    /// that exist.
    #[test]
    fn names_hashes_and_objects_stay_as_they_are() {
        let pools = json!([
            {
                "name": "p", "machineType": "m", "minimum": 4, "maximum": 5, "maxSurge": 2, "maxUnavailable": "50%",
                "nodeAgentSecretName": "gardener-node-agent-p-0123456789abcdef", "zones": ["c", "a"],
                "labels": {"l": "1"}, "annotations": {"n": "2"}, "taints": [{"key": "t", "effect": "NoSchedule"}],
                "architecture": "arm64", "priority": 7, "providerConfig": {"b": 1, "a": [2]},
                "nodeTemplate": {"capacity": {"cpu": "4", "memory": "8Gi"}},
                "machineControllerManager": {"machineDrainTimeout": "10m0s", "machineHealthTimeout": "3m0s",
                    "machineCreationTimeout": "7m0s", "maxEvictRetries": 3, "disableHealthTimeout": true},
                "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
            },
            {
                "name": "q", "machineType": "m2", "minimum": 0, "maximum": 1, "maxSurge": 1, "maxUnavailable": 0,
                "nodeAgentSecretName": "gardener-node-agent-q-0", "zones": ["b"],
                "userDataSecretRef": {"name": "user-data", "key": "cloud_config"},
            },
        ]);
        let planned = planned(pools, &["a", "b", "c"]).unwrap();
        let objects = planned.iter().map(|plan| {
            let mut deployment = plan.deployment.clone();
            deployment.spec.replicas = Some(plan.replicas(None, false));
            json!({"class": plan.class, "deployment": deployment})
        });
        let text = serde_json::to_string_pretty(&objects.collect::<Vec<Value>>()).unwrap();
        tests_kit::assert_golden(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/worker.json"), &text);
    }
}
