//! Rules of worker pools, and of shoots with and without them (gardener/gardener v1.150
//! pkg/api/core/validation/shoot.go).

use std::collections::BTreeMap;

use api_core::v1beta1::{CRIName, MachineUpdateStrategy, ShootSpec, Worker};
use api_meta::names::is_dns_label;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::checks::{distinct, known, named, not_empty, repeats};
use crate::cloud_profile::ARCHITECTURES;
use crate::shoot::NO_OLD_REFERENCES_FROM;
use crate::shoot_values::{validate_pool_values, wrong_key};
use crate::{FieldError, Path, versions};

/// Longest name of a pool: names of nodes contain it.
const POOL_NAME_BYTES_MAX: usize = 15;
const WORKERLESS: &str = "this field should not be set for workerless Shoots; remove it, or add a worker pool";

/// A shoot without nodes must not configure them.
pub(crate) fn forbid_for_workerless(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let networking = spec.networking.as_ref();
    let kubernetes = &spec.kubernetes;
    let fields = [
        ("addons", spec.addons.is_some()),
        ("kubernetes.clusterAutoscaler", kubernetes.cluster_autoscaler.is_some()),
        ("kubernetes.kubeProxy", kubernetes.kube_proxy.is_some()),
        ("kubernetes.kubelet", kubernetes.kubelet.is_some()),
        (
            "kubernetes.verticalPodAutoscaler",
            kubernetes.vertical_pod_autoscaler.is_some(),
        ),
        ("secretBindingName", spec.secret_binding_name.is_some()),
        ("credentialsBindingName", spec.credentials_binding_name.is_some()),
        ("systemComponents", spec.system_components.is_some()),
        ("networking.type", networking.is_some_and(|n| n.type_.is_some())),
        (
            "networking.providerConfig",
            networking.is_some_and(|n| n.provider_config.is_some()),
        ),
        ("networking.pods", networking.is_some_and(|n| n.pods.is_some())),
        ("networking.nodes", networking.is_some_and(|n| n.nodes.is_some())),
        (
            "provider.infrastructureConfig",
            spec.provider.infrastructure_config.is_some(),
        ),
        (
            "provider.controlPlaneConfig",
            spec.provider.control_plane_config.is_some(),
        ),
        ("provider.workersSettings", spec.provider.workers_settings.is_some()),
    ];
    for (field, set) in fields {
        if set {
            errors.push(path.child(field).forbidden(WORKERLESS));
        }
    }
}

/// A shoot with nodes needs a network and credentials.
pub(crate) fn require_for_workers(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let network_type = spec
        .networking
        .as_ref()
        .and_then(|networking| networking.type_.as_deref());
    named(
        errors,
        &path.child("networking.type"),
        network_type.unwrap_or_default(),
        "the type of a network extension",
    );
    match (&spec.secret_binding_name, &spec.credentials_binding_name) {
        (None, None) => errors.push(
            path.child("secretBindingName")
                .required("name the binding of the cloud credentials, here or better in credentialsBindingName"),
        ),
        (Some(_), Some(_)) => {
            errors.push(
                path.child("secretBindingName")
                    .forbidden("must not be set together with credentialsBindingName; remove one"),
            );
        }
        (Some(name), None) => not_empty(errors, &path.child("secretBindingName"), name),
        (None, Some(name)) => not_empty(errors, &path.child("credentialsBindingName"), name),
    }
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    let older = spec.secret_binding_name.as_ref().filter(|name| !name.is_empty());
    if older.is_some() && versions::is_from(version, NO_OLD_REFERENCES_FROM) {
        errors.push(path.child("secretBindingName").forbidden(format!(
            "Kubernetes 1.{NO_OLD_REFERENCES_FROM} and newer do not have this field; use credentialsBindingName"
        )));
    }
}

/// Pools by their names; the first of a name.
pub(crate) fn pools_by_name(pools: &[Worker]) -> BTreeMap<&str, &Worker> {
    pools.iter().rev().map(|pool| (pool.name.as_str(), pool)).collect()
}

/// Whether a pool's machines are updated where they are, not replaced.
pub(crate) fn is_in_place(pool: &Worker) -> bool {
    matches!(
        pool.update_strategy,
        Some(MachineUpdateStrategy::AutoInPlaceUpdate | MachineUpdateStrategy::ManualInPlaceUpdate)
    )
}

/// The error for a new pool whose machines would be updated in place.
pub(crate) fn refuse_new_in_place(path: &Path, pool: &Worker) -> Option<FieldError> {
    let strategy = pool.update_strategy.as_ref().filter(|_| is_in_place(pool))?;
    Some(path.child("updateStrategy").invalid(
        strategy.as_str(),
        "machines are not updated in place, the feature gate InPlaceNodeUpdates is off; take \"AutoRollingUpdate\"",
    ))
}

/// Rules of all pools together and of each.
pub(crate) fn validate_pools(errors: &mut Vec<FieldError>, path: &Path, spec: &ShootSpec) {
    let pools = &spec.provider.workers;
    let version = spec.kubernetes.version.as_deref().unwrap_or_default();
    distinct(errors, pools.iter().map(|pool| pool.name.as_str()), |index| {
        path.index(index).child("name")
    });
    for (index, pool) in pools.iter().enumerate() {
        validate_pool(errors, &path.index(index), pool);
        validate_pool_values(errors, &path.index(index), pool, version);
    }
    let hosts_system = |pool: &Worker| {
        let allowed = pool.system_components.as_ref().is_none_or(|system| system.allow);
        allowed && pool.maximum > 0
    };
    if !pools.iter().any(hosts_system) {
        errors.push(
            path.forbidden("at least one worker pool with a maximum above zero must allow system components; add one"),
        );
    }
}

fn validate_pool(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker) {
    if !is_dns_label(&pool.name) {
        errors.push(path.child("name").invalid(
            &pool.name,
            "must consist of lower case letters, digits and '-', and start and end with a letter or digit",
        ));
    }
    if pool.name.len() > POOL_NAME_BYTES_MAX {
        errors.push(path.child("name").too_long(&pool.name, POOL_NAME_BYTES_MAX));
    }
    let machine = path.child("machine.type");
    named(
        errors,
        &machine,
        &pool.machine.type_,
        "a machine type of the cloud profile",
    );
    if let Some(image) = &pool.machine.image {
        not_empty(errors, &path.child("machine.image.name"), &image.name);
    }
    if let Some(architecture) = &pool.machine.architecture {
        let path = path.child("machine.architecture");
        known(
            errors,
            &path,
            ARCHITECTURES.contains(&architecture.as_str()),
            architecture,
            &ARCHITECTURES,
        );
    }
    if pool.minimum < 0 {
        errors.push(
            path.child("minimum")
                .invalid(pool.minimum, "must not be negative; take 0 or more"),
        );
    }
    if pool.maximum < 0 {
        errors.push(
            path.child("maximum")
                .invalid(pool.maximum, "must not be negative; take 0 or more"),
        );
    } else if pool.maximum < pool.minimum {
        let words = format!(
            "{} is less than minimum, which is {}; raise it",
            pool.maximum, pool.minimum
        );
        errors.push(path.child("maximum").forbidden(words));
    }
    validate_update(errors, path, pool);
    if let Some(cri) = &pool.cri {
        known(
            errors,
            &path.child("cri.name"),
            cri.name.is_known(),
            cri.name.as_str(),
            CRIName::KNOWN,
        );
        let runtimes = path.child("cri.containerRuntimes");
        let types = cri.container_runtimes.iter().map(|runtime| runtime.type_.as_str());
        distinct(errors, types, |index| runtimes.index(index).child("type"));
    }
    let zones = path.child("zones");
    distinct(errors, pool.zones.iter().map(String::as_str), |index| {
        zones.index(index)
    });
    validate_disks(errors, path, pool);
    validate_taints(errors, &path.child("taints"), pool);
}

fn validate_disks(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker) {
    let disks = path.child("dataVolumes");
    distinct(
        errors,
        pool.data_volumes.iter().map(|disk| disk.name.as_str()),
        |index| disks.index(index).child("name"),
    );
    for (index, disk) in pool.data_volumes.iter().enumerate() {
        named(errors, &disks.index(index).child("name"), &disk.name, "the volume");
    }
    let of_kubelet = pool.kubelet_data_volume_name.as_ref();
    if let Some(disk) = of_kubelet.filter(|name| pool.data_volumes.iter().all(|disk| disk.name != **name)) {
        errors.push(
            path.child("kubeletDataVolumeName")
                .invalid(disk, "must be the name of one of dataVolumes"),
        );
    }
}

fn validate_taints(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker) {
    let repeated = repeats(pool.taints.iter().map(|taint| (&taint.key, &taint.effect)));
    for ((at, taint), repeated) in pool.taints.iter().enumerate().zip(repeated) {
        const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let path = path.index(at);
        if taint.key.is_empty() {
            errors.push(path.child("key").required("name the taint"));
        } else {
            errors.extend(wrong_key(&path.child("key"), &taint.key));
        }
        if taint.effect.is_empty() {
            errors.push(
                path.child("effect")
                    .required(format!("take one of {}", EFFECTS.join(", "))),
            );
        } else {
            known(
                errors,
                &path.child("effect"),
                EFFECTS.contains(&taint.effect.as_str()),
                &taint.effect,
                &EFFECTS,
            );
        }
        if repeated {
            errors.push(path.duplicate(format!("{}:{}", taint.key, taint.effect)));
        }
    }
}

fn validate_update(errors: &mut Vec<FieldError>, path: &Path, pool: &Worker) {
    let strategy = pool.update_strategy.as_ref();
    if let Some(strategy) = strategy {
        let path = path.child("updateStrategy");
        known(
            errors,
            &path,
            strategy.is_known(),
            strategy.as_str(),
            MachineUpdateStrategy::KNOWN,
        );
    }
    let mut amounts = Vec::new();
    for (field, amount) in [("maxSurge", &pool.max_surge), ("maxUnavailable", &pool.max_unavailable)] {
        let Some(amount) = amount else { continue };
        match size(amount) {
            Some(size) => amounts.push(size),
            None => errors.push(path.child(field).invalid(
                amount,
                "must be a number or a percentage, not negative, such as 1 or \"10%\"",
            )),
        }
    }
    let rolling = strategy.is_none_or(|strategy| *strategy == MachineUpdateStrategy::AutoRollingUpdate);
    if rolling && amounts.len() == 2 && amounts.iter().all(|size| *size == 0) {
        errors.push(path.child("maxUnavailable").invalid(
            &pool.max_unavailable,
            "must not be zero together with maxSurge, no machine could ever be replaced; raise one of them",
        ));
    }
}

/// The number, or the number before `%`.
fn size(amount: &IntOrString) -> Option<u32> {
    match amount {
        IntOrString::Int(number) => u32::try_from(*number).ok(),
        // More than all machines cannot be replaced at once.
        IntOrString::String(text) => text.strip_suffix('%')?.parse().ok().filter(|percent| *percent <= 100),
    }
}
