//! Rules of built-in kinds beyond their fields' types (Kubernetes v1.35 `pkg/apis/*/validation`), for objects that are
//! already defaulted. A first set: what people and controllers run into. It never reads other objects.

use serde_json::{Map, Value};

use super::{certificates, definition, elements, pod_rules, service, text, workload_rules};
use crate::{FieldError, FieldPath, names};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Most bytes in a Secret or ConfigMap (`core.MaxSecretSize`).
const CONFIG_BYTES_MAX: usize = 1024 * 1024;

/// All errors of a defaulted object of `group` (empty for core), `version`, `kind`; `old` on update. Metadata is not
/// judged here: its rules are the same for all kinds, but for the name ([`refuse_name`]).
pub fn validate(group: &str, version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (group, version, kind) {
        ("", "v1", _) => core(kind, object, old, &mut errors),
        ("apps", "v1", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload_rules::apps(kind, object, old, &mut errors);
        }
        ("batch", "v1", "Job") => workload_rules::job(object, old, &mut errors),
        ("batch", "v1", "CronJob") => workload_rules::cron_job(object, &mut errors),
        (RBAC_GROUP, "v1", "Role" | "ClusterRole") => role(kind, object, &mut errors),
        (RBAC_GROUP, "v1", "RoleBinding" | "ClusterRoleBinding") => binding(kind, object, old, &mut errors),
        ("networking.k8s.io", "v1", "Ingress") => ingress(object, &mut errors),
        ("coordination.k8s.io", "v1", "Lease") => lease(object, &mut errors),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest") => certificates::validate(object, old, &mut errors),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => definition::validate(object, old, &mut errors),
        ("storage.k8s.io", "v1", "StorageClass") => {
            require(object, "provisioner", &FieldPath::Root, &mut errors);
            immutable(
                object,
                old,
                &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
                &mut errors,
            );
        }
        ("scheduling.k8s.io", "v1", "PriorityClass") => immutable(object, old, &["value"], &mut errors),
        ("discovery.k8s.io", "v1", "EndpointSlice") => {
            one_of(
                object,
                "addressType",
                &["FQDN", "IPv4", "IPv6"],
                &FieldPath::Root,
                &mut errors,
            );
            immutable(object, old, &["addressType"], &mut errors);
        }
        ("policy", "v1", "PodDisruptionBudget") => {
            let spec = &object["spec"];
            if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
                let words = "minAvailable and maxUnavailable cannot be both set";
                errors.push(FieldError::invalid("spec", spec.clone(), words));
            }
        }
        _ => {}
    }
    errors
}

/// Why `name` cannot be the name of an object of this kind; `None` when it can.
pub fn refuse_name(group: &str, kind: &str, name: &str) -> Option<String> {
    match (group, kind) {
        (RBAC_GROUP, _) => names::path_segment(name),
        ("", "Namespace" | "Service") => names::dns_label(name),
        _ => names::dns_subdomain(name),
    }
}

fn core(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    match kind {
        "Pod" => pod_rules::pod(object, old, errors),
        "Service" => service::validate(object, old, errors),
        "Secret" => {
            immutable(object, old, &["type"], errors);
            config(object, old, &["data"], errors);
            secret_type(object, errors);
        }
        "ConfigMap" => {
            config(object, old, &["data", "binaryData"], errors);
            let data = object.get("data").and_then(Value::as_object);
            let binary = object.get("binaryData").and_then(Value::as_object);
            if let (Some(data), Some(binary)) = (data, binary) {
                for key in data.keys().filter(|key| binary.contains_key(*key)) {
                    let root = FieldPath::Root;
                    let at = root.field("data");
                    errors.push(FieldError::invalid(
                        at.key(key),
                        key.as_str(),
                        "duplicate of key present in binaryData",
                    ));
                }
            }
        }
        "PersistentVolumeClaim" => claim(object, old, errors),
        "Event" => {
            let involved = text(&object["involvedObject"], "namespace");
            let own = text(&object["metadata"], "namespace");
            if !involved.is_empty() && involved != own {
                errors.push(FieldError::invalid(
                    "involvedObject.namespace",
                    involved,
                    "does not match event.namespace",
                ));
            }
        }
        "Node" => {
            let before = old.map_or("", |old| text(&old["spec"], "providerID"));
            if !before.is_empty() && before != text(&object["spec"], "providerID") {
                errors.push(FieldError::forbidden(
                    "spec.providerID",
                    "node updates may not change providerID except from \"\" to valid",
                ));
            }
        }
        _ => {}
    }
}

fn config(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let mut bytes = 0;
    for field in fields {
        let path = root.field(field);
        let none = Map::new();
        for (key, value) in object.get(*field).and_then(Value::as_object).unwrap_or(&none) {
            bytes += value.as_str().map_or(0, str::len);
            if let Some(why) = names::config_key(key) {
                errors.push(FieldError::invalid(path.key(key), key.as_str(), why));
            }
        }
    }
    if bytes > CONFIG_BYTES_MAX * if fields.len() == 1 { 4 } else { 3 } / 3 {
        errors.push(FieldError::too_long(root.field(fields[0]), CONFIG_BYTES_MAX));
    }
    let Some(old) = old.filter(|old| old["immutable"] == true) else {
        return;
    };
    let words = "field is immutable when `immutable` is set";
    if object["immutable"] != true {
        errors.push(FieldError::forbidden("immutable", words));
    }
    for field in fields {
        if object.get(*field) != old.get(*field) {
            errors.push(FieldError::forbidden(root.field(field), words));
        }
    }
}

fn secret_type(object: &Value, errors: &mut Vec<FieldError>) {
    let needed: &[&str] = match text(object, "type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/service-account-token" => {
            let annotations = &object["metadata"]["annotations"];
            if text(annotations, "kubernetes.io/service-account.name").is_empty() {
                let at = "metadata.annotations[kubernetes.io/service-account.name]";
                errors.push(FieldError::required(at, ""));
            }
            &[]
        }
        _ => &[],
    };
    for key in needed.iter().filter(|key| object["data"].get(**key).is_none()) {
        let root = FieldPath::Root;
        errors.push(FieldError::required(root.field("data").key(key), ""));
    }
}

fn claim(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    if elements(spec, "accessModes").next().is_none() {
        errors.push(FieldError::required(
            path.field("accessModes"),
            "at least 1 access mode is required",
        ));
    }
    if spec.pointer("/resources/requests/storage").is_none() {
        errors.push(FieldError::required(path.field("resources").key("storage"), ""));
    }
    let Some(old) = old else { return };
    let fixed = |claim: &Value| {
        let mut spec = claim["spec"].clone();
        if let Some(map) = spec.as_object_mut() {
            // Written once by the binder, or changeable by rule.
            let bound = !text(&old["spec"], "volumeName").is_empty();
            if !bound {
                map.remove("volumeName");
            }
            map.remove("resources");
            map.remove("volumeAttributesClassName");
            if text(&old["spec"], "storageClassName").is_empty() {
                map.remove("storageClassName");
            }
        }
        spec
    };
    if fixed(object) != fixed(old) {
        let words =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden(path, words));
    }
}

fn role(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("rules");
    for (index, rule) in elements(object, "rules").enumerate() {
        let at = path.index(index);
        let any = |name: &str| elements(rule, name).next().is_some();
        if !any("verbs") {
            errors.push(FieldError::required(
                at.field("verbs"),
                "verbs must contain at least one value",
            ));
        }
        if any("nonResourceURLs") {
            if kind == "Role" {
                let words = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(
                    at.field("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    words,
                ));
            }
            if any("apiGroups") || any("resources") || any("resourceNames") {
                let words = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(
                    at.field("nonResourceURLs"),
                    rule["nonResourceURLs"].clone(),
                    words,
                ));
            }
            continue;
        }
        if !any("apiGroups") {
            errors.push(FieldError::required(
                at.field("apiGroups"),
                "resource rules must supply at least one api group",
            ));
        }
        if !any("resources") {
            errors.push(FieldError::required(
                at.field("resources"),
                "resource rules must supply at least one resource",
            ));
        }
    }
}

fn binding(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("roleRef");
    let role = &object["roleRef"];
    if text(role, "apiGroup") != RBAC_GROUP {
        errors.push(FieldError::not_supported(
            path.field("apiGroup"),
            text(role, "apiGroup"),
            &[RBAC_GROUP],
        ));
    }
    let kinds: &[&str] = if kind == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    one_of(role, "kind", kinds, &path, errors);
    require(role, "name", &path, errors);
    let path = root.field("subjects");
    for (index, subject) in elements(object, "subjects").enumerate() {
        let at = path.index(index);
        require(subject, "name", &at, errors);
        let (kind, group) = (text(subject, "kind"), text(subject, "apiGroup"));
        match kind {
            "ServiceAccount" => {
                if !group.is_empty() {
                    errors.push(FieldError::not_supported(at.field("apiGroup"), group, &[""]));
                }
                require(subject, "namespace", &at, errors);
            }
            "User" | "Group" => {
                if group != RBAC_GROUP {
                    errors.push(FieldError::not_supported(at.field("apiGroup"), group, &[RBAC_GROUP]));
                }
            }
            _ => errors.push(FieldError::not_supported(
                at.field("kind"),
                kind,
                &["ServiceAccount", "User", "Group"],
            )),
        }
    }
    if old.is_some_and(|old| old["roleRef"] != *role) {
        errors.push(FieldError::invalid("roleRef", role.clone(), "cannot change roleRef"));
    }
}

fn ingress(object: &Value, errors: &mut Vec<FieldError>) {
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

fn lease(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    if spec["leaseDurationSeconds"]
        .as_i64()
        .is_some_and(|seconds| seconds <= 0)
    {
        let value = spec["leaseDurationSeconds"].clone();
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            value,
            "must be greater than 0",
        ));
    }
    if spec["leaseTransitions"].as_i64().is_some_and(|count| count < 0) {
        let value = spec["leaseTransitions"].clone();
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            value,
            "must be greater than or equal to 0",
        ));
    }
}

/// A text field that must not be empty.
pub(super) fn require(object: &Value, name: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if text(object, name).is_empty() {
        errors.push(FieldError::required(path.field(name), ""));
    }
}

/// A text field that must be one of a few.
pub(super) fn one_of(object: &Value, name: &str, allowed: &[&str], path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match text(object, name) {
        "" => errors.push(FieldError::required(
            path.field(name),
            format!("must be one of {}", allowed.join(", ")),
        )),
        value if !allowed.contains(&value) => {
            errors.push(FieldError::not_supported(path.field(name), value, allowed));
        }
        _ => {}
    }
}

fn immutable(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
    let Some(old) = old else { return };
    for field in fields.iter().filter(|field| object.get(**field) != old.get(**field)) {
        errors.push(FieldError::invalid(
            *field,
            object[*field].clone(),
            "field is immutable",
        ));
    }
}

/// A port number, 1 to 65535; a missing one is an error too.
pub(super) fn port_number(port: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let number = port.and_then(Value::as_i64).unwrap_or_default();
    if !(1..=65535).contains(&number) {
        errors.push(FieldError::invalid(
            path,
            number,
            "must be between 1 and 65535, inclusive",
        ));
    }
}

/// A number that must not be negative, when it is there.
pub(super) fn not_negative(object: &Value, name: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(number) = object.get(name).and_then(Value::as_i64).filter(|number| *number < 0) {
        errors.push(FieldError::invalid(
            path.field(name),
            number,
            "must be greater than or equal to 0",
        ));
    }
}
