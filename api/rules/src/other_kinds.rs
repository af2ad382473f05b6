//! Rules of the small kinds: ExposureClasses, Quotas, ShootStates, InternalSecrets, cloud profiles of projects
//! (gardener/gardener v1.150 pkg/api/core/validation).

use api_core::v1beta1::{ExposureClass, InternalSecret, NamespacedCloudProfile, Quota, ShootState};
use api_meta::names::is_dns_label;

use crate::checks::{distinct, not_empty, repeats};
use crate::{FieldError, Path, quantity};

/// Longest handler of an exposure class: names of namespaces contain it.
const HANDLER_BYTES_MAX: usize = 34;
/// Longest key of a Secret.
const KEY_BYTES_MAX: usize = 253;

/// Everything that is wrong with an exposure class by itself.
pub fn validate_exposure_class(class: &ExposureClass) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("handler");
    if !is_dns_label(&class.handler) || class.handler.len() > HANDLER_BYTES_MAX {
        let words = format!("must be at most {HANDLER_BYTES_MAX} lower case letters, digits and '-'");
        errors.push(path.invalid(&class.handler, words));
    }
    let tolerations = class
        .scheduling
        .as_ref()
        .map_or(&[][..], |scheduling| &scheduling.tolerations);
    let path = Path::new("scheduling.tolerations");
    let repeated = repeats(
        tolerations
            .iter()
            .map(|toleration| (&toleration.key, &toleration.value)),
    );
    for ((index, toleration), repeated) in tolerations.iter().enumerate().zip(repeated) {
        not_empty(&mut errors, &path.index(index).child("key"), &toleration.key);
        if repeated {
            errors.push(path.index(index).duplicate(&toleration.key));
        }
    }
    errors
}

/// Everything that is wrong with a quota by itself.
pub fn validate_quota(quota: &Quota) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let days = quota.spec.cluster_lifetime_days;
    if let Some(days) = days.filter(|days| *days <= 0) {
        errors.push(
            spec.child("clusterLifetimeDays")
                .invalid(days, "must be above zero; leave it out for no limit"),
        );
    }
    for (name, size) in &quota.spec.metrics {
        if quantity::value(&size.0).is_none_or(|size| size < 0.0) {
            errors.push(
                spec.child("metrics")
                    .key(name)
                    .invalid(&size.0, "must be a quantity, not negative"),
            );
        }
    }
    errors
}

/// Everything that is wrong with the state of a shoot by itself.
pub fn validate_shoot_state(state: &ShootState) -> Vec<FieldError> {
    const KINDS: [&str; 2] = ["v1, Kind=Secret", "v1, Kind=ConfigMap"];
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    for (index, entry) in state.spec.gardener.iter().enumerate() {
        not_empty(
            &mut errors,
            &spec.child("gardener").index(index).child("name"),
            &entry.name,
        );
    }
    for (index, extension) in state.spec.extensions.iter().enumerate() {
        let path = spec.child("extensions").index(index);
        if extension.kind.is_empty() {
            errors.push(
                path.child("kind")
                    .invalid("", "must not be empty; name the kind of the extension's object"),
            );
        }
        if extension.purpose.as_ref().is_some_and(String::is_empty) {
            errors.push(path.child("purpose").invalid("", "must not be empty; leave it out"));
        }
    }
    for (index, resource) in state.spec.resources.iter().enumerate() {
        let path = spec.child("resources").index(index);
        not_empty(&mut errors, &path.child("kind"), &resource.kind);
        not_empty(&mut errors, &path.child("name"), &resource.name);
        let kind = format!(
            "{}, Kind={}",
            resource.api_version.as_deref().unwrap_or_default(),
            resource.kind
        );
        if !KINDS.contains(&kind.as_str()) {
            errors.push(path.not_supported(kind, &KINDS));
        }
    }
    errors
}

/// Everything that is wrong with an internal secret by itself.
pub fn validate_internal_secret(secret: &InternalSecret) -> Vec<FieldError> {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let is_wrong = |key: &&String| key.is_empty() || key.len() > KEY_BYTES_MAX || !key.chars().all(allowed);
    let path = Path::new("data");
    let keys = secret.data.keys().filter(is_wrong);
    keys.map(|key| {
        path.key(key)
            .invalid(key, "a key must consist of letters, digits, '-', '_' and '.'")
    })
    .collect()
}

/// Everything that is wrong with a project's cloud profile by itself.
pub fn validate_namespaced_cloud_profile(profile: &NamespacedCloudProfile) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&profile.spec, Path::new("spec"));
    let names: [(&str, Vec<&str>); 3] = [
        (
            "machineTypes",
            spec.machine_types.iter().map(|entry| entry.name.as_str()).collect(),
        ),
        (
            "volumeTypes",
            spec.volume_types.iter().map(|entry| entry.name.as_str()).collect(),
        ),
        (
            "machineImages",
            spec.machine_images.iter().map(|entry| entry.name.as_str()).collect(),
        ),
    ];
    for (field, names) in names {
        let path = path.child(field);
        distinct(&mut errors, names.iter().copied(), |index| {
            path.index(index).child("name")
        });
        for (index, name) in names.iter().enumerate() {
            not_empty(&mut errors, &path.index(index).child("name"), name);
        }
    }
    let versions = spec
        .kubernetes
        .iter()
        .flat_map(|kubernetes| &kubernetes.versions)
        .enumerate();
    for (index, _) in versions.filter(|(_, version)| version.classification.is_some()) {
        let path = path.child("kubernetes.versions").index(index).child("classification");
        errors
            .push(path.forbidden("the parent classifies versions, only expirationDate can be changed here; remove it"));
    }
    errors
}

/// Everything that is wrong with a change of a project's cloud profile.
pub fn validate_namespaced_cloud_profile_update(
    new: &NamespacedCloudProfile,
    old: &NamespacedCloudProfile,
) -> Vec<FieldError> {
    let mut errors = validate_namespaced_cloud_profile(new);
    errors.extend(Path::new("spec.parent").immutable(&new.spec.parent, &old.spec.parent));
    errors
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;
    use serde_json::{Value, json};

    use super::*;

    fn paths<T: DeserializeOwned>(validate: fn(&T) -> Vec<FieldError>, object: Value) -> Vec<String> {
        let object = serde_json::from_value(object).unwrap();
        validate(&object).into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn each_rule_names_its_field() {
        let class =
            |handler: &str, tolerations: Value| json!({"handler": handler, "scheduling": {"tolerations": tolerations}});
        assert_eq!(
            paths(validate_exposure_class, class("inner", json!([{"key": "a"}]))),
            [""; 0]
        );
        assert_eq!(
            paths(validate_exposure_class, class(&"a".repeat(35), json!([]))),
            ["handler"]
        );
        let twice = json!([{"key": "a"}, {"key": "a"}]);
        assert_eq!(
            paths(validate_exposure_class, class("inner", twice)),
            ["scheduling.tolerations[1]"]
        );
        assert_eq!(
            paths(validate_exposure_class, class("inner", json!([{}]))),
            ["scheduling.tolerations[0].key"]
        );
        assert_eq!(
            paths(validate_quota, json!({"spec": {"clusterLifetimeDays": 0}})),
            ["spec.clusterLifetimeDays"]
        );
        assert_eq!(
            paths(validate_quota, json!({"spec": {"metrics": {"cpu": "-1"}}})),
            ["spec.metrics[cpu]"]
        );
        assert_eq!(
            paths(validate_internal_secret, json!({"data": {"a b": ""}})),
            ["data[a b]"]
        );
    }

    #[test]
    fn each_rule_of_states_and_profiles_names_its_field() {
        let state = |spec: Value| paths(validate_shoot_state, json!({ "spec": spec }));
        assert_eq!(state(json!({"gardener": [{"data": {}}]})), ["spec.gardener[0].name"]);
        assert_eq!(state(json!({"extensions": [{}]})), ["spec.extensions[0].kind"]);
        assert_eq!(
            state(json!({"extensions": [{"kind": "Worker", "purpose": ""}]})),
            ["spec.extensions[0].purpose"]
        );
        assert_eq!(
            state(json!({"resources": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "data": {}}]})),
            ["spec.resources[0]"]
        );
        assert_eq!(
            state(json!({"resources": [{"apiVersion": "v1", "kind": "Secret", "data": {}}]})),
            ["spec.resources[0].name"]
        );
        let profile = |spec: Value| paths(validate_namespaced_cloud_profile, json!({ "spec": spec }));
        assert_eq!(
            profile(json!({"machineTypes": [{"name": "a"}, {"name": "a"}]})),
            ["spec.machineTypes[1].name"]
        );
        assert_eq!(profile(json!({"volumeTypes": [{}]})), ["spec.volumeTypes[0].name"]);
        let version = json!({"kubernetes": {"versions": [{"version": "1.34.1", "classification": "supported"}]}});
        assert_eq!(profile(version), ["spec.kubernetes.versions[0].classification"]);
        let of = |parent: &str| -> NamespacedCloudProfile {
            serde_json::from_value(json!({"spec": {"parent": {"kind": "CloudProfile", "name": parent}}})).unwrap()
        };
        assert_eq!(
            validate_namespaced_cloud_profile_update(&of("a"), &of("b"))[0].path,
            "spec.parent"
        );
    }
}
