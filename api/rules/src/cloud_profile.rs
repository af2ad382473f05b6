//! Rules of CloudProfiles (gardener/gardener v1.150 pkg/api/core/validation/cloudprofile.go). The provider's own
//! configuration is never looked at.

use std::collections::BTreeMap;

use api_core::v1beta1::{
    CloudProfile, CloudProfileSpec, ExpirableVersion, MachineImage, MachineImageUpdateStrategy, MachineType,
    VersionClassification,
};

use crate::capabilities::{self, Defined};
use crate::checks::{distinct, dns_label, known, name, not_empty};
use crate::shoot_values::is_bundle;
use crate::{FieldError, Path, quantity, versions};

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
        errors.push(
            path.child("regions")
                .required("must provide at least one region; add one"),
        );
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
        for (index, zone) in region.zones.iter().enumerate() {
            not_empty(&mut errors, &zones.index(index).child("name"), &zone.name);
        }
    }
    if spec.machine_types.is_empty() {
        errors.push(
            path.child("machineTypes")
                .required("must provide at least one machine type; add one"),
        );
    }
    let defined = capabilities::validate_definitions(
        &mut errors,
        &path.child("machineCapabilities"),
        &spec.machine_capabilities,
    );
    let types = path.child("machineTypes");
    distinct(
        &mut errors,
        spec.machine_types.iter().map(|t| t.name.as_str()),
        |index| types.index(index).child("name"),
    );
    for (index, machine_type) in spec.machine_types.iter().enumerate() {
        let path = types.index(index);
        not_empty(&mut errors, &path.child("name"), &machine_type.name);
        validate_machine_sizes(&mut errors, &path, machine_type);
        capabilities::validate_machine_type(&mut errors, &path, machine_type, &defined);
    }
    validate_images(
        &mut errors,
        &path.child("machineImages"),
        &spec.machine_images,
        &defined,
    );
    validate_rest(&mut errors, &path, spec);
    errors
}

/// Volumes, certificates, bastions and limits.
fn validate_rest(errors: &mut Vec<FieldError>, path: &Path, spec: &CloudProfileSpec) {
    let volumes = path.child("volumeTypes");
    distinct(errors, spec.volume_types.iter().map(|t| t.name.as_str()), |index| {
        volumes.index(index).child("name")
    });
    for (index, volume_type) in spec.volume_types.iter().enumerate() {
        let path = volumes.index(index);
        not_empty(errors, &path.child("name"), &volume_type.name);
        not_empty(errors, &path.child("class"), &volume_type.class);
    }
    if spec.ca_bundle.as_deref().is_some_and(|bundle| !is_bundle(bundle)) {
        errors.push(path.child("caBundle").invalid(
            &spec.ca_bundle,
            "must be certificates in PEM; paste them with their BEGIN and END lines",
        ));
    }
    let bastion = spec.bastion.as_ref();
    if bastion.is_some_and(|bastion| bastion.machine_image.is_none() && bastion.machine_type.is_none()) {
        errors.push(path.child("bastion").invalid(
            &spec.bastion,
            "must name a machine type, a machine image or both; set one, or leave the field out",
        ));
    }
    if spec
        .limits
        .as_ref()
        .and_then(|limits| limits.max_nodes_total)
        .is_some_and(|max| max <= 0)
    {
        let max = spec.limits.as_ref().and_then(|limits| limits.max_nodes_total);
        errors.push(
            path.child("limits.maxNodesTotal")
                .invalid(max, "must be above zero; leave it out for no limit"),
        );
    }
}

fn validate_versions(errors: &mut Vec<FieldError>, path: &Path, versions: &[ExpirableVersion]) {
    if versions.is_empty() {
        errors.push(path.required("must provide at least one Kubernetes version; add one"));
    }
    distinct(errors, versions.iter().map(|v| v.version.as_str()), |index| {
        path.index(index).child("version")
    });
    for (index, version) in versions.iter().enumerate() {
        let path = path.index(index);
        if !versions::is_full(&version.version) {
            errors.push(path.invalid(&version.version, "must be a full version; write it as \"1.35.2\""));
        }
        validate_classification(errors, &path, version.classification.as_ref());
    }
    validate_choice(errors, path, versions);
}

/// One supported version per minor version, and one newest version that never expires.
fn validate_choice(errors: &mut Vec<FieldError>, path: &Path, versions: &[ExpirableVersion]) {
    let minor = |version: &ExpirableVersion| versions::parse(&version.version).map(|v| (v.major, v.minor));
    let is_supported = |version: &&ExpirableVersion| version.classification == Some(VersionClassification::Supported);
    let mut supported: BTreeMap<(u64, u64), Vec<usize>> = BTreeMap::new();
    for (index, version) in versions.iter().enumerate().filter(|(_, version)| is_supported(version)) {
        if let Some(minor) = minor(version) {
            supported.entry(minor).or_default().push(index);
        }
    }
    let too_many: BTreeMap<usize, usize> = supported
        .values()
        .filter(|same| same.len() > 1)
        .flat_map(|same| same.iter().map(|index| (*index, same.len())))
        .collect();
    for (index, same) in too_many {
        errors.push(path.index(index).forbidden(format!(
            "{} is one of {same} supported versions of its minor version; make the others deprecated",
            versions[index].version
        )));
    }
    let newest = versions.iter().filter(|version| versions::is_full(&version.version));
    let newest = newest.max_by_key(|version| versions::parse(&version.version));
    match newest {
        None => errors.push(path.invalid("", "has no newest version, which new Shoots get; add one")),
        Some(version) => {
            if let Some(end) = &version.expiration_date {
                let words = format!("must not be set for the newest version, {}; remove it", version.version);
                let field = Path::new(&format!("{path}[].expirationDate"));
                errors.push(field.invalid(end, words));
            }
        }
    }
}

fn validate_machine_sizes(errors: &mut Vec<FieldError>, path: &Path, machine_type: &MachineType) {
    let sizes = [
        ("cpu", &machine_type.cpu),
        ("gpu", &machine_type.gpu),
        ("memory", &machine_type.memory),
    ];
    for (field, size) in sizes {
        if quantity::value(&size.0).is_some_and(|size| size < 0.0) {
            errors.push(
                path.child(field)
                    .invalid(&size.0, "must not be negative; take 0 or more"),
            );
        }
    }
    if let Some(storage) = &machine_type.storage
        && storage.size.is_some() == storage.min_size.is_some()
    {
        errors.push(
            path.child("storage")
                .invalid(storage, "must have either size or minSize; set one of them"),
        );
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

fn validate_images(errors: &mut Vec<FieldError>, path: &Path, images: &[MachineImage], defined: &Defined<'_>) {
    if images.is_empty() {
        errors.push(path.required("must provide at least one machine image; add one"));
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
            errors.push(versions.required("must provide at least one version of the machine image; add one"));
        }
        distinct(errors, image.versions.iter().map(|v| v.version.as_str()), |index| {
            versions.index(index).child("version")
        });
        for (index, version) in image.versions.iter().enumerate() {
            let path = versions.index(index);
            if versions::parse(&version.version).is_none() {
                errors.push(
                    path.child("version")
                        .invalid(&version.version, "must be a version; write it as \"1.2.3\""),
                );
            }
            validate_classification(errors, &path, version.classification.as_ref());
            capabilities::validate_image_version(errors, &path, version, defined);
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
    fn each_rule_of_sizes_and_versions_names_its_field() {
        let base = json!({"metadata": {"name": "local"}, "spec": {
            "type": "local", "regions": [{"name": "local"}], "kubernetes": {"versions": [{"version": "1.35.0"}]},
            "machineTypes": [{"name": "local", "cpu": "1", "gpu": "0", "memory": "1Gi"}],
            "machineImages": [{"name": "local", "versions": [{"version": "1.0.0", "architectures": ["amd64"]}]}]}});
        let supported = |version: &str| json!({"version": version, "classification": "supported"});
        let cases = [
            (
                "regions",
                json!([{"name": "local", "zones": [{}]}]),
                "regions[0].zones[0].name",
            ),
            ("volumeTypes", json!([{"class": "c"}]), "volumeTypes[0].name"),
            ("volumeTypes", json!([{"name": "v"}]), "volumeTypes[0].class"),
            (
                "machineTypes",
                json!([{"name": "m", "cpu": "-1"}]),
                "machineTypes[0].cpu",
            ),
            (
                "machineTypes",
                json!([{"name": "m", "storage": {"class": "c", "type": "t"}}]),
                "machineTypes[0].storage",
            ),
            ("caBundle", json!("x"), "caBundle"),
            ("bastion", json!({}), "bastion"),
            ("limits", json!({"maxNodesTotal": -1}), "limits.maxNodesTotal"),
            (
                "kubernetes",
                json!({"versions": [{"version": "1.35.0", "expirationDate": "2199-01-01T00:00:00Z"}]}),
                "kubernetes.versions[].expirationDate",
            ),
        ];
        let wrong = |field: &str, value: serde_json::Value| -> Vec<String> {
            let mut profile = base.clone();
            profile["spec"][field] = value;
            let profile: CloudProfile = serde_json::from_value(profile).unwrap();
            validate_cloud_profile(&profile)
                .into_iter()
                .map(|error| error.path)
                .collect()
        };
        for (field, value, expected) in cases {
            assert_eq!(wrong(field, value), [format!("spec.{expected}")]);
        }
        let two = json!({"versions": [supported("1.35.0"), supported("1.35.1"), supported("1.34.1")]});
        assert_eq!(
            wrong("kubernetes", two),
            ["spec.kubernetes.versions[0]", "spec.kubernetes.versions[1]"]
        );
    }

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
                "spec.kubernetes.versions[0]",
                "spec.kubernetes.versions",
                "spec.regions[1].name",
                "spec.machineImages[0].versions[0].architectures[0]"
            ]
        );
        let mut other = good.clone();
        other.spec.type_ = "remote".into();
        assert_eq!(validate_cloud_profile_update(&other, &good)[0].path, "spec.type");
        assert_eq!(validate_cloud_profile(&CloudProfile::default()).len(), 7);
    }
}
