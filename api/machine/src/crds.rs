//! The four definitions of the group `machine.sapcloud.io`, with columns as the machine-controller-manager has them
//! (gardener/machine-controller-manager kubernetes/crds).

use api_meta::crd::Definition;
use api_meta::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::{Machine, MachineClass, MachineDeployment, MachineSet};

/// The definitions of MachineClass, MachineDeployment, Machine and MachineSet.
pub fn crds() -> Vec<CustomResourceDefinition> {
    [
        Definition::of::<MachineClass>().short_name("mcc"),
        Definition::of::<MachineDeployment>()
            .short_name("mcd")
            .status()
            .scale()
            .typed_column("Ready", "integer", ".status.readyReplicas")
            .typed_column("Desired", "integer", ".spec.replicas")
            .typed_column("Up-to-date", "integer", ".status.updatedReplicas")
            .typed_column("Available", "integer", ".status.availableReplicas")
            .age(),
        Definition::of::<Machine>()
            .short_name("mc")
            .status()
            .column("Status", ".status.currentStatus.phase")
            .age()
            .column("Node", ".metadata.labels.node"),
        Definition::of::<MachineSet>()
            .short_name("mcs")
            .status()
            .scale()
            .typed_column("Desired", "integer", ".spec.replicas")
            .typed_column("Current", "integer", ".status.replicas")
            .typed_column("Ready", "integer", ".status.readyReplicas")
            .age(),
    ]
    .into_iter()
    .map(|definition| definition.label(labels::DELETION_PROTECTED, "true").build())
    .collect()
}

#[cfg(test)]
mod tests {
    use api_meta::schema::round_trip;

    use super::*;

    #[test]
    fn every_kind_comes_back_with_every_field() {
        round_trip::<MachineClass>().unwrap();
        round_trip::<MachineDeployment>().unwrap();
        round_trip::<Machine>().unwrap();
        round_trip::<MachineSet>().unwrap();
    }

    #[test]
    fn deployments_and_sets_can_be_scaled() {
        let scalable: Vec<String> = crds()
            .into_iter()
            .filter(|crd| {
                crd.spec.versions[0]
                    .subresources
                    .as_ref()
                    .is_some_and(|s| s.scale.is_some())
            })
            .map(|crd| crd.spec.names.kind)
            .collect();
        assert_eq!(scalable, ["MachineDeployment", "MachineSet"]);
    }
}
