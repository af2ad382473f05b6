//! Rules of requests for tokens of WorkloadIdentities (gardener/gardener v1.150 pkg/api/security/validation/tokenrequest.go,
//! pkg/apiserver/registry/security/workloadidentity/storage).

use api_core::security::TokenRequest;

use crate::checks::{is_dns_name, not_empty};
use crate::{FieldError, Path};

/// Validity in seconds when the request has none.
const VALIDITY_S_DEFAULT: i64 = 60 * 60;
/// Shortest validity in seconds that may be requested.
const VALIDITY_S_MIN: i64 = 10 * 60;
/// Longest validity in seconds that may be requested.
const VALIDITY_S_MAX: i64 = 1 << 32;
/// Shortest and longest validity in seconds that is granted, as by the defaults of Gardener's flags
/// `--workload-identity-token-min-expiration` and `--workload-identity-token-max-expiration`.
const GRANTED_S: (i64, i64) = (60 * 60, 48 * 60 * 60);

/// Completes a request.
pub fn default_token_request(request: &mut TokenRequest) {
    request.spec.expiration_seconds.get_or_insert(VALIDITY_S_DEFAULT);
}

/// Everything that is wrong with a request, defaults applied.
pub fn validate_token_request(request: &TokenRequest) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let (seconds, path) = (
        request.spec.expiration_seconds.unwrap_or_default(),
        spec.child("expirationSeconds"),
    );
    if seconds < VALIDITY_S_MIN {
        let words = format!("must not be shorter than 10 minutes; ask for {VALIDITY_S_MIN} or more");
        errors.push(path.invalid(seconds, words));
    } else if seconds > VALIDITY_S_MAX {
        errors.push(path.invalid(seconds, "must not be longer than 2^32 seconds"));
    }
    let Some(context) = &request.spec.context_object else {
        return errors;
    };
    let path = spec.child("contextObject");
    let dns_name = |errors: &mut Vec<FieldError>, path: &Path, text: &str| {
        not_empty(errors, path, text);
        if !is_dns_name(text) {
            errors.push(path.invalid(text, "must be a lower case DNS name"));
        }
    };
    not_empty(&mut errors, &path.child("apiVersion"), &context.api_version);
    not_empty(&mut errors, &path.child("kind"), &context.kind);
    dns_name(&mut errors, &path.child("name"), &context.name);
    if let Some(namespace) = &context.namespace {
        dns_name(&mut errors, &path.child("namespace"), namespace);
    }
    errors
}

/// The validity in seconds that is granted to a request.
pub fn granted_token_validity(request: &TokenRequest) -> i64 {
    let (min, max) = GRANTED_S;
    request
        .spec
        .expiration_seconds
        .unwrap_or(VALIDITY_S_DEFAULT)
        .clamp(min, max)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn request(spec: Value) -> TokenRequest {
        let mut request = serde_json::from_value(json!({ "spec": spec })).unwrap();
        default_token_request(&mut request);
        request
    }

    #[test]
    fn each_rule_names_its_field() {
        let context = |field: &str, value: &str| {
            let mut context = json!({"apiVersion": "v1", "kind": "Shoot", "name": "s", "namespace": "n", "uid": "u"});
            context[field] = json!(value);
            json!({ "contextObject": context })
        };
        for (spec, path) in [
            (json!({"expirationSeconds": 599}), "spec.expirationSeconds"),
            (
                json!({"expirationSeconds": (1_i64 << 32) + 1}),
                "spec.expirationSeconds",
            ),
            (context("apiVersion", ""), "spec.contextObject.apiVersion"),
            (context("kind", ""), "spec.contextObject.kind"),
            (context("name", ""), "spec.contextObject.name"),
            (context("name", "A"), "spec.contextObject.name"),
            (context("namespace", ""), "spec.contextObject.namespace"),
            (context("namespace", "A"), "spec.contextObject.namespace"),
        ] {
            let errors = validate_token_request(&request(spec));
            assert!(
                !errors.is_empty() && errors.iter().all(|error| error.path == path),
                "{path}: {errors:?}"
            );
        }
        assert!(validate_token_request(&request(context("kind", "Seed"))).is_empty());
        assert!(validate_token_request(&request(json!({"expirationSeconds": 600}))).is_empty());
    }

    #[test]
    fn validity_is_granted_within_bounds() {
        let granted = |spec| granted_token_validity(&request(spec));
        assert_eq!(granted(json!({})), 3600);
        assert_eq!(granted(json!({"expirationSeconds": 600})), 3600);
        assert_eq!(granted(json!({"expirationSeconds": 7200})), 7200);
        assert_eq!(granted(json!({"expirationSeconds": 1_000_000})), 172_800);
    }
}
