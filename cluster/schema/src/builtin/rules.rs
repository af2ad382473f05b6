//! Rules of built-in kinds beyond their fields' types (Kubernetes v1.35 `pkg/apis/*/validation`), for objects that are
//! already defaulted. A first set: what people and controllers run into. It never reads other objects.

use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use super::{
    admission_rules, api_services, autoscalers, certificates, claims, core_rules, definition, elements,
    endpoint_slices, network_policies, pod_rules, policy_rules, service, text, workload_rules,
};
use crate::go_internal;

const ADMISSION_GROUP: &str = "admissionregistration.k8s.io";
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
/// The largest priority that is not the system's own.
const USER_PRIORITY_MAX: i64 = 1_000_000_000;
const NO_PERCENT: &str = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
/// Priority classes that are there from the start, and what they are worth.
pub const SYSTEM_PRIORITIES: [(&str, i64); 2] = [
    ("system-node-critical", 2 * USER_PRIORITY_MAX + 1000),
    ("system-cluster-critical", 2 * USER_PRIORITY_MAX),
];

/// All errors of a defaulted object of `group` (empty for core), `version`, `kind`; `old` on update. Metadata is not
/// judged here: its rules are the same for all kinds, but for the name ([`refuse_name`]).
pub fn validate(group: &str, version: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !matches!(group, "apiextensions.k8s.io" | "apiregistration.k8s.io") {
        finalizers(object, &mut errors);
    }
    match (group, version, kind) {
        ("", "v1", _) => core_rules::validate(kind, object, old, &mut errors),
        ("apps", "v1", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => {
            workload_rules::apps(kind, object, old, &mut errors);
        }
        ("batch", "v1", "Job") => workload_rules::job(object, old, &mut errors),
        ("batch", "v1", "CronJob") => workload_rules::cron_job(object, &mut errors),
        (RBAC_GROUP, "v1", "Role" | "ClusterRole") => role(kind, object, &mut errors),
        (RBAC_GROUP, "v1", "RoleBinding" | "ClusterRoleBinding") => binding(kind, object, old, &mut errors),
        ("networking.k8s.io", "v1", "Ingress") => ingress(object, &mut errors),
        ("networking.k8s.io", "v1", "NetworkPolicy") => network_policies::validate(object, old, &mut errors),
        ("coordination.k8s.io", "v1", "Lease") => lease(object, &mut errors),
        ("certificates.k8s.io", "v1", "CertificateSigningRequest") => certificates::validate(object, old, &mut errors),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => definition::validate(object, old, &mut errors),
        ("apiregistration.k8s.io", "v1", "APIService") => api_services::validate(object, &mut errors),
        ("storage.k8s.io", "v1", "StorageClass") => {
            require(object, "provisioner", &FieldPath::Root, &mut errors);
            immutable(
                object,
                old,
                &["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"],
                &mut errors,
            );
        }
        ("scheduling.k8s.io", "v1", "PriorityClass") => priority_class(object, old, &mut errors),
        ("discovery.k8s.io", "v1", "EndpointSlice") => {
            endpoint_slices::validate(object, old, &mut errors);
            immutable(object, old, &["addressType"], &mut errors);
        }
        (ADMISSION_GROUP, "v1", _) => match kind {
            "MutatingWebhookConfiguration" => admission_rules::webhooks(true, object, old, &mut errors),
            "ValidatingWebhookConfiguration" => admission_rules::webhooks(false, object, old, &mut errors),
            "ValidatingAdmissionPolicy" => policy_rules::policy(object, old, &mut errors),
            "ValidatingAdmissionPolicyBinding" => policy_rules::policy_binding(object, &mut errors),
            _ => {}
        },
        ("policy", "v1", "PodDisruptionBudget") => budget(object, &mut errors),
        ("autoscaling", "v2", "HorizontalPodAutoscaler") => autoscalers::validate(object, old, &mut errors),
        _ => {}
    }
    errors
}

/// What is said beside an object that is taken. What pods are made of is told when it is new
/// (`pkg/registry/*/*/strategy.go`, `WarningsOnUpdate`).
pub fn warnings(group: &str, kind: &str, object: &Value, old: Option<&Value>) -> Vec<String> {
    let is_told = match (kind, old) {
        (_, None) => true,
        ("Service" | "PersistentVolumeClaim" | "NetworkPolicy", _) => true,
        ("DaemonSet", Some(old)) => object["spec"]["template"] != old["spec"]["template"],
        (_, Some(old)) => object["metadata"]["generation"] != old["metadata"]["generation"],
    };
    if !is_told {
        return Vec::new();
    }
    match (group, kind) {
        ("", "Service") => service::warnings(object),
        ("", "PersistentVolumeClaim") => claims::warnings(object),
        ("networking.k8s.io", "NetworkPolicy") => network_policies::warnings(object),
        ("", "PodTemplate") => pod_rules::warnings(&object["template"], "template."),
        ("", "ReplicationController") | ("apps", _) | ("batch", "Job") => {
            pod_rules::warnings(&object["spec"]["template"], "spec.template.")
        }
        ("batch", "CronJob") => {
            let template = &object["spec"]["jobTemplate"]["spec"]["template"];
            pod_rules::warnings(template, "spec.jobTemplate.spec.template.")
        }
        _ => Vec::new(),
    }
}

/// Why `name` cannot be the name of an object of this kind; `None` when it can.
pub fn refuse_name(group: &str, kind: &str, name: &str) -> Option<String> {
    match (group, kind) {
        (RBAC_GROUP | "apiregistration.k8s.io", _) => names::path_segment(name),
        ("", "Namespace") => names::dns_label(name),
        ("", "Service") => names::dns_label_1035(name),
        _ => names::dns_subdomain(name),
    }
}

/// Of a PodDisruptionBudget (`pkg/apis/policy/validation`).
fn budget(object: &Value, errors: &mut Vec<FieldError>) {
    let (root, spec) = (FieldPath::Root, &object["spec"]);
    let path = root.field("spec");
    if spec.get("minAvailable").is_some() && spec.get("maxUnavailable").is_some() {
        let words = "minAvailable and maxUnavailable cannot be both set";
        let error = FieldError::invalid(path, spec.clone(), words);
        errors.push(error.shown_as(go_internal::line("PodDisruptionBudgetSpec", spec)));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        number_or_percent(spec.get(name), &path.field(name), errors);
    }
    label_selector(&spec["selector"], &path.field("selector"), errors);
    let policy = text(spec, "unhealthyPodEvictionPolicy");
    let policies = ["AlwaysAllow", "IfHealthyBudget"];
    if spec.get("unhealthyPodEvictionPolicy").is_some() && !policies.contains(&policy) {
        let at = path.field("unhealthyPodEvictionPolicy");
        errors.push(FieldError::not_supported(at, policy, &policies));
    }
}

/// How many of something, as a number or as a part of all (`pkg/apis/apps/validation`).
fn number_or_percent(value: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match value {
        Some(Value::String(text)) => {
            let digits = text.strip_suffix('%').filter(|digits| !digits.is_empty());
            match digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
                None => errors.push(FieldError::invalid(path, text.as_str(), NO_PERCENT)),
                Some(digits) if digits.parse::<u32>().is_ok_and(|part| part <= 100) => {}
                Some(_) => errors.push(FieldError::invalid(
                    path,
                    text.as_str(),
                    "must not be greater than 100%",
                )),
            }
        }
        Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
            let words = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(path, number.as_i64(), words));
        }
        _ => {}
    }
}

/// Of any object that selects others (apimachinery v0.35 `pkg/apis/meta/v1/validation`).
pub(super) fn label_selector(selector: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if let Some(labels) = selector["matchLabels"].as_object() {
        names::validate_labels(labels, &path.field("matchLabels"), errors);
    }
    let list = path.field("matchExpressions");
    for (index, requirement) in elements(selector, "matchExpressions").enumerate() {
        let at = list.index(index);
        let has_values = elements(requirement, "values").next().is_some();
        match text(requirement, "operator") {
            "In" | "NotIn" if !has_values => errors.push(FieldError::required(
                at.field("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            )),
            "Exists" | "DoesNotExist" if has_values => errors.push(FieldError::forbidden(
                at.field("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            )),
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                at.field("operator"),
                other,
                "not a valid selector operator",
            )),
        }
        names::validate_qualified_name(text(requirement, "key"), &at.field("key"), errors);
        let values = at.field("values");
        for (index, value) in elements(requirement, "values").enumerate() {
            let value = value.as_str().unwrap_or_default();
            if let Some(why) = names::label_value(value) {
                errors.push(FieldError::invalid(values.index(index), value, why));
            }
        }
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

fn binding(binding: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
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
    let kinds: &[&str] = if binding == "RoleBinding" {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&text(role, "kind")) {
        errors.push(FieldError::not_supported(path.field("kind"), text(role, "kind"), kinds));
    }
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
                if binding == "ClusterRoleBinding" {
                    require(subject, "namespace", &at, errors);
                }
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
        let error = FieldError::invalid("roleRef", role.clone(), "cannot change roleRef");
        errors.push(error.shown_as(go_internal::line("RoleRef", role)));
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

/// Kubernetes' own kinds take finalizers of Kubernetes' own and of domains (`validateKubeFinalizerName`).
fn finalizers(object: &Value, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("metadata");
    kube_finalizers(&object["metadata"], &path, errors);
}

/// Finalizers below `finalizers` of `owner`.
pub(super) fn kube_finalizers(owner: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let path = path.field("finalizers");
    for (index, finalizer) in elements(owner, "finalizers").enumerate() {
        let name = finalizer.as_str().unwrap_or_default();
        if !name.contains('/') && !names::STANDARD_FINALIZERS.contains(&name) {
            let words = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(path.index(index), name, words));
        }
    }
}

fn priority_class(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let name = text(&object["metadata"], "name");
    let value = object["value"].as_i64().unwrap_or_default();
    if name.starts_with("system-") {
        let known = SYSTEM_PRIORITIES.iter().find(|(known, _)| *known == name);
        let why = match known {
            None => format!("{name} is not a known system priority class"),
            Some((_, wanted)) if *wanted != value => format!("value of {name} PriorityClass must be {wanted}"),
            Some(_) if object["globalDefault"] == true => {
                format!("globalDefault of {name} PriorityClass must be false")
            }
            Some(_) => String::new(),
        };
        if !why.is_empty() {
            let words =
                format!("priority class names with 'system-' prefix are reserved for system use only. error: {why}");
            errors.push(FieldError::forbidden("metadata.name", words));
        }
    } else if value > USER_PRIORITY_MAX {
        let words = format!("maximum allowed value of a user defined priority is {USER_PRIORITY_MAX}");
        errors.push(FieldError::forbidden("value", words));
    }
    let policy = text(object, "preemptionPolicy");
    if !matches!(policy, "PreemptLowerPriority" | "Never") {
        let allowed = ["PreemptLowerPriority", "Never"];
        errors.push(FieldError::not_supported("preemptionPolicy", policy, &allowed));
    }
    if old.is_some_and(|old| old["value"].as_i64().unwrap_or_default() != value) {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    immutable(object, old, &["preemptionPolicy"], errors);
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

pub(super) fn immutable(object: &Value, old: Option<&Value>, fields: &[&str], errors: &mut Vec<FieldError>) {
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
