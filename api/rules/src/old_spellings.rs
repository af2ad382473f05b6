//! Spellings of the older documents, turned into today's before anything else reads an object.
//! It never touches a field that is spelt as today, and decides nothing where old and new contradict each other: then
//! both stay, and are refused.

use api_core::v1beta1::{ClusterType, ControllerResource, Extension};
use serde_json::{Value, json};

use crate::{FieldError, Path};

/// Rewrites older spellings of garden kinds in raw JSON; the API server calls it before it prunes unknown fields. What is
/// no boolean stays, for the schema to refuse.
///
/// - ControllerRegistration: `spec.resources[].globallyEnabled: true` becomes `autoEnable: [shoot]`; `false` goes.
/// - Shoot and Seed: `spec.extensions[].enabled: false` becomes `disabled: true`; `enabled: true` goes.
pub fn accept_old_spellings(kind: &str, object: &mut Value) {
    match kind {
        "ControllerRegistration" => each(object, "resources", globally_enabled),
        "Shoot" | "Seed" => each(object, "extensions", enabled),
        _ => {}
    }
}

type Fields = serde_json::Map<String, Value>;

/// Applies `rewrite` to every object of the list `spec.<list>`.
fn each(object: &mut Value, list: &str, rewrite: fn(&mut Fields)) {
    let items = object
        .get_mut("spec")
        .and_then(|spec| spec.get_mut(list))
        .and_then(Value::as_array_mut);
    items
        .into_iter()
        .flatten()
        .filter_map(Value::as_object_mut)
        .for_each(rewrite);
}

fn globally_enabled(resource: &mut Fields) {
    let Some(&Value::Bool(enabled)) = resource.get("globallyEnabled") else {
        return;
    };
    let shoot = json!(ClusterType::Shoot);
    let automatic = match resource.get("autoEnable") {
        None | Some(Value::Null) => None,
        Some(Value::Array(types)) if types.is_empty() => None,
        Some(Value::Array(types)) => Some(types.contains(&shoot)),
        Some(_) => return,
    };
    if automatic.unwrap_or(enabled) == enabled {
        resource.remove("globallyEnabled");
        if enabled && automatic.is_none() {
            resource.insert("autoEnable".to_owned(), json!([shoot]));
        }
    }
}

fn enabled(extension: &mut Fields) {
    let Some(&Value::Bool(enabled)) = extension.get("enabled") else {
        return;
    };
    match extension.get("disabled") {
        None | Some(Value::Null) => {
            extension.remove("enabled");
            if !enabled {
                extension.insert("disabled".to_owned(), Value::Bool(true));
            }
        }
        Some(&Value::Bool(disabled)) if disabled != enabled => {
            extension.remove("enabled");
        }
        Some(_) => {}
    }
}

/// Extensions that are both on and off: what was left by [`accept_old_spellings`].
pub(crate) fn both_on_and_off(errors: &mut Vec<FieldError>, path: &Path, extensions: &[Extension]) {
    for (index, extension) in extensions.iter().enumerate() {
        if let Some(enabled) = extension.enabled {
            let disabled = extension.disabled.unwrap_or_default();
            errors.push(path.index(index).child("enabled").invalid(
                enabled,
                format!("contradicts disabled: {disabled}, of which it is an older spelling with the opposite meaning; remove one of the two"),
            ));
        }
    }
}

/// The same for a resource of a registration.
pub(crate) fn enabled_otherwise(errors: &mut Vec<FieldError>, path: &Path, resource: &ControllerResource) {
    if let Some(enabled) = resource.globally_enabled {
        let automatic = serde_json::to_string(&resource.auto_enable).unwrap_or_default();
        errors.push(path.child("globallyEnabled").invalid(
            enabled,
            format!("contradicts autoEnable: {automatic}, and true is an older spelling of autoEnable: [\"shoot\"]; remove one of the two"),
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_words_become_new_ones_unless_they_contradict_each_other() {
        let cases = [
            (
                "ControllerRegistration",
                json!({"spec": {"resources": [
                    {"kind": "Extension", "type": "a", "globallyEnabled": true},
                    {"kind": "Extension", "type": "b", "globallyEnabled": false},
                    {"kind": "Extension", "type": "c", "globallyEnabled": true, "autoEnable": ["seed", "shoot"]},
                    {"kind": "Extension", "type": "d", "globallyEnabled": true, "autoEnable": []},
                    {"kind": "Extension", "type": "e", "globallyEnabled": false, "autoEnable": ["seed"]}]}}),
                json!({"spec": {"resources": [
                    {"kind": "Extension", "type": "a", "autoEnable": ["shoot"]},
                    {"kind": "Extension", "type": "b"},
                    {"kind": "Extension", "type": "c", "autoEnable": ["seed", "shoot"]},
                    {"kind": "Extension", "type": "d", "autoEnable": ["shoot"]},
                    {"kind": "Extension", "type": "e", "autoEnable": ["seed"]}]}}),
            ),
            (
                "Shoot",
                json!({"spec": {"extensions": [
                    {"type": "a", "enabled": false}, {"type": "b", "enabled": true},
                    {"type": "c", "enabled": false, "disabled": true}, {"type": "d", "disabled": true},
                    {"type": "e", "enabled": true, "disabled": false}]}}),
                json!({"spec": {"extensions": [
                    {"type": "a", "disabled": true}, {"type": "b"},
                    {"type": "c", "disabled": true}, {"type": "d", "disabled": true},
                    {"type": "e", "disabled": false}]}}),
            ),
            (
                "Project",
                json!({"spec": {"extensions": [{"enabled": false}]}}),
                json!({"spec": {"extensions": [{"enabled": false}]}}),
            ),
            ("Shoot", json!({"spec": null}), json!({"spec": null})),
        ];
        for (kind, mut input, expected) in cases {
            accept_old_spellings(kind, &mut input);
            assert_eq!(input, expected, "{kind}");
        }
    }

    #[test]
    fn what_contradicts_itself_or_is_no_boolean_stays_to_be_refused() {
        for (kind, list, item) in [
            ("Shoot", "extensions", json!({"enabled": false, "disabled": false})),
            ("Seed", "extensions", json!({"enabled": true, "disabled": true})),
            ("Shoot", "extensions", json!({"enabled": "yes"})),
            ("Shoot", "extensions", json!({"enabled": false, "disabled": "no"})),
            (
                "ControllerRegistration",
                "resources",
                json!({"globallyEnabled": true, "autoEnable": ["seed"]}),
            ),
            (
                "ControllerRegistration",
                "resources",
                json!({"globallyEnabled": false, "autoEnable": ["shoot"]}),
            ),
            ("ControllerRegistration", "resources", json!({"globallyEnabled": "yes"})),
        ] {
            let object = json!({"spec": {list: [item]}});
            let mut retained = object.clone();
            accept_old_spellings(kind, &mut retained);
            assert_eq!(retained, object, "{kind}");
        }
    }
}
