//! Rules of CertificateSigningRequests (Kubernetes v1.35 `pkg/apis/certificates/validation/validation.go`).
//! The request's PEM is not parsed here; the API server does that.

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::{elements, text};

const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

/// Shortest validity a client may request, in seconds.
const EXPIRATION_S_MIN: i64 = 600;

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    let at = path.field("usages");
    if elements(spec, "usages").next().is_none() {
        errors.push(FieldError::required(at, ""));
    }
    for (index, usage) in elements(spec, "usages").enumerate() {
        if !usage.as_str().is_some_and(|usage| USAGES.contains(&usage)) {
            errors.push(FieldError::not_supported(at.index(index), usage.clone(), &USAGES));
        }
    }
    let at = path.field("signerName");
    match text(spec, "signerName") {
        "" => errors.push(FieldError::required(at, "")),
        name if name
            .split_once('/')
            .is_none_or(|(domain, path)| domain.is_empty() || path.is_empty()) =>
        {
            errors.push(FieldError::invalid(
                at,
                name,
                "must be a fully qualified domain and path of the form 'example.com/signer-name'",
            ));
        }
        _ => {}
    }
    if spec
        .get("expirationSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < EXPIRATION_S_MIN)
    {
        let words = format!("may not specify a duration less than {EXPIRATION_S_MIN} seconds (10 minutes)");
        errors.push(FieldError::invalid(
            path.field("expirationSeconds"),
            spec["expirationSeconds"].clone(),
            words,
        ));
    }
    if old.is_some_and(|old| old["spec"] != *spec) {
        errors.push(FieldError::invalid(path, spec.clone(), "field is immutable"));
    }
}
