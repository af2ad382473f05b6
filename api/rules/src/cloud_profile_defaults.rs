//! Defaults of CloudProfiles and of those of projects (gardener/gardener v1.150
//! pkg/apis/core/v1beta1/defaults_cloudprofile.go), and the versions that a new profile does not keep. Done twice they
//! change nothing.

use api_core::v1beta1::{
    CRI, CRIName, CloudProfile, CloudProfileSpec, MachineImageUpdateStrategy, MachineType, NamespacedCloudProfile,
    VersionClassification,
};
use jiff::Timestamp;

use crate::shoot_defaults::image_classification;
use crate::versions;

/// Architecture of machines that name none.
const ARCHITECTURE: &str = "amd64";

/// Writes today's defaults into a profile.
pub fn default_cloud_profile(profile: &mut CloudProfile) {
    let CloudProfileSpec {
        machine_images,
        machine_types,
        volume_types,
        machine_capabilities,
        ..
    } = &mut profile.spec;
    let has_capabilities = !machine_capabilities.is_empty();
    for image in machine_images {
        image.update_strategy.get_or_insert(MachineImageUpdateStrategy::Major);
        for version in &mut image.versions {
            if version.cri.is_empty() {
                version.cri.push(CRI {
                    name: CRIName::Containerd,
                    container_runtimes: Vec::new(),
                });
            }
            if version.architectures.is_empty() && !has_capabilities {
                version.architectures.push(ARCHITECTURE.to_owned());
            }
        }
    }
    for machine_type in machine_types {
        machine_type.usable.get_or_insert(true);
        write_zero_sizes(machine_type);
        if !has_capabilities {
            machine_type.architecture.get_or_insert_with(|| ARCHITECTURE.to_owned());
        }
    }
    for volume_type in volume_types {
        volume_type.usable.get_or_insert(true);
    }
}

/// Writes today's defaults into a profile of a project.
pub fn default_namespaced_cloud_profile(profile: &mut NamespacedCloudProfile) {
    for machine_type in &mut profile.spec.machine_types {
        machine_type.usable.get_or_insert(true);
        write_zero_sizes(machine_type);
    }
    for volume_type in &mut profile.spec.volume_types {
        volume_type.usable.get_or_insert(true);
    }
}

/// Writes sizes that are left out as Go writes a quantity that was never set.
fn write_zero_sizes(machine_type: &mut MachineType) {
    let MachineType { cpu, gpu, memory, .. } = machine_type;
    for size in [cpu, gpu, memory] {
        if size.0.is_empty() {
            "0".clone_into(&mut size.0);
        }
    }
}

/// Drops versions from a new profile that no shoot could use: Kubernetes versions that are expired or not yet available,
/// machine image versions that are expired.
pub fn drop_inactive_versions(profile: &mut CloudProfileSpec, now: Timestamp) {
    profile.kubernetes.versions.retain(|version| {
        !matches!(
            versions::classification(version, now),
            VersionClassification::Expired | VersionClassification::Unavailable
        )
    });
    for image in &mut profile.machine_images {
        image
            .versions
            .retain(|version| image_classification(version, now) != VersionClassification::Expired);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_profile_gets_what_machines_usually_are() {
        let mut profile: CloudProfile = serde_json::from_value(json!({"spec": {
            "machineImages": [{"name": "i", "versions": [{"version": "1.0.0"}]}], "machineTypes": [{"name": "m"}],
            "volumeTypes": [{"name": "v", "usable": false}]}}))
        .unwrap();
        default_cloud_profile(&mut profile);
        let once = profile.clone();
        default_cloud_profile(&mut profile);
        assert_eq!(profile, once);
        let spec = serde_json::to_value(&profile.spec).unwrap();
        assert_eq!(
            spec["machineImages"],
            json!([{"name": "i", "updateStrategy": "major",
                "versions": [{"version": "1.0.0", "architectures": ["amd64"], "cri": [{"name": "containerd"}]}]}])
        );
        assert_eq!(
            (&spec["machineTypes"][0]["usable"], &spec["volumeTypes"][0]["usable"]),
            (&json!(true), &json!(false))
        );
        assert_eq!(spec["machineTypes"][0]["architecture"], "amd64");
    }

    #[test]
    fn a_new_profile_keeps_no_expired_version() {
        let mut profile: CloudProfileSpec = serde_json::from_value(json!({
            "kubernetes": {"versions": [{"version": "1.35.0"}, {"version": "1.34.0", "expirationDate": "1970-01-01T00:00:00Z"}]},
            "machineImages": [{"name": "i", "versions": [{"version": "1.0.0", "expirationDate": "1970-01-01T00:00:00Z"}]}]}))
        .unwrap();
        drop_inactive_versions(&mut profile, Timestamp::from_second(1).unwrap());
        assert_eq!(profile.kubernetes.versions.len(), 1);
        assert!(profile.machine_images[0].versions.is_empty());
    }
}
