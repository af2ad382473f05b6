//! Rules of pods and of pod templates (Kubernetes v1.35 `pkg/apis/core/validation/validation.go`).

use std::collections::HashSet;

use serde_json::Value;

use super::quantity::Quantity;
use super::rules::{one_of, port_number, require};
use super::{elements, text};
use crate::{FieldError, FieldPath, names};

pub(super) fn pod(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    spec(&object["spec"], &path, &["Always", "Never", "OnFailure"], errors);
    let Some(old) = old else { return };
    if comparable(&object["spec"], &old["spec"]) != comparable(&old["spec"], &old["spec"]) {
        let words = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";
        errors.push(FieldError::forbidden(path, words));
    }
}

/// A pod's spec without what an update may change.
fn comparable(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    let Some(map) = spec.as_object_mut() else { return spec };
    for name in [
        "activeDeadlineSeconds",
        "tolerations",
        "terminationGracePeriodSeconds",
        "ephemeralContainers",
    ] {
        map.remove(name);
    }
    // The scheduler's binding and the lifting of scheduling gates.
    if text(old, "nodeName").is_empty() {
        map.remove("nodeName");
    }
    if elements(old, "schedulingGates").next().is_some() {
        map.remove("schedulingGates");
        map.remove("nodeSelector");
        map.remove("affinity");
    }
    for list in ["containers", "initContainers"] {
        for container in map.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(container) = container.as_object_mut() {
                container.remove("image");
            }
        }
    }
    spec
}

/// The pod template of a controller: its labels and its spec.
pub(super) fn template(
    template: &Value,
    path: &FieldPath<'_>,
    restart_policies: &[&str],
    errors: &mut Vec<FieldError>,
) {
    let meta = path.field("metadata");
    if let Some(labels) = template.pointer("/metadata/labels").and_then(Value::as_object) {
        names::validate_labels(labels, &meta.field("labels"), errors);
    }
    if let Some(annotations) = template.pointer("/metadata/annotations").and_then(Value::as_object) {
        names::validate_annotations(annotations, &meta.field("annotations"), errors);
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
            if !text(entry, "name").is_empty() && !seen.insert(text(entry, "name")) {
                errors.push(FieldError::duplicate(at.field("name"), text(entry, "name")));
            }
            container(entry, &volumes, &at, errors);
        }
    }
    one_of(spec, "restartPolicy", restart_policies, path, errors);
    one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        path,
        errors,
    );
    super::rules::not_negative(spec, "terminationGracePeriodSeconds", path, errors);
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

fn volumes<'v>(spec: &'v Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) -> HashSet<&'v str> {
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

fn container(container: &Value, volumes: &HashSet<&str>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
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
        port_number(port.get("containerPort"), &at.field("containerPort"), errors);
        one_of(port, "protocol", &["SCTP", "TCP", "UDP"], &at, errors);
        let name = text(port, "name");
        if let Some(why) = names::port_name(name).filter(|_| !name.is_empty()) {
            errors.push(FieldError::invalid(at.field("name"), name, why));
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
    let at = path.field("volumeMounts");
    for (index, mount) in elements(container, "volumeMounts").enumerate() {
        let at = at.index(index);
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
    }
}

fn resources(container: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let at = path.field("resources");
    for list in ["limits", "requests"] {
        let entries = container
            .pointer(&format!("/resources/{list}"))
            .and_then(Value::as_object);
        let at = at.field(list);
        for (name, amount) in entries.into_iter().flatten() {
            let words = match Quantity::of(amount) {
                None => "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                Some(amount) if amount < Quantity::ZERO => "must be greater than or equal to 0",
                Some(_) => continue,
            };
            errors.push(FieldError::invalid(at.key(name), amount.clone(), words));
        }
    }
}
