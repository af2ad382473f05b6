//! Rules of Shoots by themselves (gardener/gardener v1.150 pkg/api/core/validation/shoot.go). What needs other objects
//! stands in `shoot_against` and `required_types`.

use api_core::v1beta1::{FailureToleranceType, IPFamily, ProxyMode, Shoot, ShootPurpose, ShootSpec};
use api_meta::finalizers::GARDENER;
use api_meta::names::{DNS_UNMANAGED, GARDEN_NAMESPACE};

use crate::checks::{distinct, dns_label, dns_name, is_dns_name, known, name, named, named_resources, not_empty};
use crate::hibernation::{validate_hibernation, validate_operations_in_hibernation};
use crate::node_ranges::validate_node_ranges;
use crate::old_spellings::both_on_and_off;
use crate::shoot_addons::{validate_addons, validate_rewriting, validate_rotation};
use crate::shoot_components::validate_components;
use crate::shoot_maintenance::validate_maintenance;
use crate::shoot_networks::validate_networking;
use crate::shoot_ranges::validate_ranges;
use crate::shoot_scaling::{validate_cluster_autoscaler, validate_vertical_autoscaler};
use crate::shoot_settle::NO_SECRET_NAME_FROM;
use crate::shoot_values::{NODE_MASKS, validate_kubernetes_values};
use crate::{FieldError, Path, shoot_workers, versions};

/// Project and shoot name together: both stand in names of cloud resources, whose length is bounded.
const PROJECT_AND_SHOOT_BYTES_MAX: usize = 21;
/// First minor version of Kubernetes from which a Shoot must not use `cloudProfileName` and `secretBindingName`.
pub(crate) const NO_OLD_REFERENCES_FROM: u64 = 34;
/// Node networks of IPv6, as prefix lengths.
const NODE_MASKS_IPV6: std::ops::RangeInclusive<i32> = 64..=124;

/// Whether the shoot has a control plane only.
pub fn is_workerless(shoot: &Shoot) -> bool {
    shoot.spec.provider.workers.is_empty()
}

/// Everything that is wrong with a shoot by itself, defaults applied.
pub fn validate_shoot(shoot: &Shoot) -> Vec<FieldError> {
    let mut errors = validate_always(shoot);
    errors.extend(validate_ranges(shoot));
    errors.extend(validate_node_ranges(shoot));
    errors
}

/// What must be right on every write, whatever it changes.
pub(crate) fn validate_always(shoot: &Shoot) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&shoot.spec, Path::new("spec"));
    validate_name(&mut errors, name(&shoot.metadata));
    named(
        &mut errors,
        &path.child("region"),
        &spec.region,
        "a region of the cloud profile",
    );
    let provider = path.child("provider.type");
    named(
        &mut errors,
        &provider,
        &spec.provider.type_,
        "the type of the cloud profile",
    );
    validate_profile(&mut errors, &path, spec);
    validate_kubernetes(&mut errors, &path.child("kubernetes"), spec);
    validate_kubernetes_values(&mut errors, &path.child("kubernetes"), spec);
    validate_components(&mut errors, &path.child("kubernetes"), &spec.kubernetes);
    validate_autoscalers(&mut errors, &path.child("kubernetes"), spec);
    validate_addons(&mut errors, &path, spec);
    validate_rewriting(&mut errors, &path, spec);
    if is_workerless(shoot) {
        shoot_workers::forbid_for_workerless(&mut errors, &path, spec);
    } else {
        shoot_workers::require_for_workers(&mut errors, &path, spec);
        shoot_workers::validate_pools(&mut errors, &path.child("provider.workers"), spec);
    }
    validate_networking(&mut errors, &path.child("networking"), spec);
    validate_dns(&mut errors, &path.child("dns"), spec);
    validate_extensions(&mut errors, &path.child("extensions"), spec);
    named_resources(&mut errors, &path.child("resources"), &spec.resources);
    let tolerations = path.child("tolerations");
    distinct(&mut errors, spec.tolerations.iter().map(|t| t.key.as_str()), |index| {
        tolerations.index(index).child("key")
    });
    if let Some(class) = spec.exposure_class_name.as_deref().filter(|class| !is_dns_name(class)) {
        errors.push(
            path.child("exposureClassName")
                .invalid(class, "must be the name of an ExposureClass: a lower case DNS name"),
        );
    }
    validate_purpose(&mut errors, &path.child("purpose"), shoot);
    if let Some(tolerance) = spec.control_plane.as_ref().and_then(|c| c.high_availability.as_ref()) {
        let word = &tolerance.failure_tolerance.type_;
        let path = path.child("controlPlane.highAvailability.failureTolerance.type");
        known(
            &mut errors,
            &path,
            word.is_known(),
            word.as_str(),
            FailureToleranceType::KNOWN,
        );
    }
    validate_hibernation(&mut errors, &path.child("hibernation"), shoot);
    validate_operations_in_hibernation(&mut errors, shoot);
    if let Some(maintenance) = &spec.maintenance {
        let path = path.child("maintenance");
        validate_maintenance(&mut errors, &path, maintenance);
        validate_rotation(&mut errors, &path, maintenance, is_workerless(shoot));
    }
    errors
}

fn validate_autoscalers(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    if let Some(config) = &spec.kubernetes.cluster_autoscaler {
        validate_cluster_autoscaler(errors, &path.child("clusterAutoscaler"), config, version);
    }
    if let Some(config) = &spec.kubernetes.vertical_pod_autoscaler {
        validate_vertical_autoscaler(errors, &path.child("verticalPodAutoscaler"), config);
    }
}

/// What only a new shoot must not have.
pub fn validate_shoot_creation(shoot: &Shoot) -> Vec<FieldError> {
    let mut errors = validate_shoot(shoot);
    let path = Path::new("metadata.finalizers");
    let finalizers = shoot.metadata.finalizers.iter().flatten().enumerate();
    for (index, _) in finalizers.filter(|(_, finalizer)| *finalizer == GARDENER) {
        errors.push(
            path.index(index)
                .forbidden("is the gardenlet's own, which adds it; leave it out"),
        );
    }
    let pools = Path::new("spec.provider.workers");
    for (index, pool) in shoot.spec.provider.workers.iter().enumerate() {
        errors.extend(shoot_workers::refuse_new_in_place(&pools.index(index), pool));
    }
    errors
}

/// Infrastructure is a purpose of the landscape's own Shoots alone.
fn validate_purpose(errors: &mut Vec<FieldError>, path: &Path, shoot: &Shoot) {
    let Some(purpose) = &shoot.spec.purpose else { return };
    let own = shoot.metadata.namespace.as_deref() == Some(GARDEN_NAMESPACE);
    let infrastructure = ShootPurpose::Infrastructure.as_str();
    let allowed: Vec<&str> = ShootPurpose::KNOWN
        .iter()
        .copied()
        .filter(|word| own || *word != infrastructure)
        .collect();
    known(
        errors,
        path,
        allowed.contains(&purpose.as_str()),
        purpose.as_str(),
        &allowed,
    );
}

fn validate_extensions(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let extensions = spec.extensions.iter();
    let types: Vec<String> = extensions.map(|extension| extension.type_.to_lowercase()).collect();
    distinct(errors, types.iter().map(String::as_str), |index| {
        path.index(index).child("type")
    });
    for (index, extension) in spec.extensions.iter().enumerate() {
        not_empty(errors, &path.index(index).child("type"), &extension.type_);
    }
    both_on_and_off(errors, path, &spec.extensions);
}

fn validate_name(errors: &mut Vec<FieldError>, name: &str) {
    let path = Path::new("metadata.name");
    dns_label(errors, &path, name);
    if name.contains("--") {
        errors.push(path.invalid(
            name,
            "must not contain two hyphens in a row, they separate parts of names; take one",
        ));
    }
}

/// Whether project and shoot name are short enough together; on creation only.
pub fn validate_technical_id(project: &str, shoot: &Shoot) -> Option<FieldError> {
    let name = name(&shoot.metadata);
    let length = project.len() + name.len();
    (length > PROJECT_AND_SHOOT_BYTES_MAX).then(|| {
        Path::new("name").invalid(
            name,
            format!(
                "the names of project \"{project}\" and shoot have {length} characters together, at most {PROJECT_AND_SHOOT_BYTES_MAX} are allowed; take a shorter name"
            ),
        )
    })
}

fn validate_profile(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    let older = spec.cloud_profile_name.as_ref().filter(|name| !name.is_empty());
    if older.is_some() && versions::is_from(version, NO_OLD_REFERENCES_FROM) {
        errors.push(path.child("cloudProfileName").forbidden(format!(
            "Kubernetes 1.{NO_OLD_REFERENCES_FROM} and newer do not have this field; use cloudProfile.name"
        )));
    }
    match (&spec.cloud_profile, &spec.cloud_profile_name) {
        (None, None) => {
            errors.push(
                path.child("cloudProfile.name")
                    .required("must provide a reference to a cloud profile; name one"),
            );
        }
        (Some(reference), other) => {
            let path = path.child("cloudProfile");
            not_empty(errors, &path.child("name"), &reference.name);
            const KINDS: [&str; 2] = ["CloudProfile", "NamespacedCloudProfile"];
            known(
                errors,
                &path.child("kind"),
                KINDS.contains(&reference.kind.as_str()),
                &reference.kind,
                &KINDS,
            );
            let differs = other.as_ref().is_some_and(|name| *name != reference.name);
            if differs && reference.kind == "CloudProfile" {
                errors.push(
                    path.child("name")
                        .invalid(&reference.name, "must be the same as cloudProfileName; remove that one"),
                );
            }
        }
        (None, Some(name)) => not_empty(errors, &path.child("cloudProfileName"), name),
    }
}

fn validate_kubernetes(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    if version.is_empty() {
        errors.push(
            path.child("version")
                .required("name a Kubernetes version of the cloud profile such as \"1.35.2\""),
        );
    } else if !versions::is_full(version) && (spec.cloud_profile.is_some() || spec.cloud_profile_name.is_some()) {
        // Without a profile, a prefix has nothing to be completed from; that is reported already.
        errors.push(
            path.child("version")
                .invalid(version, "must be a version of the cloud profile such as \"1.35.2\""),
        );
    }
    if let Some(mode) = spec
        .kubernetes
        .kube_proxy
        .as_ref()
        .and_then(|proxy| proxy.mode.as_ref())
    {
        known(
            errors,
            &path.child("kubeProxy.mode"),
            mode.is_known(),
            mode.as_str(),
            ProxyMode::KNOWN,
        );
    }
    let mask = spec
        .kubernetes
        .kube_controller_manager
        .as_ref()
        .and_then(|manager| manager.node_cidr_mask_size);
    let families = spec
        .networking
        .as_ref()
        .map_or(&[][..], |networking| &networking.ip_families);
    let (masks, usual) = match families {
        [IPFamily::IPv6] => (NODE_MASKS_IPV6, 64),
        _ => (NODE_MASKS, 24),
    };
    if let Some(mask) = mask.filter(|mask| !masks.contains(mask)) {
        let (least, most) = (masks.start(), masks.end());
        errors.push(path.child("kubeControllerManager.nodeCIDRMaskSize").invalid(
            mask,
            format!("must be between {least} and {most}; take {usual} when in doubt"),
        ));
    }
}

fn validate_dns(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let Some(dns) = &spec.dns else { return };
    if let Some(domain) = &dns.domain {
        dns_name(errors, &path.child("domain"), domain);
    }
    let providers = path.child("providers");
    let primaries = dns
        .providers
        .iter()
        .filter(|provider| provider.primary == Some(true))
        .count();
    if primaries > 1 {
        errors.push(providers.forbidden("at most one provider may be primary; leave the field out of the others"));
    }
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    for (index, provider) in dns.providers.iter().enumerate() {
        let path = providers.index(index);
        if provider.secret_name.is_some() && versions::is_from(version, NO_SECRET_NAME_FROM) {
            errors.push(path.child("secretName").forbidden(format!(
                "Kubernetes 1.{NO_SECRET_NAME_FROM} and newer do not have this field; use credentialsRef"
            )));
        }
    }
    let primary = dns.providers.iter().find(|provider| provider.primary == Some(true));
    let managed = primary
        .and_then(|provider| provider.type_.as_deref())
        .filter(|type_| *type_ != DNS_UNMANAGED);
    if dns.domain.is_none() && managed.is_some() {
        errors.push(
            path.child("domain")
                .required("a primary provider needs the domain it shall serve; set it"),
        );
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::json;

    use super::*;

    /// A shoot that nothing is wrong with.
    pub(crate) fn shoot() -> Shoot {
        serde_json::from_value(json!({"metadata": {"name": "crazy", "namespace": "garden-dev"}, "spec": {
            "region": "r1", "cloudProfile": {"kind": "CloudProfile", "name": "local"}, "credentialsBindingName": "b", "kubernetes": {"version": "1.35.1"},
            "networking": {"type": "flat", "nodes": "10.1.0.0/16", "pods": "10.2.0.0/16", "services": "10.3.0.0/16"},
            "provider": {"type": "local", "workers": [
                {"name": "pool-a", "minimum": 1, "maximum": 2, "maxSurge": 1, "maxUnavailable": 0,
                 "machine": {"type": "small", "image": {"name": "linux", "version": "1.0.0"}}}]}}}))
        .unwrap()
    }

    #[test]
    fn each_rule_names_the_field() {
        type Change = fn(&mut Shoot);
        let cases: [(&str, Change); 17] = [
            ("metadata.name", |s| s.metadata.name = Some("a--b".into())),
            ("spec.region", |s| s.spec.region = String::new()),
            ("spec.cloudProfile.name", |s| s.spec.cloud_profile = None),
            ("spec.exposureClassName", |s| {
                s.spec.exposure_class_name = Some("A".into())
            }),
            ("spec.kubernetes.version", |s| {
                s.spec.kubernetes.version = Some("1.35".into())
            }),
            ("spec.secretBindingName", |s| s.spec.credentials_binding_name = None),
            ("spec.networking.type", |s| {
                s.spec.networking.as_mut().unwrap().type_ = None
            }),
            ("spec.provider.workers[0].name", |s| {
                s.spec.provider.workers[0].name = "A".into()
            }),
            ("spec.provider.workers[0].maximum", |s| {
                s.spec.provider.workers[0].minimum = 3
            }),
            ("spec.provider.workers[0].machine.type", |s| {
                s.spec.provider.workers[0].machine.type_ = String::new()
            }),
            ("spec.provider.workers[1].name", |s| {
                let again = s.spec.provider.workers[0].clone();
                s.spec.provider.workers.push(again);
            }),
            ("spec.provider.workers[0].maxUnavailable", |s| {
                s.spec.provider.workers[0].max_surge = serde_json::from_value(json!("0%")).unwrap();
            }),
            ("spec.extensions[1].type", |s| {
                s.spec.extensions = serde_json::from_value(json!([{"type": "a"}, {"type": "A"}])).unwrap();
            }),
            ("spec.purpose", |s| s.spec.purpose = Some("fun".into())),
            ("spec.maintenance.timeWindow", |s| {
                s.spec.maintenance =
                    serde_json::from_value(json!({"timeWindow": {"begin": "220000+0100", "end": "211500+0000"}}))
                        .unwrap();
            }),
            ("spec.hibernation.schedules[0].location", |s| {
                s.spec.hibernation =
                    serde_json::from_value(json!({"schedules": [{"start": "0 20 * * *", "location": "Mars"}]}))
                        .unwrap();
            }),
            ("spec.dns.domain", |s| {
                s.spec.dns = serde_json::from_value(json!({"providers": [{"type": "x", "primary": true}]})).unwrap();
            }),
        ];
        assert_eq!(validate_shoot(&shoot()), []);
        for (path, change) in cases {
            let mut bad = shoot();
            change(&mut bad);
            let found = validate_shoot(&bad);
            assert_eq!(
                found.iter().map(|e| e.path.as_str()).collect::<Vec<_>>(),
                [path],
                "{found:?}"
            );
        }
    }

    #[test]
    fn what_only_a_new_shoot_must_not_have_is_refused_on_creation() {
        let mut new = shoot();
        assert_eq!(validate_shoot_creation(&new), []);
        new.metadata.finalizers = Some(vec!["gardener".to_owned()]);
        assert_eq!(validate_shoot_creation(&new)[0].path, "metadata.finalizers[0]");
        new.metadata.finalizers = None;
        new.spec.provider.workers[0].update_strategy = Some("AutoInPlaceUpdate".into());
        assert_eq!(
            validate_shoot_creation(&new)[0].path,
            "spec.provider.workers[0].updateStrategy"
        );
        new.spec.provider.workers[0].update_strategy = None;
        new.spec.purpose = Some("infrastructure".into());
        assert_eq!(validate_shoot(&new)[0].path, "spec.purpose");
        new.metadata.namespace = Some("garden".to_owned());
        assert_eq!(validate_shoot(&new), []);
    }

    #[test]
    fn older_references_are_refused_from_kubernetes_1_34() {
        let mut shoot = shoot();
        shoot.spec.cloud_profile_name = Some("local".into());
        shoot.spec.secret_binding_name = shoot.spec.credentials_binding_name.take();
        let paths: Vec<String> = validate_shoot(&shoot).into_iter().map(|error| error.path).collect();
        assert_eq!(paths, ["spec.cloudProfileName", "spec.secretBindingName"]);
        shoot.spec.kubernetes.version = Some("1.33.1".into());
        assert_eq!(validate_shoot(&shoot), []);
    }

    #[test]
    fn a_workerless_shoot_must_not_speak_of_nodes() {
        let mut bare = shoot();
        bare.spec.provider.workers.clear();
        let paths: Vec<String> = validate_shoot(&bare).into_iter().map(|error| error.path).collect();
        assert_eq!(
            paths,
            [
                "spec.credentialsBindingName",
                "spec.networking.type",
                "spec.networking.pods",
                "spec.networking.nodes"
            ]
        );
    }

    #[test]
    fn project_and_shoot_name_fit_together() {
        assert_eq!(validate_technical_id("sixteen-letters-", &shoot()), None);
        let error = validate_technical_id("seventeen-letters", &shoot()).unwrap();
        assert!(error.detail.contains("22 characters"), "{error}");
    }
}
