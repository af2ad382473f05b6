//! Rules of CloudProfiles (gardener/gardener v1.150 pkg/api/core/validation/cloudprofile.go). The provider's own
//! configuration is never looked at.

use api_core::v1beta1::{
    CloudProfile, ExpirableVersion, MachineImage, MachineImageUpdateStrategy, VersionClassification,
};

use crate::checks::{distinct, dns_label, known, name, not_empty};
use crate::{FieldError, Path, versions};

/// CPU architectures that machines may have.
pub(crate) const ARCHITECTURES: [&str; 2] = ["amd64", "arm64"];

/// Everything that is wrong with a profile by itself.
pub fn validate_cloud_profile(profile: &CloudProfile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&profile.spec, Path::new("spec"));
    dns_label(&mut errors, &Path::new("metadata.name"), name(&profile.metadata));
    not_empty(&mut errors, &path.child("type"), &spec.type_);
    validate_versions(
        &mut errors,
        &path.child("kubernetes.versions"),
        &spec.kubernetes.versions,
    );
    if spec.regions.is_empty() {
        errors.push(path.child("regions").required("must provide at least one region"));
    }
    let regions = path.child("regions");
    distinct(&mut errors, spec.regions.iter().map(|r| r.name.as_str()), |index| {
        regions.index(index).child("name")
    });
    for (index, region) in spec.regions.iter().enumerate() {
        let path = regions.index(index);
        not_empty(&mut errors, &path.child("name"), &region.name);
        let zones = path.child("zones");
        distinct(&mut errors, region.zones.iter().map(|z| z.name.as_str()), |index| {
            zones.index(index).child("name")
        });
    }
    if spec.machine_types.is_empty() {
        errors.push(
            path.child("machineTypes")
                .required("must provide at least one machine type"),
        );
    }
    let types = path.child("machineTypes");
    distinct(
        &mut errors,
        spec.machine_types.iter().map(|t| t.name.as_str()),
        |index| types.index(index).child("name"),
    );
    for (index, machine_type) in spec.machine_types.iter().enumerate() {
        let path = types.index(index);
        not_empty(&mut errors, &path.child("name"), &machine_type.name);
        if let Some(architecture) = &machine_type.architecture {
            let known_one = ARCHITECTURES.contains(&architecture.as_str());
            known(
                &mut errors,
                &path.child("architecture"),
                known_one,
                architecture,
                &ARCHITECTURES,
            );
        }
    }
    let volumes = path.child("volumeTypes");
    distinct(
        &mut errors,
        spec.volume_types.iter().map(|t| t.name.as_str()),
        |index| volumes.index(index).child("name"),
    );
    validate_images(&mut errors, &path.child("machineImages"), &spec.machine_images);
    if spec
        .limits
        .as_ref()
        .and_then(|limits| limits.max_nodes_total)
        .is_some_and(|max| max <= 0)
    {
        errors.push(path.child("limits.maxNodesTotal").forbidden("must be above zero"));
    }
    errors
}

fn validate_versions(errors: &mut Vec<FieldError>, path: &Path, versions: &[ExpirableVersion]) {
    if versions.is_empty() {
        errors.push(path.required("must provide at least one Kubernetes version"));
    }
    distinct(errors, versions.iter().map(|v| v.version.as_str()), |index| {
        path.index(index).child("version")
    });
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if !versions::is_full(&version.version) {
            errors.push(
                path.child("version")
                    .invalid(&version.version, "must be a full version such as \"1.35.2\""),
            );
        }
        validate_classification(errors, &path, version.classification.as_ref());
    }
}

fn validate_classification(errors: &mut Vec<FieldError>, path: &Path, classification: Option<&VersionClassification>) {
    if let Some(word) = classification {
        known(
            errors,
            &path.child("classification"),
            word.is_known(),
            word.as_str(),
            VersionClassification::KNOWN,
        );
    }
}

fn validate_images(errors: &mut Vec<FieldError>, path: &Path, images: &[MachineImage]) {
    if images.is_empty() {
        errors.push(path.required("must provide at least one machine image"));
    }
    distinct(errors, images.iter().map(|image| image.name.as_str()), |index| {
        path.index(index).child("name")
    });
    for (index, image) in images.iter().enumerate() {
        let path = path.index(index);
        not_empty(errors, &path.child("name"), &image.name);
        if let Some(strategy) = &image.update_strategy {
            let path = path.child("updateStrategy");
            known(
                errors,
                &path,
                strategy.is_known(),
                strategy.as_str(),
                MachineImageUpdateStrategy::KNOWN,
            );
        }
        let versions = path.child("versions");
        if image.versions.is_empty() {
            errors.push(versions.required("must provide at least one version for the machine image"));
        }
        distinct(errors, image.versions.iter().map(|v| v.version.as_str()), |index| {
            versions.index(index).child("version")
        });
        for (index, version) in image.versions.iter().enumerate() {
            let path = versions.index(index);
            if versions::parse(&version.version).is_none() {
                errors.push(
                    path.child("version")
                        .invalid(&version.version, "must be a version such as \"1.2.3\""),
                );
            }
            validate_classification(errors, &path, version.classification.as_ref());
            for (index, architecture) in version.architectures.iter().enumerate() {
                let known_one = ARCHITECTURES.contains(&architecture.as_str());
                known(
                    errors,
                    &path.child("architectures").index(index),
                    known_one,
                    architecture,
                    &ARCHITECTURES,
                );
            }
        }
    }
}

/// Everything that is wrong with a change of a profile.
pub fn validate_cloud_profile_update(new: &CloudProfile, old: &CloudProfile) -> Vec<FieldError> {
    let mut errors = validate_cloud_profile(new);
    errors.extend(Path::new("spec.type").immutable(&new.spec.type_, &old.spec.type_));
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_profile_offers_something_of_everything_once() {
        let good: CloudProfile = serde_json::from_value(json!({"metadata": {"name": "local"}, "spec": {
            "type": "local", "regions": [{"name": "local"}], "kubernetes": {"versions": [{"version": "1.35.0"}]},
            "machineTypes": [{"name": "local", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
            "machineImages": [{"name": "local", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}]}}))
        .unwrap();
        assert_eq!(validate_cloud_profile(&good), []);
        let mut bad = good.clone();
        bad.spec.regions.push(bad.spec.regions[0].clone());
        bad.spec.kubernetes.versions[0].version = "1.35".into();
        bad.spec.machine_images[0].versions[0].architectures = vec!["sparc".into()];
        let paths: Vec<String> = validate_cloud_profile(&bad)
            .into_iter()
            .map(|error| error.path)
            .collect();
        assert_eq!(
            paths,
            [
                "spec.kubernetes.versions[0].version",
                "spec.regions[1].name",
                "spec.machineImages[0].versions[0].architectures[0]"
            ]
        );
        let mut other = good.clone();
        other.spec.type_ = "remote".into();
        assert_eq!(validate_cloud_profile_update(&other, &good)[0].path, "spec.type");
        assert_eq!(validate_cloud_profile(&CloudProfile::default()).len(), 6);
    }
}
