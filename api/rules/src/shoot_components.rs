//! Rules of the settings of a Shoot's control plane but for its API server: controller manager, scheduler, etcd
//! (gardener/gardener v1.150 pkg/api/core/validation/shoot.go). What a component would refuse when it starts is refused
//! here, where its owner reads it.

use std::collections::BTreeMap;

use api_core::v1beta1::{
    ControlPlaneAutoscaling, KubeControllerManagerConfig, KubeSchedulerConfig, Kubernetes, SchedulingProfile,
};
use api_meta::GoDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::checks::known;
use crate::feature_gates::validate_feature_gates;
use crate::shoot_api_server::validate_api_server;
use crate::{FieldError, Path, quantity, versions};

/// First minor version without `podEvictionTimeout`.
const NO_EVICTION_TIMEOUT_FROM: u64 = 33;
/// First minor version without `kubeMaxPDVols`.
const NO_MAX_VOLUMES_FROM: u64 = 35;
/// Least resources by component: with less it would not start.
const LEAST_OF_ETCD: [(&str, &str); 1] = [("memory", "300M")];
const LEAST_OF_EVENTS: [(&str, &str); 1] = [("memory", "60M")];

/// Everything that is wrong with the control plane's settings; `path` is that of `kubernetes`.
pub(crate) fn validate_components(errors: &mut Vec<FieldError>, path: &Path, kubernetes: &Kubernetes) {
    let version = kubernetes.version.as_deref().unwrap_or_default();
    if let Some(server) = &kubernetes.kube_api_server {
        validate_api_server(errors, &path.child("kubeAPIServer"), server, version);
    }
    if let Some(manager) = &kubernetes.kube_controller_manager {
        validate_manager(errors, &path.child("kubeControllerManager"), manager, version);
    }
    if let Some(scheduler) = &kubernetes.kube_scheduler {
        validate_scheduler(errors, &path.child("kubeScheduler"), scheduler, version);
    }
    if let Some(proxy) = &kubernetes.kube_proxy {
        validate_feature_gates(
            errors,
            &path.child("kubeProxy.featureGates"),
            &proxy.feature_gates,
            version,
        );
    }
    if let Some(etcd) = &kubernetes.etcd {
        let path = path.child("etcd");
        let main = etcd.main.as_ref().and_then(|main| main.autoscaling.as_ref());
        validate_autoscaling(errors, &path.child("main.autoscaling"), main, &LEAST_OF_ETCD);
        let events = etcd.events.as_ref().and_then(|events| events.autoscaling.as_ref());
        validate_autoscaling(errors, &path.child("events.autoscaling"), events, &LEAST_OF_EVENTS);
    }
}

fn validate_manager(errors: &mut Vec<FieldError>, path: &Path, manager: &KubeControllerManagerConfig, version: &str) {
    if let Some(timeout) = manager.pod_eviction_timeout {
        let path = path.child("podEvictionTimeout");
        if versions::is_from(version, NO_EVICTION_TIMEOUT_FROM) {
            errors.push(path.forbidden(format!(
                "Kubernetes 1.{NO_EVICTION_TIMEOUT_FROM} and newer do not have this setting; remove it"
            )));
        } else {
            at_least(errors, &path, Some(timeout), GoDuration::from_nanos(1));
        }
    }
    at_least(
        errors,
        &path.child("nodeMonitorGracePeriod"),
        manager.node_monitor_grace_period,
        GoDuration::from_nanos(1),
    );
    if let Some(scaler) = &manager.horizontal_pod_autoscaler {
        let path = path.child("horizontalPodAutoscaler");
        let second = GoDuration::from_secs(1);
        at_least(errors, &path.child("syncPeriod"), scaler.sync_period, second);
        at_least(
            errors,
            &path.child("downscaleStabilization"),
            scaler.downscale_stabilization,
            second,
        );
        at_least(
            errors,
            &path.child("initialReadinessDelay"),
            scaler.initial_readiness_delay,
            GoDuration::from_nanos(1),
        );
        at_least(
            errors,
            &path.child("cpuInitializationPeriod"),
            scaler.cpu_initialization_period,
            second,
        );
        if let Some(tolerance) = scaler.tolerance.filter(|tolerance| *tolerance <= 0.0) {
            errors.push(path.child("tolerance").invalid(tolerance, "must be above zero"));
        }
    }
    validate_feature_gates(errors, &path.child("featureGates"), &manager.feature_gates, version);
}

fn validate_scheduler(errors: &mut Vec<FieldError>, path: &Path, scheduler: &KubeSchedulerConfig, version: &str) {
    if let Some(profile) = &scheduler.profile {
        let path = path.child("profile");
        known(
            errors,
            &path,
            profile.is_known(),
            profile.as_str(),
            SchedulingProfile::KNOWN,
        );
    }
    if let Some(volumes) = &scheduler.kube_max_pd_vols {
        let path = path.child("kubeMaxPDVols");
        if versions::is_from(version, NO_MAX_VOLUMES_FROM) {
            errors.push(path.forbidden(format!(
                "Kubernetes 1.{NO_MAX_VOLUMES_FROM} and newer do not have this setting; remove it"
            )));
        } else if !volumes.parse::<i32>().is_ok_and(|volumes| volumes > 0) {
            errors.push(path.invalid(volumes, "must be a number above zero, as text, such as \"20\""));
        }
    }
    validate_feature_gates(errors, &path.child("featureGates"), &scheduler.feature_gates, version);
}

/// The least resources that vertical autoscaling may give a component.
pub(crate) fn validate_autoscaling(
    errors: &mut Vec<FieldError>,
    path: &Path,
    autoscaling: Option<&ControlPlaneAutoscaling>,
    least: &[(&str, &str)],
) {
    let Some(autoscaling) = autoscaling else { return };
    let path = path.child("minAllowed");
    if autoscaling.min_allowed.is_empty() {
        errors.push(path.required("set cpu, memory or both, or remove autoscaling"));
    }
    let least = least
        .iter()
        .map(|(name, size)| ((*name).to_owned(), Quantity((*size).to_owned())));
    validate_resources(errors, &path, &autoscaling.min_allowed, &least.collect());
}

/// CPU and memory alone, not negative and not below `least`.
pub(crate) fn validate_resources(
    errors: &mut Vec<FieldError>,
    path: &Path,
    resources: &BTreeMap<String, Quantity>,
    least: &BTreeMap<String, Quantity>,
) {
    const RESOURCES: [&str; 2] = ["cpu", "memory"];
    for (name, size) in resources {
        let path = path.child(name);
        known(errors, &path, RESOURCES.contains(&name.as_str()), name, &RESOURCES);
        let value = quantity::value(&size.0);
        let floor = least.get(name);
        let is_enough = match (value, floor.and_then(|floor| quantity::value(&floor.0))) {
            (None, _) => false,
            (Some(value), None) => value >= 0.0,
            (Some(value), Some(floor)) => value >= floor,
        };
        if !is_enough {
            let words = match floor {
                Some(Quantity(floor)) => format!("must be a quantity of at least {floor}"),
                None => "must be a quantity, not negative".to_owned(),
            };
            errors.push(path.invalid(&size.0, words));
        }
    }
}

pub(crate) fn not_negative(errors: &mut Vec<FieldError>, path: &Path, number: Option<impl Into<i64>>) {
    if let Some(number) = number.map(Into::into).filter(|number| *number < 0) {
        errors.push(path.invalid(number, "must not be negative; leave it out for the default"));
    }
}

/// Refuses a shorter duration.
pub(crate) fn at_least(errors: &mut Vec<FieldError>, path: &Path, duration: Option<GoDuration>, least: GoDuration) {
    if let Some(duration) = duration.filter(|duration| duration.as_nanos() < least.as_nanos()) {
        let words = match least.as_nanos() {
            ..=0 => "must not be negative".to_owned(),
            1 => "must be above zero".to_owned(),
            _ => format!("must be at least {least}"),
        };
        errors.push(path.invalid(duration, words));
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Paths and kinds of what is wrong.
    pub(crate) fn wrong(version: &str, kubernetes: Value) -> Vec<String> {
        let mut kubernetes: Kubernetes = serde_json::from_value(kubernetes).unwrap();
        kubernetes.version = Some(version.to_owned());
        let mut errors = Vec::new();
        validate_components(&mut errors, &Path::new("k"), &kubernetes);
        let message = errors
            .into_iter()
            .map(|error| format!("{} {}", error.path, error.kind.reason()));
        message.collect()
    }

    #[test]
    fn newer_versions_have_fewer_settings() {
        let gone = [
            (
                "1.34.1",
                "1.35.1",
                json!({"kubeAPIServer": {"watchCacheSizes": {"default": 1}}}),
            ),
            (
                "1.34.1",
                "1.35.1",
                json!({"kubeAPIServer": {"enableAnonymousAuthentication": true}}),
            ),
            ("1.34.1", "1.35.1", json!({"kubeScheduler": {"kubeMaxPDVols": "5"}})),
            (
                "1.32.1",
                "1.33.1",
                json!({"kubeControllerManager": {"podEvictionTimeout": "5m"}}),
            ),
        ];
        for (before, after, kubernetes) in gone {
            assert_eq!(wrong(before, kubernetes.clone()), [""; 0]);
            let found = wrong(after, kubernetes);
            assert!(
                found.len() == 1 && found[0].ends_with("FieldValueForbidden"),
                "{found:?}"
            );
        }
    }

    #[test]
    fn each_rule_of_the_other_components_names_its_field() {
        let cases = [
            (
                json!({"kubeControllerManager": {"nodeMonitorGracePeriod": "0s"}}),
                "kubeControllerManager.nodeMonitorGracePeriod",
            ),
            (
                json!({"kubeControllerManager": {"horizontalPodAutoscaler": {"syncPeriod": "1ms"}}}),
                "kubeControllerManager.horizontalPodAutoscaler.syncPeriod",
            ),
            (
                json!({"kubeControllerManager": {"horizontalPodAutoscaler": {"tolerance": 0}}}),
                "kubeControllerManager.horizontalPodAutoscaler.tolerance",
            ),
            (
                json!({"kubeControllerManager": {"horizontalPodAutoscaler": {"downscaleStabilization": "1ms"}}}),
                "kubeControllerManager.horizontalPodAutoscaler.downscaleStabilization",
            ),
            (
                json!({"kubeControllerManager": {"horizontalPodAutoscaler": {"initialReadinessDelay": "0s"}}}),
                "kubeControllerManager.horizontalPodAutoscaler.initialReadinessDelay",
            ),
            (
                json!({"kubeControllerManager": {"horizontalPodAutoscaler": {"cpuInitializationPeriod": "1ms"}}}),
                "kubeControllerManager.horizontalPodAutoscaler.cpuInitializationPeriod",
            ),
            (
                json!({"kubeScheduler": {"kubeMaxPDVols": "none"}}),
                "kubeScheduler.kubeMaxPDVols",
            ),
            (json!({"kubeScheduler": {"profile": "wild"}}), "kubeScheduler.profile"),
            (
                json!({"etcd": {"main": {"autoscaling": {"minAllowed": {"memory": "1M"}}}}}),
                "etcd.main.autoscaling.minAllowed.memory",
            ),
            (
                json!({"etcd": {"events": {"autoscaling": {"minAllowed": {"cpu": "-1"}}}}}),
                "etcd.events.autoscaling.minAllowed.cpu",
            ),
        ];
        for (kubernetes, expected) in cases {
            let found = wrong("1.34.1", kubernetes);
            assert!(
                found.len() == 1 && found[0].starts_with(&format!("k.{expected} ")),
                "{expected}: {found:?}"
            );
        }
    }
}
