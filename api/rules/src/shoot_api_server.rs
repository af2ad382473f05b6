//! Rules of the settings of a Shoot's API server (gardener/gardener v1.150 pkg/api/core/validation/shoot.go). What it
//! would refuse when it starts is refused here, where its owner reads it.

use std::collections::BTreeSet;

use api_core::v1beta1::{KubeAPIServerConfig, ServiceAccountConfig, WatchCacheSizes};
use api_meta::GoDuration;

use crate::checks::{distinct, known, not_empty};
use crate::feature_gates::validate_feature_gates;
use crate::shoot_components::{not_negative, validate_autoscaling};
use crate::shoot_settle::NO_ANONYMOUS_FROM;
use crate::{FieldError, Path, versions};

/// First minor version without a size of the watch cache for resources that are not listed.
const NO_DEFAULT_CACHE_FROM: u64 = 35;
/// Requests served at once at most.
const READS_MAX: i32 = 5_000;
const WRITES_MAX: i32 = 2_500;
/// Events are retained for a day at most: etcd holds them all.
const EVENT_TTL_MAX: GoDuration = GoDuration::from_hours(24);
/// Longest lifetime of service account tokens, at least and at most.
const TOKEN_LIFE: [GoDuration; 2] = [GoDuration::from_hours(30 * 24), GoDuration::from_hours(90 * 24)];
const TLS_VERSIONS: [&str; 2] = ["VersionTLS12", "VersionTLS13"];
/// Least resources of an API server: with less it would not start.
const LEAST_OF_API_SERVER: [(&str, &str); 2] = [("cpu", "20m"), ("memory", "200M")];

/// Everything that is wrong with the settings of an API server.
pub(crate) fn validate_api_server(
    errors: &mut Vec<FieldError>,
    path: &Path,
    server: &KubeAPIServerConfig,
    version: &str,
) {
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

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::shoot_components::tests::wrong;

    /// Settings of an API server that one rule refuses, with the field and the reason.
    fn each_is_wrong(cases: Vec<(Value, &str)>) {
        for (server, expected) in cases {
            assert_eq!(
                wrong("1.34.1", json!({"kubeAPIServer": server})),
                [format!("k.kubeAPIServer.{expected}")]
            );
        }
    }

    #[test]
    fn each_rule_of_caches_logs_and_limits_names_its_field() {
        let cases = vec![
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
        ];
        each_is_wrong(cases);
    }

    #[test]
    fn each_rule_of_service_accounts_names_its_field() {
        let cases = vec![
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
        ];
        each_is_wrong(cases);
    }

    #[test]
    fn each_rule_of_references_words_and_resources_names_its_field() {
        let cases = vec![
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
        each_is_wrong(cases);
    }
}
