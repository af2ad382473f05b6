//! `resources.gardener.cloud/v1alpha1`: ManagedResource. It only describes; resource-manager applies.

pub mod data;
mod managed_resource;

use api_meta::crd::Definition;
use api_meta::labels;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

pub use managed_resource::{
    GroupKind, ManagedResource, ManagedResourceSpec, ManagedResourceStatus, ObjectReference, not_applied,
};

/// The definition of ManagedResource, with columns as Gardener has them
/// (gardener/gardener v1.150 pkg/component/gardener/resourcemanager/templates).
pub fn crds() -> Vec<CustomResourceDefinition> {
    vec![
        Definition::of::<ManagedResource>()
            .label(labels::DELETION_PROTECTED, "true")
            .short_name("mr")
            .status()
            .column("Class", ".spec.class")
            .column("Applied", r#".status.conditions[?(@.type=="ResourcesApplied")].status"#)
            .column("Healthy", r#".status.conditions[?(@.type=="ResourcesHealthy")].status"#)
            .column(
                "Progressing",
                r#".status.conditions[?(@.type=="ResourcesProgressing")].status"#,
            )
            .age()
            .build(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_managed_resource_comes_back_with_every_field() {
        api_meta::schema::round_trip::<ManagedResource>().unwrap();
    }

    #[test]
    fn the_definition_shows_the_three_conditions() {
        let crd = crds().remove(0);
        let columns: Vec<String> = crd.spec.versions[0]
            .additional_printer_columns
            .iter()
            .flatten()
            .map(|c| c.name.clone())
            .collect();
        assert_eq!(columns, ["Class", "Applied", "Healthy", "Progressing", "Age"]);
    }
}
