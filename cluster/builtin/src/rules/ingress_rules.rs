//! Rules of Ingresses (Kubernetes v1.35 `pkg/apis/networking/validation`).

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::{elements, text};
use crate::rules::checks::one_of;

pub(crate) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    if elements(spec, "rules").next().is_none() && spec.get("defaultBackend").is_none() {
        let words = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(
            path,
            elements(spec, "rules").cloned().collect::<Vec<_>>(),
            words,
        ));
    }
    let rules = path.field("rules");
    for (index, rule) in elements(spec, "rules").enumerate() {
        let at = rules.index(index);
        let http = at.field("http");
        let paths = http.field("paths");
        for (index, entry) in elements(&rule["http"], "paths").enumerate() {
            let at = paths.index(index);
            one_of(
                entry,
                "pathType",
                &["Exact", "ImplementationSpecific", "Prefix"],
                &at,
                errors,
            );
            let exact = matches!(text(entry, "pathType"), "Exact" | "Prefix");
            if exact && !text(entry, "path").starts_with('/') {
                errors.push(FieldError::invalid(
                    at.field("path"),
                    text(entry, "path"),
                    "must be an absolute path",
                ));
            }
            if entry.pointer("/backend/service/name").is_none() && entry.pointer("/backend/resource").is_none() {
                errors.push(FieldError::required(
                    at.field("backend"),
                    "resource or service backend is required",
                ));
            }
        }
    }
}
