//! Rules of APIServices (kube-aggregator v0.35 `pkg/apis/apiregistration/validation`).

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::text;

/// The highest priority of a group.
const GROUP_PRIORITY_MAX: i64 = 20_000;
const VERSION_PRIORITY_MAX: i64 = 1000;

pub(crate) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let (spec, root) = (&object["spec"], FieldPath::Root);
    let path = root.field("spec");
    let (group, version) = (text(spec, "group"), text(spec, "version"));
    let (name, required) = (text(&object["metadata"], "name"), format!("{version}.{group}"));
    if name != required {
        let why = format!("must be `spec.version+\".\"+spec.group`: {required:?}");
        errors.push(FieldError::invalid("metadata.name", name, why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        errors.push(FieldError::required(path.field("group"), why));
    }
    if let Some(why) = names::dns_subdomain(group).filter(|_| !group.is_empty()) {
        errors.push(FieldError::invalid(path.field("group"), group, why));
    }
    if let Some(why) = names::dns_label_1035(version) {
        errors.push(FieldError::invalid(path.field("version"), version, why));
    }
    for (field, max) in [
        ("groupPriorityMinimum", GROUP_PRIORITY_MAX),
        ("versionPriority", VERSION_PRIORITY_MAX),
    ] {
        let given = spec[field].as_i64().unwrap_or_default();
        if !(1..=max).contains(&given) {
            let why = format!("must be positive and less than {max}");
            errors.push(FieldError::invalid(path.field(field), given, why));
        }
    }
    trust(spec, &path, errors);
}

/// How the server is reached, and why it is trusted.
fn trust(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (bundle, insecure) = (text(spec, "caBundle"), spec["insecureSkipTLSVerify"] == true);
    let service = &spec["service"];
    if !service.is_object() {
        if !bundle.is_empty() {
            let length = format!("{} bytes", bundle.trim_end_matches('=').len() * 3 / 4);
            let why = "local APIServices may not have a caBundle";
            errors.push(FieldError::invalid(path.field("caBundle"), length, why));
        }
        if insecure {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            errors.push(FieldError::invalid(path.field("insecureSkipTLSVerify"), true, why));
        }
        return;
    }
    let at = path.field("service");
    for field in ["namespace", "name"] {
        if text(service, field).is_empty() {
            errors.push(FieldError::required(at.field(field), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or_default();
    if !(1..=65535).contains(&port) {
        let why = "port is not valid: must be between 1 and 65535, inclusive";
        errors.push(FieldError::invalid(at.field("port"), port, why));
    }
    if insecure && !bundle.is_empty() {
        let why = "may not be true if caBundle is present";
        errors.push(FieldError::invalid(path.field("insecureSkipTLSVerify"), true, why));
    }
}
