//! Rules of PersistentVolumeClaims (Kubernetes v1.35 `pkg/apis/core/validation/validation.go`, `pkg/api/persistentvolumeclaim`).

use cluster_fields::quantity::Quantity;
use cluster_fields::{FieldError, FieldPath, names};
use serde_json::Value;

use crate::json::fields::{copy_field, elements, text};
use crate::messages::internal_types;
use crate::rules::checks::label_selector;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_MODES: [&str; 2] = ["Block", "Filesystem"];
/// The access mode that goes with no other.
const ALONE: &str = "ReadWriteOncePod";
const REQUESTED: &str = "/spec/resources/requests/storage";

pub(crate) fn validate(object: &Value, old: Option<&Value>, errors: &mut Vec<FieldError>) {
    let root = FieldPath::Root;
    let path = root.field("spec");
    let spec = &object["spec"];
    access_modes(spec, &path.field("accessModes"), errors);
    label_selector(&spec["selector"], &path.field("selector"), errors);
    storage(
        object.pointer(REQUESTED),
        &path.field("resources").key("storage"),
        errors,
    );
    let class = text(spec, "storageClassName");
    if let Some(why) = names::dns_subdomain(class).filter(|_| !class.is_empty()) {
        errors.push(FieldError::invalid(path.field("storageClassName"), class, why));
    }
    if let Some(mode) = spec["volumeMode"].as_str().filter(|mode| !VOLUME_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(path.field("volumeMode"), mode, &VOLUME_MODES));
    }
    if let Some(old) = old {
        unchanged(object, old, &path, errors);
    }
}

/// Warnings for a claim that is accepted.
pub(crate) fn warnings(object: &Value) -> Vec<String> {
    let resources = &object["spec"]["resources"];
    let odd = |name: &&str| !amount(resources[*name].get("storage")).is_whole();
    let warning = |name: &str| {
        let value = text(&resources[name], "storage");
        format!("spec.resources.{name}[storage]: fractional byte value {value:?} is invalid, must be an integer")
    };
    let lists = ["requests", "limits"].into_iter();
    lists.filter(odd).map(warning).collect()
}

fn amount(value: Option<&Value>) -> Quantity {
    value.and_then(Quantity::of).unwrap_or(Quantity::ZERO)
}

fn access_modes(spec: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let modes: Vec<&str> = elements(spec, "accessModes").filter_map(Value::as_str).collect();
    if modes.is_empty() {
        errors.push(FieldError::required(path, "at least 1 access mode is required"));
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(path, *mode, &ACCESS_MODES));
    }
    let others = modes.iter().any(|mode| ACCESS_MODES.contains(mode) && *mode != ALONE);
    if others && modes.contains(&ALONE) {
        let words = "may not use ReadWriteOncePod with other access modes";
        errors.push(FieldError::forbidden(path, words));
    }
}

fn storage(value: Option<&Value>, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    match value {
        None => errors.push(FieldError::required(path, "")),
        Some(value) if amount(Some(value)) <= Quantity::ZERO => {
            errors.push(FieldError::invalid(path, value.clone(), "must be greater than zero"));
        }
        Some(_) => {}
    }
}

/// The old and the new spec, alike where one may differ from the other: what the binder writes once, and what a bound
/// claim may request.
fn fixed(old: &Value, new: &Value) -> (Value, Value) {
    let (mut before, mut after) = (old["spec"].clone(), new["spec"].clone());
    let bound = text(&new["status"], "phase") == "Bound";
    if text(&before, "volumeName").is_empty() {
        copy_field(&after, &mut before, "volumeName");
    }
    if before.get("storageClassName").is_none() {
        copy_field(&before, &mut after, "storageClassName");
    }
    if bound {
        copy_field(&before, &mut after, "volumeAttributesClassName");
        if after.pointer("/resources/requests").is_some_and(Value::is_object) {
            let requested = old.pointer(REQUESTED).cloned();
            after["resources"]["requests"]["storage"] = requested.unwrap_or_else(|| "0".into());
        }
    }
    (before, after)
}

fn unchanged(object: &Value, old: &Value, path: &FieldPath<'_>, errors: &mut Vec<FieldError>) {
    let (before, after) = fixed(old, object);
    if before != after {
        let words =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        let changes = internal_types::changes("PersistentVolumeClaimSpec", &before, &after);
        errors.push(FieldError::forbidden(path, format!("{words}\n{changes}")));
    }
    let (before, now) = (amount(old.pointer(REQUESTED)), amount(object.pointer(REQUESTED)));
    if now < before && now <= amount(old.pointer("/status/capacity/storage")) {
        let at = "spec.resources.requests.storage";
        errors.push(FieldError::forbidden(at, "field can not be less than status.capacity"));
    }
    let mode = &object["spec"]["volumeMode"];
    if *mode != old["spec"]["volumeMode"] {
        errors.push(FieldError::invalid("volumeMode", mode.clone(), "field is immutable"));
    }
}
