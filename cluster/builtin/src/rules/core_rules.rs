//! Rules of the core group's kinds (Kubernetes v1.35 `pkg/apis/core/validation/validation.go`); those of pods and Services
//! have files of their own. It never reads other objects.

use std::collections::HashSet;

use base_yaml::go::json_kind;
use base64::Engine as _;
use cluster_fields::{FieldError, FieldErrorKind, FieldPath, names};
use cluster_schema::json_problem;
use serde_json::{Map, Value};

use crate::json::fields::{elements, text};
use crate::messages::internal_types;
use crate::rules::checks::{immutable, kube_finalizers};
use crate::rules::{claim_rules, pod_rules, service_rules};

/// Most bytes in a Secret or ConfigMap (`core.MaxSecretSize`).
const CONFIG_BYTES_MAX: usize = 1024 * 1024;
/// What a taint may do to pods.
pub(crate) const TAINT_EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

pub(crate) fn validate(kind: &str, object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    match kind {
        "Pod" => pod_rules::pod(object, old, errors),
        "Service" => service_rules::validate(object, old, errors),
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
        "PersistentVolumeClaim" => claim_rules::validate(object, old, errors),
        "Namespace" => {
            let root = FieldPath::Root;
            kube_finalizers(&object["spec"], &root.field("spec"), errors);
        }
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
        "Node" => node(object, old, errors),
        _ => {}
    }
}

fn node(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    // The path that upstream reports.
    let root = FieldPath::Root;
    let path = root.field("metadata");
    taints(&object["spec"], &path.field("taints"), errors);
    let old_spec = &old.unwrap_or(&Value::Null)["spec"];
    let before = text(old_spec, "providerID");
    if !before.is_empty() && before != text(&object["spec"], "providerID") {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    if elements(old_spec, "podCIDRs").next().is_some() && old_spec["podCIDRs"] != object["spec"]["podCIDRs"] {
        errors.push(FieldError::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
}

fn taints(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let mut seen = HashSet::new();
    for (index, taint) in elements(spec, "taints").enumerate() {
        let at = path.index(index);
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        names::validate_qualified_name(key, &at.field("key"), errors);
        if let Some(why) = names::label_value(text(taint, "value")) {
            errors.push(FieldError::invalid(at.field("value"), text(taint, "value"), why));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(at.field("effect"), ""));
        } else if !TAINT_EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(at.field("effect"), effect, &TAINT_EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let words = "taints must be unique by key and effect pair";
            let error = FieldError::new(at, FieldErrorKind::Duplicate, Some(taint.clone()), words);
            errors.push(error.shown_as(internal_types::line("Taint", taint)));
        }
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
    let root = FieldPath::Root;
    let path = root.field("data");
    let data = &object["data"];
    let there = |key: &str| data.get(key).is_some();
    let mut needs = |key: &str, there: bool| {
        if !there {
            errors.push(FieldError::required(path.key(key), ""));
        }
    };
    match text(object, "type") {
        "kubernetes.io/tls" => ["tls.crt", "tls.key"].iter().for_each(|key| needs(key, there(key))),
        "kubernetes.io/dockerconfigjson" => docker_config(data, ".dockerconfigjson", &path, errors),
        "kubernetes.io/dockercfg" => docker_config(data, ".dockercfg", &path, errors),
        "kubernetes.io/ssh-auth" => needs("ssh-privatekey", !text(data, "ssh-privatekey").is_empty()),
        // One of the two is enough, and it may be empty.
        "kubernetes.io/basic-auth" if !there("username") && !there("password") => {
            ["username", "password"].iter().for_each(|key| needs(key, false));
        }
        "kubernetes.io/service-account-token" => {
            let annotations = &object["metadata"]["annotations"];
            if text(annotations, "kubernetes.io/service-account.name").is_empty() {
                let at = "metadata.annotations[kubernetes.io/service-account.name]";
                errors.push(FieldError::required(at, ""));
            }
        }
        _ => {}
    }
}

/// Credentials of registries: a JSON object. The error never shows it.
fn docker_config(data: &Value, key: &str, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let Some(encoded) = data.get(key).and_then(Value::as_str) else {
        return errors.push(FieldError::required(path.key(key), ""));
    };
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(encoded)
        .unwrap_or_default();
    let why = json_problem(&decoded).or_else(|| match serde_json::from_slice(&decoded).unwrap_or_default() {
        Value::Null | Value::Object(_) => None,
        other => Some(format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            json_kind(&other)
        )),
    });
    if let Some(why) = why {
        errors.push(FieldError::invalid(path.key(key), "<secret contents redacted>", why));
    }
}
