//! Rules of the settings of a Shoot's control plane: API server, controller manager, scheduler, etcd
//! (gardener/gardener v1.150 pkg/api/core/validation/shoot.go). What a component would refuse when it starts is refused
//! here, where its owner reads it.

use std::collections::{BTreeMap, BTreeSet};

use api_core::v1beta1::{
    ControlPlaneAutoscaling, KubeAPIServerConfig, KubeControllerManagerConfig, KubeSchedulerConfig, Kubernetes,
    SchedulingProfile, ServiceAccountConfig, WatchCacheSizes,
};
use api_meta::GoDuration;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::checks::{distinct, known, not_empty};
use crate::feature_gates::validate_feature_gates;
use crate::shoot_settle::NO_ANONYMOUS_FROM;
use crate::{FieldError, Path, quantity, versions};

/// First minor version without a size of the watch cache for resources that are not listed.
const NO_DEFAULT_CACHE_FROM: u64 = 35;
/// First minor version without `podEvictionTimeout`.
const NO_EVICTION_TIMEOUT_FROM: u64 = 33;
/// First minor version without `kubeMaxPDVols`.
const NO_MAX_VOLUMES_FROM: u64 = 35;
/// Requests served at once at most.
const READS_MAX: i32 = 5_000;
const WRITES_MAX: i32 = 2_500;
/// Events are kept for a day at most: etcd holds them all.
const EVENT_TTL_MAX: GoDuration = GoDuration::from_hours(24);
/// Longest lifetime of service account tokens, at least and at most.
const TOKEN_LIFE: [GoDuration; 2] = [GoDuration::from_hours(30 * 24), GoDuration::from_hours(90 * 24)];
const TLS_VERSIONS: [&str; 2] = ["VersionTLS12", "VersionTLS13"];
/// Least resources by component: with less it would not start.
const LEAST_OF_API_SERVER: [(&str, &str); 2] = [("cpu", "20m"), ("memory", "200M")];
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

fn validate_api_server(errors: &mut Vec<FieldError>, path: &Path, server: &KubeAPIServerConfig, version: &str) {
    if server.enable_anonymous_authentication.is_some() && versions::is_from(version, NO_ANONYMOUS_FROM) {
        errors.push(path.child("enableAnonymousAuthentication").forbidden(format!(
            "Kubernetes 1.{NO_ANONYMOUS_FROM} and newer do not have this field; configure it in structuredAuthentication"
        )));
    }
    if let Some(sizes) = &server.watch_cache_sizes {
        validate_cache_sizes(errors, &path.child("watchCacheSizes"), sizes, version);
    }
    let numbers = [
        (
            "logging.verbosity",
            server
                .logging
                .as_ref()
                .and_then(|logging| logging.verbosity.map(i64::from)),
        ),
        (
            "logging.httpAccessVerbosity",
            server
                .logging
                .as_ref()
                .and_then(|logging| logging.http_access_verbosity.map(i64::from)),
        ),
        (
            "defaultNotReadyTolerationSeconds",
            server.default_not_ready_toleration_seconds,
        ),
        (
            "defaultUnreachableTolerationSeconds",
            server.default_unreachable_toleration_seconds,
        ),
    ];
    for (field, number) in numbers {
        not_negative(errors, &path.child(field), number);
    }
    let requests = server.requests.clone().unwrap_or_default();
    for (field, number, max) in [
        (
            "requests.maxNonMutatingInflight",
            requests.max_non_mutating_inflight,
            READS_MAX,
        ),
        (
            "requests.maxMutatingInflight",
            requests.max_mutating_inflight,
            WRITES_MAX,
        ),
    ] {
        if let Some(number) = number.filter(|number| *number > max) {
            errors.push(
                path.child(field)
                    .invalid(number, format!("must be at most {max}; lower it")),
            );
        }
    }
    if let Some(config) = &server.service_account_config {
        validate_service_accounts(errors, &path.child("serviceAccountConfig"), config);
    }
    validate_times_and_words(errors, path, server);
    validate_structured(errors, path, server);
    let autoscaling = server.autoscaling.as_ref();
    validate_autoscaling(errors, &path.child("autoscaling"), autoscaling, &LEAST_OF_API_SERVER);
    validate_feature_gates(errors, &path.child("featureGates"), &server.feature_gates, version);
}

fn validate_times_and_words(errors: &mut Vec<FieldError>, path: &Path, server: &KubeAPIServerConfig) {
    if let Some(life) = server.event_ttl
        && (life.as_nanos() < 0 || life.as_nanos() > EVENT_TTL_MAX.as_nanos())
    {
        let words = format!("must be between 0s and {EVENT_TTL_MAX}");
        errors.push(path.child("eventTTL").invalid(life, words));
    }
    if let Some(oldest) = &server.tls_min_version {
        let is_known = TLS_VERSIONS.contains(&oldest.as_str());
        known(errors, &path.child("tlsMinVersion"), is_known, oldest, &TLS_VERSIONS);
    }
    let audiences = path.child("apiAudiences");
    distinct(errors, server.api_audiences.iter().map(String::as_str), |index| {
        audiences.index(index)
    });
    for (index, audience) in server
        .api_audiences
        .iter()
        .enumerate()
        .filter(|(_, audience)| audience.contains(','))
    {
        errors.push(
            audiences
                .index(index)
                .invalid(audience, "must not contain a comma; list each audience by itself"),
        );
    }
}

/// Audit policy, authentication and authorization configuration.
fn validate_structured(errors: &mut Vec<FieldError>, path: &Path, server: &KubeAPIServerConfig) {
    const NAME_IT: &str = "must not be empty: name the ConfigMap, or remove the section";
    let policy = server
        .audit_config
        .as_ref()
        .and_then(|audit| audit.audit_policy.as_ref());
    if let Some(reference) = policy.and_then(|policy| policy.config_map_ref.as_ref()) {
        let path = path.child("auditConfig.auditPolicy.configMapRef.name");
        not_empty(errors, &path, reference.name.as_deref().unwrap_or_default());
    }
    let is_off = |gate: &str| server.feature_gates.get(gate) == Some(&false);
    let off = |gate: &str| format!("needs feature gate {gate}; do not switch it off");
    if let Some(authentication) = &server.structured_authentication {
        let path = path.child("structuredAuthentication");
        if is_off("StructuredAuthenticationConfiguration") {
            errors.push(path.forbidden(off("StructuredAuthenticationConfiguration")));
        }
        if authentication.config_map_name.is_empty() {
            errors.push(path.child("configMapName").forbidden(NAME_IT));
        }
    }
    if let Some(authorization) = &server.structured_authorization {
        let path = path.child("structuredAuthorization");
        if is_off("StructuredAuthorizationConfiguration") {
            errors.push(path.forbidden(off("StructuredAuthorizationConfiguration")));
        }
        if authorization.config_map_name.is_empty() {
            errors.push(path.child("configMapName").forbidden(NAME_IT));
        } else if authorization.kubeconfigs.is_empty() {
            errors.push(
                path.child("kubeconfigs")
                    .required("name the kubeconfig of each webhook of the configuration"),
            );
        }
    }
}

fn validate_cache_sizes(errors: &mut Vec<FieldError>, path: &Path, sizes: &WatchCacheSizes, version: &str) {
    if let Some(size) = sizes.default_ {
        let path = path.child("default");
        if versions::is_from(version, NO_DEFAULT_CACHE_FROM) {
            errors.push(path.forbidden(format!(
                "Kubernetes 1.{NO_DEFAULT_CACHE_FROM} and newer do not have this setting; remove it"
            )));
        } else {
            not_negative(errors, &path, Some(size));
        }
    }
    for (index, size) in sizes.resources.iter().enumerate() {
        let path = path.child("resources").index(index);
        let resource = path.child("resource");
        not_empty(errors, &resource, &size.resource);
        cache_word(errors, &resource, &size.resource, ",. #");
        cache_word(
            errors,
            &path.child("apiGroup"),
            size.api_group.as_deref().unwrap_or_default(),
            ", #",
        );
        not_negative(errors, &path.child("size"), Some(size.size));
    }
}

fn cache_word(errors: &mut Vec<FieldError>, path: &Path, text: &str, forbidden: &str) {
    if text.to_lowercase() != text {
        errors.push(path.invalid(text, "must be lower case"));
    }
    if text.contains(|letter| forbidden.contains(letter)) {
        errors.push(path.invalid(text, format!("must not contain any of {forbidden:?}")));
    }
}

fn validate_service_accounts(errors: &mut Vec<FieldError>, path: &Path, config: &ServiceAccountConfig) {
    if let Some(life) = config.max_token_expiration {
        let path = path.child("maxTokenExpiration");
        let [least, most] = TOKEN_LIFE;
        if life.as_nanos() < 0 {
            errors.push(path.invalid(life, "must not be negative"));
        } else if life.as_nanos() > 0 && life.as_nanos() < least.as_nanos() || life.as_nanos() > most.as_nanos() {
            errors.push(path.forbidden(format!("must be between {least} and {most}, is {life}")));
        }
    }
    if let Some(issuer) = &config.issuer {
        issuer_url(errors, &path.child("issuer"), issuer);
    }
    let mut seen = BTreeSet::new();
    for (index, issuer) in config.accepted_issuers.iter().enumerate() {
        let path = path.child("acceptedIssuers").index(index);
        issuer_url(errors, &path, issuer);
        if config.issuer.as_ref() == Some(issuer) {
            errors.push(path.invalid(issuer, "is the issuer itself, which is always accepted; remove it"));
        } else if !seen.insert(issuer) {
            errors.push(path.duplicate(issuer));
        }
    }
}

/// `https://HOST/PATH`, without user, query and fragment.
fn issuer_url(errors: &mut Vec<FieldError>, path: &Path, url: &str) {
    let rest = url.strip_prefix("https://");
    let host = rest
        .unwrap_or_default()
        .split(['/', '?', '#'])
        .next()
        .unwrap_or_default();
    if host.is_empty() || host.contains('@') || url.contains(['?', '#', ' ']) {
        errors.push(path.invalid(
            url,
            "must be a URL such as \"https://issuer.example.com/path\", with scheme https and without user, query and fragment",
        ));
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
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wrong(version: &str, kubernetes: Value) -> Vec<String> {
        let mut kubernetes: Kubernetes = serde_json::from_value(kubernetes).unwrap();
        kubernetes.version = Some(version.to_owned());
        let mut errors = Vec::new();
        validate_components(&mut errors, &Path::new("k"), &kubernetes);
        let said = errors
            .into_iter()
            .map(|error| format!("{} {}", error.path, error.kind.reason()));
        said.collect()
    }

    #[test]
    fn each_rule_of_the_api_server_names_its_field() {
        let cases = [
            (
                json!({"watchCacheSizes": {"default": -1}}),
                "watchCacheSizes.default FieldValueInvalid",
            ),
            (
                json!({"watchCacheSizes": {"resources": [{"size": 1}]}}),
                "watchCacheSizes.resources[0].resource FieldValueRequired",
            ),
            (
                json!({"watchCacheSizes": {"resources": [{"resource": "A", "size": 1}]}}),
                "watchCacheSizes.resources[0].resource FieldValueInvalid",
            ),
            (
                json!({"watchCacheSizes": {"resources": [{"resource": "a.b", "size": 1}]}}),
                "watchCacheSizes.resources[0].resource FieldValueInvalid",
            ),
            (
                json!({"watchCacheSizes": {"resources": [{"resource": "a", "size": -1}]}}),
                "watchCacheSizes.resources[0].size FieldValueInvalid",
            ),
            (
                json!({"logging": {"verbosity": -1}}),
                "logging.verbosity FieldValueInvalid",
            ),
            (
                json!({"logging": {"httpAccessVerbosity": -1}}),
                "logging.httpAccessVerbosity FieldValueInvalid",
            ),
            (
                json!({"defaultNotReadyTolerationSeconds": -1}),
                "defaultNotReadyTolerationSeconds FieldValueInvalid",
            ),
            (
                json!({"defaultUnreachableTolerationSeconds": -1}),
                "defaultUnreachableTolerationSeconds FieldValueInvalid",
            ),
            (
                json!({"requests": {"maxMutatingInflight": 2501}}),
                "requests.maxMutatingInflight FieldValueInvalid",
            ),
            (
                json!({"requests": {"maxNonMutatingInflight": 5001}}),
                "requests.maxNonMutatingInflight FieldValueInvalid",
            ),
            (
                json!({"serviceAccountConfig": {"maxTokenExpiration": "1h"}}),
                "serviceAccountConfig.maxTokenExpiration FieldValueForbidden",
            ),
            (
                json!({"serviceAccountConfig": {"maxTokenExpiration": "2161h"}}),
                "serviceAccountConfig.maxTokenExpiration FieldValueForbidden",
            ),
            (
                json!({"serviceAccountConfig": {"maxTokenExpiration": "-1h"}}),
                "serviceAccountConfig.maxTokenExpiration FieldValueInvalid",
            ),
            (
                json!({"serviceAccountConfig": {"issuer": "http://a"}}),
                "serviceAccountConfig.issuer FieldValueInvalid",
            ),
            (
                json!({"serviceAccountConfig": {"issuer": "https://a", "acceptedIssuers": ["https://a"]}}),
                "serviceAccountConfig.acceptedIssuers[0] FieldValueInvalid",
            ),
            (
                json!({"serviceAccountConfig": {"acceptedIssuers": ["https://a", "https://a"]}}),
                "serviceAccountConfig.acceptedIssuers[1] FieldValueDuplicate",
            ),
            (json!({"eventTTL": "25h"}), "eventTTL FieldValueInvalid"),
            (
                json!({"tlsMinVersion": "VersionTLS10"}),
                "tlsMinVersion FieldValueNotSupported",
            ),
            (
                json!({"apiAudiences": ["a", "a"]}),
                "apiAudiences[1] FieldValueDuplicate",
            ),
            (json!({"apiAudiences": ["a,b"]}), "apiAudiences[0] FieldValueInvalid"),
            (
                json!({"auditConfig": {"auditPolicy": {"configMapRef": {}}}}),
                "auditConfig.auditPolicy.configMapRef.name FieldValueRequired",
            ),
            (
                json!({"structuredAuthentication": {}}),
                "structuredAuthentication.configMapName FieldValueForbidden",
            ),
            (
                json!({"structuredAuthorization": {"configMapName": "a"}}),
                "structuredAuthorization.kubeconfigs FieldValueRequired",
            ),
            (
                json!({"structuredAuthorization": {}}),
                "structuredAuthorization.configMapName FieldValueForbidden",
            ),
            (json!({"autoscaling": {}}), "autoscaling.minAllowed FieldValueRequired"),
            (
                json!({"autoscaling": {"minAllowed": {"cpu": "10m"}}}),
                "autoscaling.minAllowed.cpu FieldValueInvalid",
            ),
            (
                json!({"autoscaling": {"minAllowed": {"disk": "1Gi"}}}),
                "autoscaling.minAllowed.disk FieldValueNotSupported",
            ),
            (
                json!({"featureGates": {"Nothing": true}}),
                "featureGates.Nothing FieldValueInvalid",
            ),
        ];
        for (server, expected) in cases {
            assert_eq!(
                wrong("1.34.1", json!({"kubeAPIServer": server})),
                [format!("k.kubeAPIServer.{expected}")]
            );
        }
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
