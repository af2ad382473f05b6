//! Spellings of the older documents, turned into today's before anything else reads an object.
//! It never touches a field that is spelt as today.

use serde_json::{Value, json};

/// Rewrites older spellings of garden kinds in raw JSON; the API server calls it before it prunes unknown fields.
///
/// - ControllerRegistration: `spec.resources[].globallyEnabled: true` becomes `autoEnable: [shoot]`.
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
    if resource.remove("globallyEnabled") == Some(Value::Bool(true)) {
        resource.entry("autoEnable").or_insert_with(|| json!(["shoot"]));
    }
}

fn enabled(extension: &mut Fields) {
    if let Some(Value::Bool(enabled)) = extension.get("enabled") {
        let disabled = !enabled;
        extension.remove("enabled");
        if disabled {
            extension.entry("disabled").or_insert(Value::Bool(true));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_words_become_new_ones_and_new_ones_win() {
        let cases = [
            (
                "ControllerRegistration",
                json!({"spec": {"resources": [
                    {"kind": "Extension", "type": "a", "globallyEnabled": true},
                    {"kind": "Extension", "type": "b", "globallyEnabled": false},
                    {"kind": "Extension", "type": "c", "globallyEnabled": true, "autoEnable": ["seed"]}]}}),
                json!({"spec": {"resources": [
                    {"kind": "Extension", "type": "a", "autoEnable": ["shoot"]},
                    {"kind": "Extension", "type": "b"},
                    {"kind": "Extension", "type": "c", "autoEnable": ["seed"]}]}}),
            ),
            (
                "Shoot",
                json!({"spec": {"extensions": [
                    {"type": "a", "enabled": false}, {"type": "b", "enabled": true},
                    {"type": "c", "enabled": false, "disabled": false}, {"type": "d", "disabled": true}]}}),
                json!({"spec": {"extensions": [
                    {"type": "a", "disabled": true}, {"type": "b"},
                    {"type": "c", "disabled": false}, {"type": "d", "disabled": true}]}}),
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
}
