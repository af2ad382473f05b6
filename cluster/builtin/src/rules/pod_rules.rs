//! Rules of pods and of pod templates (Kubernetes v1.35 `pkg/apis/core/validation/validation.go`).

use std::collections::HashSet;

use cluster_fields::quantity::Quantity;
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{copy_field, elements, elements_mut, text};
use crate::messages::internal_types;
use crate::rules::checks::{one_of, port_number, require};

/// When a pod's containers are started again.
pub(crate) const RESTART_POLICIES: [&str; 3] = ["Always", "OnFailure", "Never"];
/// What the names of huge pages begin with.
const HUGE_PAGES: &str = "hugepages-";

pub(crate) fn pod(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    spec(&object["spec"], &path, &RESTART_POLICIES, errors);
    let Some(old) = old else {
        if elements(&object["spec"], "ephemeralContainers").next().is_some() {
            let at = path.field("ephemeralContainers");
            errors.push(FieldError::forbidden(at, "cannot be set on create"));
        }
        return;
    };
    if !same_containers(object, old, &path, errors) {
        return;
    }
    deadline(&object["spec"], &old["spec"], &path, errors);
    tolerations(&object["spec"], &old["spec"], &path, errors);
    let munged = munged(&object["spec"], &old["spec"]);
    if munged != old["spec"] {
        let words = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        let changes = internal_types::changes("PodSpec", &old["spec"], &munged);
        errors.push(FieldError::forbidden(path, format!("{words}\n{changes}")));
    }
}

/// Whether both have as many containers: an update may not add or remove any.
fn same_containers(object: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> bool {
    for list in ["containers", "initContainers"] {
        let count = |pod: &Value| elements(&pod["spec"], list).count();
        if count(object) != count(old) {
            let words = "pod updates may not add or remove containers";
            errors.push(FieldError::forbidden(path.field(list), words));
            return false;
        }
    }
    true
}

/// A deadline may be set, and come nearer.
fn deadline(spec: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let name = "activeDeadlineSeconds";
    let words = match (spec[name].as_i64(), old[name].as_i64()) {
        (None, Some(_)) => "must not update from a positive integer to nil value",
        (Some(new), Some(before)) if new > before => "must be less than or equal to previous value",
        _ => return,
    };
    errors.push(FieldError::invalid(path.field(name), spec[name].clone(), words));
}

/// A toleration stays; how long it lasts may change.
fn tolerations(spec: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let lasting = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    if spec.get("tolerations") == old.get("tolerations") {
        return;
    }
    let remains = |old: &Value| elements(spec, "tolerations").any(|new| lasting(new) == lasting(old));
    if !elements(old, "tolerations").all(remains) {
        let words = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden(path.field("tolerations"), words));
    }
}

/// A pod's new spec with the old one's values where an update may change them.
fn munged(spec: &Value, old: &Value) -> Value {
    let mut munged = spec.clone();
    let mut keep = vec!["activeDeadlineSeconds", "tolerations", "schedulingGates"];
    // What was below zero may become one.
    let grace = "terminationGracePeriodSeconds";
    if old[grace].as_i64().is_some_and(|seconds| seconds < 0) && spec[grace] == 1 {
        keep.push(grace);
    }
    if elements(old, "schedulingGates").next().is_some() {
        keep.extend(["nodeSelector", "affinity"]);
    }
    for field in keep {
        copy_field(old, &mut munged, field);
    }
    for list in ["containers", "initContainers"] {
        for (container, old) in elements_mut(&mut munged, list).zip(elements(old, list)) {
            copy_field(old, container, "image");
        }
    }
    munged
}

/// Warnings for a pod, or a template of pods at that path, that is accepted (`pkg/api/pod/warnings.go`).
pub(crate) fn warnings(pod: &Value, path: &str) -> Vec<String> {
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_i64();
    let warning = |_| {
        format!(
            "{path}spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1"
        )
    };
    grace.filter(|seconds| *seconds < 0).map(warning).into_iter().collect()
}

/// The pod template of a controller: its labels and its spec. Upstream names no `metadata` on the way to its labels.
pub(crate) fn template(
    template: &Value,
    path: &FieldPath<'_>,
    restart_policies: &[&str],
    errors: &mut Vec<FieldError>,
) {
    if let Some(labels) = template.pointer("/metadata/labels").and_then(Value::as_object) {
        names::validate_labels(labels, &path.field("labels"), errors);
    }
    if let Some(annotations) = template.pointer("/metadata/annotations").and_then(Value::as_object) {
        names::validate_annotations(annotations, &path.field("annotations"), errors);
    }
    spec(&template["spec"], &path.field("spec"), restart_policies, errors);
}

fn spec(spec: &Value, path: &FieldPath<'_>, restart_policies: &[&str], errors: &mut Vec<FieldError>) {
    let volumes = volumes(spec, path, errors);
    let mut seen = HashSet::new();
    if elements(spec, "containers").next().is_none() {
        errors.push(FieldError::required(path.field("containers"), ""));
    }
    for list in ["containers", "initContainers"] {
        let at = path.field(list);
        for (index, entry) in elements(spec, list).enumerate() {
            let at = at.index(index);
            container(entry, &volumes, &at, errors);
            let name = text(entry, "name");
            if seen.contains(name) {
                errors.push(FieldError::duplicate(at.field("name"), name));
            } else if list == "containers" || !name.is_empty() {
                seen.insert(name);
            }
        }
    }
    one_of(spec, "restartPolicy", restart_policies, path, errors);
    one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        path,
        errors,
    );
    for name in ["serviceAccountName", "nodeName", "priorityClassName"] {
        let value = text(spec, name);
        if let Some(why) = names::dns_subdomain(value).filter(|_| !value.is_empty()) {
            errors.push(FieldError::invalid(path.field(name), value, why));
        }
    }
    if let Some(selector) = spec.get("nodeSelector").and_then(Value::as_object) {
        names::validate_labels(selector, &path.field("nodeSelector"), errors);
    }
    if spec
        .get("activeDeadlineSeconds")
        .and_then(Value::as_i64)
        .is_some_and(|seconds| seconds < 1)
    {
        let value = spec["activeDeadlineSeconds"].clone();
        errors.push(FieldError::invalid(
            path.field("activeDeadlineSeconds"),
            value,
            "must be between 1 and 2147483647, inclusive",
        ));
    }
}

pub(crate) fn volumes<'v>(spec: &'v Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> HashSet<&'v str> {
    let mut found = HashSet::new();
    let at = path.field("volumes");
    for (index, volume) in elements(spec, "volumes").enumerate() {
        let at = at.index(index);
        let name = text(volume, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.field("name"), ""));
        } else if let Some(why) = names::dns_label(name) {
            errors.push(FieldError::invalid(at.field("name"), name, why));
        }
        if !found.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
        let sources = volume.as_object().map_or(0, |map| {
            map.iter().filter(|(k, v)| *k != "name" && !v.is_null()).count()
        });
        if sources > 1 {
            errors.push(FieldError::forbidden(at, "may not specify more than 1 volume type"));
        }
        for (source, field) in [
            ("secret", "secretName"),
            ("configMap", "name"),
            ("persistentVolumeClaim", "claimName"),
        ] {
            if let Some(source_value) = volume.get(source).filter(|value| value.is_object()) {
                let at = at.field(source);
                require(source_value, field, &at, errors);
            }
        }
    }
    found
}

pub(crate) fn container(
    container: &Value,
    volumes: &HashSet<&str>,
    path: &FieldPath<'_>,
    errors: &mut Vec<FieldError>,
) {
    let name = text(container, "name");
    if name.is_empty() {
        errors.push(FieldError::required(path.field("name"), ""));
    } else if let Some(why) = names::dns_label(name) {
        errors.push(FieldError::invalid(path.field("name"), name, why));
    }
    require(container, "image", path, errors);
    one_of(
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
        path,
        errors,
    );
    let mut seen = HashSet::new();
    let at = path.field("ports");
    for (index, port) in elements(container, "ports").enumerate() {
        let at = at.index(index);
        if port["containerPort"].as_i64().unwrap_or_default() == 0 {
            errors.push(FieldError::required(at.field("containerPort"), ""));
        } else {
            port_number(port.get("containerPort"), &at.field("containerPort"), errors);
        }
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
        let name = text(port, "name");
        if !name.is_empty() {
            let wrong = names::port_name(name).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(at.field("name"), name, why)));
        }
        if !name.is_empty() && !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
    }
    let at = path.field("env");
    for (index, variable) in elements(container, "env").enumerate() {
        let at = at.index(index);
        if let Some(why) = names::env_name(text(variable, "name")) {
            errors.push(FieldError::invalid(at.field("name"), text(variable, "name"), why));
        }
        if variable.get("valueFrom").is_some_and(Value::is_object) && !text(variable, "value").is_empty() {
            errors.push(FieldError::invalid(
                at.field("valueFrom"),
                "",
                "may not be specified when `value` is not empty",
            ));
        }
    }
    mounts(container, volumes, path, errors);
    resources(container, path, errors);
}

fn mounts(container: &Value, volumes: &HashSet<&str>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    let list = path.field("volumeMounts");
    for (index, mount) in elements(container, "volumeMounts").enumerate() {
        let at = list.index(index);
        let name = text(mount, "name");
        if name.is_empty() {
            errors.push(FieldError::required(at.field("name"), ""));
        } else if !volumes.contains(name) {
            errors.push(FieldError::not_found(at.field("name"), name));
        }
        require(mount, "mountPath", &at, errors);
        let target = text(mount, "mountPath");
        if !target.is_empty() && !seen.insert(target) {
            errors.push(FieldError::invalid(at.field("mountPath"), target, "must be unique"));
        }
        // Upstream names no index on the way to a wrong path.
        let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        descending_path(sub_path, &list.field("subPath"), errors);
        if !sub_path.is_empty() && !expression.is_empty() {
            let words = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(at.field("subPathExpr"), expression, words));
        }
        descending_path(expression, &list.field("subPathExpr"), errors);
    }
}

/// A path that stays below the folder it is applied to (`validateLocalDescendingPath`).
fn descending_path(target: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    if target.split('/').any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// Resources of a container that need no domain.
const RESOURCES: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// What may be the name of one.
pub(crate) fn container_resource(name: &str, place: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let before = errors.len();
    names::validate_qualified_name(name, place, errors);
    let is_known = name.contains('/') || RESOURCES.contains(&name) || name.starts_with(HUGE_PAGES);
    if errors.len() == before && !is_known {
        let words = "must be a standard resource type or fully qualified";
        errors.push(FieldError::invalid(place, name, words));
    }
    if !is_known {
        let words = "must be a standard resource for containers";
        errors.push(FieldError::invalid(place, name, words));
    }
}

fn resources(container: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("resources");
    let of = |list: &str| {
        container
            .pointer(&format!("/resources/{list}"))
            .and_then(Value::as_object)
    };
    for list in ["limits", "requests"] {
        let list_path = at.field(list);
        for (name, amount) in of(list).into_iter().flatten() {
            let place = list_path.key(name);
            container_resource(name, &place, errors);
            if Quantity::of(amount).is_some_and(|amount| amount < Quantity::ZERO) {
                let words = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(place, amount.clone(), words));
            }
        }
    }
    let requests = at.field("requests");
    for (name, amount) in of("requests").into_iter().flatten() {
        // Resources of Kubernetes can be overcommitted; huge pages and resources of others cannot.
        let may_be_overcommitted =
            (!name.contains('/') || name.contains("kubernetes.io/")) && !name.starts_with(HUGE_PAGES);
        let limit = of("limits").and_then(|limits| limits.get(name));
        let words = match (limit, Quantity::of(amount), limit.and_then(Quantity::of)) {
            (None, ..) if !may_be_overcommitted => {
                let words = "Limit must be set for non overcommitable resources";
                errors.push(FieldError::required(at.field("limits"), words));
                continue;
            }
            (Some(_), Some(amount), Some(limit)) if !may_be_overcommitted && amount != limit => "equal to",
            (Some(_), Some(amount), Some(limit)) if amount > limit => "less than or equal to",
            _ => continue,
        };
        let shown = limit.and_then(Value::as_str).unwrap_or_default();
        let words = format!("must be {words} {name} limit of {shown}");
        errors.push(FieldError::invalid(requests, amount.clone(), words));
    }
}
