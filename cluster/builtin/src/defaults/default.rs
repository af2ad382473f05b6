//! Defaults that kube-apiserver sets in code (Kubernetes v1.35 `pkg/apis/*/v1/defaults.go` and the parts of its
//! strategies that are plain functions of the object). It never reads another object or the clock.

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::defaults::{autoscaler_defaults, pod_defaults, service_defaults};
use crate::json::fields::{child, elements, elements_mut, is_unset, set_default, set_default_of_pointer, text};

/// The annotation that counts the changes of a DaemonSet's template, as upstream's internal spec does. The API server counts.
pub const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// Group of roles, bindings and most of their subjects.
const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// Fill in what a missing field means, as kube-apiserver 1.35 does, for objects of `group` (empty for core),
/// `version`, `kind`. Doing it twice changes nothing more. Unknown kinds stay as they are.
pub fn default(group: &str, version: &str, kind: &str, object: &mut Value) {
    if !object.is_object() {
        return;
    }
    match (group, version, kind) {
        ("", "v1", _) => core(kind, object),
        ("apps", "v1", _) => apps(kind, object),
        ("batch", "v1", "Job") => {
            if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
                job_spec(spec);
            }
            labels_from_template(object);
        }
        ("batch", "v1", "CronJob") => cron_job(object),
        (RBAC_GROUP, "v1", "RoleBinding" | "ClusterRoleBinding") => binding(object),
        ("networking.k8s.io", "v1", "NetworkPolicy") => network_policy(object),
        ("networking.k8s.io", "v1", "IngressClass") => ingress_class(object),
        ("apiextensions.k8s.io", "v1", "CustomResourceDefinition") => custom_resource_definition(object),
        ("discovery.k8s.io", "v1", "EndpointSlice") => {
            for port in elements_mut(object, "ports") {
                set_default_of_pointer(port, "protocol", "TCP");
                if let Some(port) = port.as_object_mut() {
                    port.entry("name").or_insert_with(|| "".into());
                }
            }
        }
        ("apiregistration.k8s.io", "v1", "APIService") => {
            if let Some(service) = object.pointer_mut("/spec/service") {
                set_default(service, "port", 443);
            }
        }
        ("admissionregistration.k8s.io", "v1", _) => admission_defaults(kind, object),
        ("storage.k8s.io", "v1", "StorageClass") => {
            set_default(object, "reclaimPolicy", "Delete");
            set_default(object, "volumeBindingMode", "Immediate");
        }
        ("autoscaling", "v1", "HorizontalPodAutoscaler") => {
            if let Some(spec) = object.get_mut("spec") {
                set_default(spec, "minReplicas", 1);
            }
        }
        ("autoscaling", "v2", "HorizontalPodAutoscaler") => autoscaler_defaults::default(object),
        ("scheduling.k8s.io", "v1", "PriorityClass") => set_default(object, "preemptionPolicy", "PreemptLowerPriority"),
        _ => {}
    }
}

fn core(kind: &str, object: &mut Value) {
    match kind {
        "Pod" => pod_defaults::pod(object),
        "PodTemplate" => pod_defaults::template(object),
        "Service" => service_defaults::default(object),
        "Secret" => secret(object),
        "Namespace" => {
            let name = text(&object["metadata"], "name").to_owned();
            if !name.is_empty()
                && let Some(labels) = child(object, "metadata").and_then(|meta| child(meta, "labels"))
            {
                labels["kubernetes.io/metadata.name"] = name.into();
            }
            if let Some(status) = child(object, "status") {
                set_default(status, "phase", "Active");
            }
            if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
                spec.retain(|_, list| list.as_array().is_none_or(|list| !list.is_empty()));
            }
        }
        "PersistentVolumeClaim" => claim(object),
        "PersistentVolume" => {
            if let Some(spec) = object.get_mut("spec") {
                set_default(spec, "persistentVolumeReclaimPolicy", "Retain");
                set_default(spec, "volumeMode", "Filesystem");
            }
            if let Some(status) = child(object, "status") {
                set_default(status, "phase", "Pending");
            }
        }
        "LimitRange" => {
            if let Some(spec) = object.get_mut("spec") {
                elements_mut(spec, "limits").for_each(limits);
            }
        }
        "Node" => {
            if let Some(spec) = object.get_mut("spec") {
                pod_ranges(spec);
            }
            if let Some(capacity) = object.pointer("/status/capacity").cloned() {
                set_default(&mut object["status"], "allocatable", capacity);
            }
        }
        "Endpoints" => {
            for subset in elements_mut(object, "subsets") {
                for port in elements_mut(subset, "ports") {
                    set_default(port, "protocol", "TCP");
                }
            }
        }
        "ReplicationController" => {
            labels_from_template(object);
            if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
                set_default(spec, "replicas", 1);
                pod_defaults::template(spec);
                if let Some(labels) = spec.pointer("/template/metadata/labels").cloned() {
                    set_default(spec, "selector", labels);
                }
            }
        }
        _ => {}
    }
}

/// The first range and the list of all of them agree; the first is what old clients write (pkg/apis/core/v1/conversion.go).
fn pod_ranges(spec: &mut Value) {
    let first = text(spec, "podCIDR").to_owned();
    let listed = elements(spec, "podCIDRs")
        .next()
        .and_then(Value::as_str)
        .map(str::to_owned);
    match listed {
        _ if first.is_empty() => {
            if let Some(listed) = listed {
                spec["podCIDR"] = listed.into();
            }
        }
        Some(listed) if listed == first => {}
        _ => spec["podCIDRs"] = json!([first]),
    }
}

/// Limits of containers default to the maximum, and requests to the limits.
fn limits(item: &mut Value) {
    if text(item, "type") != "Container" {
        return;
    }
    for (from, to) in [
        ("max", "default"),
        ("default", "defaultRequest"),
        ("min", "defaultRequest"),
    ] {
        let Some(amounts) = item
            .get(from)
            .and_then(Value::as_object)
            .filter(|amounts| !amounts.is_empty())
            .cloned()
        else {
            continue;
        };
        if let Some(target) = child(item, to) {
            for (name, amount) in amounts {
                set_default(target, &name, amount);
            }
        }
    }
}

/// `stringData` is moved into `data` (pkg/apis/core/v1/conversion.go).
fn secret(object: &mut Value) {
    set_default(object, "type", "Opaque");
    let texts = object.as_object_mut().and_then(|secret| secret.remove("stringData"));
    let Some(Value::Object(texts)) = texts else { return };
    let Some(data) = child(object, "data").and_then(Value::as_object_mut) else {
        return;
    };
    for (key, value) in texts {
        let bytes = value.as_str().unwrap_or_default();
        data.insert(key, base64::engine::general_purpose::STANDARD.encode(bytes).into());
    }
}

fn claim(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("volumeMode").or_insert_with(|| "Filesystem".into());
    }
    if let Some(status) = child(object, "status") {
        set_default(status, "phase", "Pending");
    }
}

fn apps(kind: &str, object: &mut Value) {
    if kind == "DaemonSet"
        && let Some(annotations) = child(object, "metadata").and_then(|meta| child(meta, "annotations"))
    {
        set_default(annotations, TEMPLATE_GENERATION, "0");
    }
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    match kind {
        "Deployment" => {
            set_default(spec, "replicas", 1);
            set_default(spec, "revisionHistoryLimit", 10);
            set_default(spec, "progressDeadlineSeconds", 600);
            if let Some(strategy) = child(spec, "strategy") {
                set_default(strategy, "type", "RollingUpdate");
                if text(strategy, "type") == "RollingUpdate"
                    && let Some(rolling) = child(strategy, "rollingUpdate")
                {
                    set_default(rolling, "maxUnavailable", "25%");
                    set_default(rolling, "maxSurge", "25%");
                }
            }
        }
        "ReplicaSet" => set_default(spec, "replicas", 1),
        "DaemonSet" => {
            set_default(spec, "revisionHistoryLimit", 10);
            if let Some(strategy) = child(spec, "updateStrategy") {
                set_default(strategy, "type", "RollingUpdate");
                if text(strategy, "type") == "RollingUpdate"
                    && let Some(rolling) = child(strategy, "rollingUpdate")
                {
                    set_default(rolling, "maxUnavailable", 1);
                    set_default(rolling, "maxSurge", 0);
                }
            }
        }
        "StatefulSet" => stateful_set(spec),
        _ => return,
    }
    pod_defaults::template(spec);
}

fn stateful_set(spec: &mut Value) {
    set_default(spec, "podManagementPolicy", "OrderedReady");
    set_default(spec, "replicas", 1);
    set_default(spec, "revisionHistoryLimit", 10);
    if let Some(strategy) = child(spec, "updateStrategy") {
        if is_unset(strategy, "type") {
            strategy["type"] = "RollingUpdate".into();
            child(strategy, "rollingUpdate");
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = strategy.get_mut("rollingUpdate")
        {
            set_default(rolling, "partition", 0);
        }
    }
    if let Some(policy) = child(spec, "persistentVolumeClaimRetentionPolicy") {
        set_default(policy, "whenDeleted", "Retain");
        set_default(policy, "whenScaled", "Retain");
    }
    for template in elements_mut(spec, "volumeClaimTemplates") {
        set_default(template, "apiVersion", "v1");
        set_default(template, "kind", "PersistentVolumeClaim");
        claim(template);
    }
}

fn job_spec(spec: &mut Value) {
    if is_unset(spec, "completions") && is_unset(spec, "parallelism") {
        set_default(spec, "completions", 1);
    }
    set_default(spec, "parallelism", 1);
    let limit = if is_unset(spec, "backoffLimitPerIndex") {
        6
    } else {
        i32::MAX
    };
    set_default(spec, "backoffLimit", limit);
    set_default(spec, "completionMode", "NonIndexed");
    set_default(spec, "suspend", false);
    set_default(spec, "manualSelector", false);
    let replacement = if is_unset(spec, "podFailurePolicy") {
        "TerminatingOrFailed"
    } else {
        "Failed"
    };
    set_default(spec, "podReplacementPolicy", replacement);
    pod_defaults::template(spec);
}

fn cron_job(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    set_default(spec, "concurrencyPolicy", "Allow");
    set_default(spec, "suspend", false);
    set_default(spec, "successfulJobsHistoryLimit", 3);
    set_default(spec, "failedJobsHistoryLimit", 1);
    // The template gets the defaults of its pods, not those of a Job: those come when the Job is created.
    if let Some(job) = spec.pointer_mut("/jobTemplate/spec") {
        pod_defaults::template(job);
    }
}

fn labels_from_template(object: &mut Value) {
    let labels = object
        .pointer("/spec/template/metadata/labels")
        .and_then(Value::as_object)
        .cloned();
    let none = object
        .pointer("/metadata/labels")
        .and_then(Value::as_object)
        .is_none_or(Map::is_empty);
    if let Some(labels) = labels.filter(|_| none)
        && let Some(meta) = child(object, "metadata")
    {
        meta["labels"] = Value::Object(labels);
    }
}

fn binding(object: &mut Value) {
    if let Some(role) = object.get_mut("roleRef") {
        set_default(role, "apiGroup", RBAC_GROUP);
    }
    for subject in elements_mut(object, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") {
            set_default(subject, "apiGroup", RBAC_GROUP);
        }
    }
}

fn network_policy(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    let egress = spec
        .get("egress")
        .and_then(Value::as_array)
        .is_some_and(|rules| !rules.is_empty());
    let types = if egress {
        json!(["Ingress", "Egress"])
    } else {
        json!(["Ingress"])
    };
    set_default(spec, "policyTypes", types);
    for direction in ["ingress", "egress"] {
        for rule in elements_mut(spec, direction) {
            for port in elements_mut(rule, "ports") {
                set_default_of_pointer(port, "protocol", "TCP");
            }
        }
    }
}

fn custom_resource_definition(object: &mut Value) {
    let stored = elements(&object["spec"], "versions")
        .find(|version| version["storage"] == true)
        .map(|version| json!([text(version, "name")]));
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else {
        return;
    };
    if let Some(names) = spec.get_mut("names") {
        let kind = text(names, "kind").to_owned();
        if !kind.is_empty() {
            set_default(names, "singular", kind.to_lowercase());
            set_default(names, "listKind", format!("{kind}List"));
        }
    }
    set_default(spec, "conversion", json!({"strategy": "None"}));
    if let Some(service) = spec.pointer_mut("/conversion/webhook/clientConfig/service") {
        set_default(service, "port", 443);
    }
    if let (Some(stored), Some(status)) = (stored, child(object, "status")) {
        set_default(status, "storedVersions", stored);
    }
}

fn ingress_class(object: &mut Value) {
    if let Some(parameters) = object.pointer_mut("/spec/parameters") {
        set_default(parameters, "scope", "Cluster");
    }
}

/// Defaults of what selects the requests of a policy.
fn matching_defaults(constraints: &mut Value) {
    set_default(constraints, "matchPolicy", "Equivalent");
    set_default(constraints, "namespaceSelector", json!({}));
    set_default(constraints, "objectSelector", json!({}));
    for list in ["resourceRules", "excludeResourceRules"] {
        for rule in elements_mut(constraints, list) {
            set_default(rule, "scope", "*");
        }
    }
}

fn admission_defaults(kind: &str, object: &mut Value) {
    match kind {
        "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration" => {
            elements_mut(object, "webhooks").for_each(|webhook| webhook_defaults(webhook, kind));
            let none = object["webhooks"].as_array().is_some_and(Vec::is_empty);
            if let Some(fields) = object.as_object_mut().filter(|_| none) {
                fields.remove("webhooks");
            }
        }
        "ValidatingAdmissionPolicy" => {
            if let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) {
                set_default(spec, "failurePolicy", "Fail");
                if let Some(constraints) = spec.get_mut("matchConstraints").filter(|it| it.is_object()) {
                    matching_defaults(constraints);
                }
            }
        }
        "ValidatingAdmissionPolicyBinding" => {
            if let Some(matching) = object.pointer_mut("/spec/matchResources").filter(|it| it.is_object()) {
                matching_defaults(matching);
            }
        }
        _ => {}
    }
}

fn webhook_defaults(webhook: &mut Value, kind: &str) {
    set_default(webhook, "failurePolicy", "Fail");
    set_default(webhook, "matchPolicy", "Equivalent");
    set_default(webhook, "timeoutSeconds", 10);
    set_default(webhook, "namespaceSelector", json!({}));
    set_default(webhook, "objectSelector", json!({}));
    if kind == "MutatingWebhookConfiguration" {
        set_default(webhook, "reinvocationPolicy", "Never");
    }
    if let Some(service) = webhook.pointer_mut("/clientConfig/service") {
        set_default(service, "port", 443);
    }
    for rule in elements_mut(webhook, "rules") {
        set_default(rule, "scope", "*");
    }
}
