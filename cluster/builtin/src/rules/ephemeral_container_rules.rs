//! Rules of ephemeral containers, which are added to a pod that runs (Kubernetes v1.35
//! `pkg/apis/core/validation/validation.go`, ValidatePodEphemeralContainersUpdate).

use std::collections::HashSet;

use cluster_fields::{FieldError, FieldPath};
use serde_json::Value;

use crate::json::fields::{elements, text};
use crate::rules::pod_rules::{container, volumes};

const LIST: &str = "ephemeralContainers";
const WORDS: &str = "cannot be set for an Ephemeral Container";
/// What such a container may not have, in the order of the type: no client depends on it, and no resources are reserved for it.
const NOT_ALLOWED: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

/// All errors of a pod whose ephemeral containers were written, by itself and beside what it was before.
pub fn ephemeral_containers(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (root, spec) = (FieldPath::Root, &object["spec"]);
    let path = root.field("spec");
    let at = path.field(LIST);
    all(spec, &path, &mut errors);
    for before in elements(&old["spec"], LIST) {
        let name = text(before, "name");
        match elements(spec, LIST).find(|now| text(now, "name") == name) {
            None => {
                let words = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.push(FieldError::forbidden(at, words));
            }
            Some(now) if now != before => {
                let words = format!("existing ephemeral containers {name:?} may not be changed\n");
                errors.push(FieldError::forbidden(at, words));
            }
            Some(_) => {}
        }
    }
    if object
        .pointer("/metadata/annotations/kubernetes.io~1config.mirror")
        .is_some()
    {
        errors.push(FieldError::forbidden(
            "",
            "static pods do not support ephemeral containers",
        ));
    }
    errors
}

fn all(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    // Errors of volumes are reported when these are written.
    let volumes = volumes(spec, path, &mut Vec::new());
    let names = |list: &'static str| elements(spec, list).map(|entry| text(entry, "name"));
    let others: HashSet<&str> = names("containers").chain(names("initContainers")).collect();
    let mut seen = others.clone();
    let at = path.field(LIST);
    for (index, entry) in elements(spec, LIST).enumerate() {
        let at = at.index(index);
        container(entry, &volumes, &at, errors);
        let name = text(entry, "name");
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(at.field("name"), name));
        }
        let target = text(entry, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(at.field("targetContainerName"), target));
        }
        for field in NOT_ALLOWED {
            if entry.get(field).is_some_and(|value| !is_empty(value)) {
                errors.push(FieldError::forbidden(at.field(field), WORDS));
            }
        }
        let mounts = at.field("volumeMounts");
        for (index, mount) in elements(entry, "volumeMounts").enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if !text(mount, field).is_empty() {
                    errors.push(FieldError::forbidden(mounts.index(index).field(field), WORDS));
                }
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}
