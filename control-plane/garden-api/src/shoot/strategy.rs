//! What the server itself decides about Shoots: what the part `binding` may change, and what raises the generation,
//! which is what makes gardenlet act at once (gardener/gardener v1.150 pkg/apiserver/registry/core/shoot/strategy.go).

use std::collections::BTreeSet;

use api_meta::annotations::{CONFIRMATION_FORCE_DELETION, OPERATION, is_true, operation};
use cluster_apiserver::kind::{Call, spec_differs};
use serde_json::Value;

use crate::convert::{annotation, text};

/// For the part `binding`: everything as it was, but for `spec.seedName`.
pub(crate) fn keep_all_but_the_seed(object: &mut Value, old: &Value) {
    let seed = object["spec"].get("seedName").cloned();
    keep(object, old, &["spec", "status"]);
    if let Some(before) = old.get("metadata") {
        keep(
            &mut object["metadata"],
            before,
            &["labels", "annotations", "finalizers", "ownerReferences"],
        );
    }
    if let Some(spec) = object["spec"].as_object_mut() {
        match seed {
            Some(seed) => spec.insert("seedName".to_owned(), seed),
            None => spec.remove("seedName"),
        };
    }
}

fn keep(object: &mut Value, old: &Value, fields: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    for field in fields {
        match old.get(*field) {
            Some(value) => object.insert((*field).to_owned(), value.clone()),
            None => object.remove(*field),
        };
    }
}

/// Whether the write raises the generation; uses the operation annotation up where it does.
pub(crate) fn changes_generation(call: &Call<'_>, object: &mut Value, old: &Value) -> bool {
    if call.subresource == Some("binding") {
        return spec_differs(object, old);
    }
    let confirmed = |shoot: &Value| is_true(annotation(shoot, CONFIRMATION_FORCE_DELETION));
    let by_spec = spec_change_counts(object, old);
    let by_force = confirmed(object) && !confirmed(old);
    by_spec | by_force | by_operation(object, old)
}

/// With `confineSpecUpdateRollout` changes wait for the maintenance window, but for hibernation.
fn spec_change_counts(object: &Value, old: &Value) -> bool {
    if !spec_differs(object, old) {
        return false;
    }
    let confined = object
        .pointer("/spec/maintenance/confineSpecUpdateRollout")
        .and_then(Value::as_bool)
        == Some(true);
    let enabled = |shoot: &Value| {
        shoot
            .pointer("/spec/hibernation/enabled")
            .and_then(Value::as_bool)
            .unwrap_or(false)
    };
    !confined || enabled(object) != enabled(old)
}

fn by_operation(object: &mut Value, old: &Value) -> bool {
    let requested = annotation(object, OPERATION).to_owned();
    if requested.is_empty() {
        return false;
    }
    let state = text(object, "/status/lastOperation/state");
    if state.is_empty() {
        // The Shoot was never reconciled, so there is nothing to repeat; the annotation stays.
        return false;
    }
    let failed = state == "Failed";
    let before: BTreeSet<&str> = annotation(old, OPERATION).split(';').map(str::trim).collect();
    let (mut raises, mut retained) = (false, Vec::new());
    for part in requested.split(';').map(str::trim).filter(|part| !part.is_empty()) {
        let used_up = if failed {
            part == operation::RETRY
        } else {
            part == operation::RECONCILE
        };
        // What gardenlet removes itself raises once, when it is set, and not with every later write.
        let comes = !before.contains(part);
        let lasting = part.starts_with(operation::ROTATE_PREFIX)
            || part.starts_with(operation::ROLLOUT_WORKERS_PREFIX)
            || part == operation::FORCE_IN_PLACE_UPDATE;
        raises |= used_up || !failed && lasting && comes;
        if !used_up {
            retained.push(part);
        }
    }
    let retained = retained.join(";");
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        if retained.is_empty() {
            annotations.remove(OPERATION);
        } else if retained != requested {
            annotations.insert(OPERATION.to_owned(), retained.into());
        }
    }
    raises
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::User;
    use cluster_apiserver::kind::Operation;
    use jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn raises(subresource: Option<&str>, object: &mut Value, old: &Value) -> bool {
        let user = User::default();
        let call = Call {
            operation: Operation::Update,
            version: "v1beta1",
            subresource,
            namespace: Some("garden-p"),
            name: "s",
            user: &user,
            now: Timestamp::UNIX_EPOCH,
            dry_run: false,
        };
        if subresource == Some("binding") {
            keep_all_but_the_seed(object, old);
        }
        changes_generation(&call, object, old)
    }

    fn shoot(annotations: Value, state: &str) -> Value {
        json!({"metadata": {"name": "s", "annotations": annotations}, "spec": {"region": "r"},
            "status": {"lastOperation": {"state": state}}})
    }

    #[test]
    fn operations_raise_the_generation_and_are_used_up() {
        let table = [
            ("reconcile", "Succeeded", true, ""),
            ("reconcile", "Failed", false, "reconcile"),
            ("retry", "Failed", true, ""),
            ("retry", "Succeeded", false, "retry"),
            ("reconcile", "", false, "reconcile"),
            ("rotate-ca-start", "", false, "rotate-ca-start"),
            (
                "rotate-credentials-start",
                "Succeeded",
                true,
                "rotate-credentials-start",
            ),
            ("rollout-workers=a", "Succeeded", true, "rollout-workers=a"),
            ("maintain", "Succeeded", false, "maintain"),
            ("reconcile;maintain", "Succeeded", true, "maintain"),
            ("anything", "Succeeded", false, "anything"),
        ];
        for (operation, state, raised, left) in table {
            let old = shoot(json!({}), state);
            let mut new = shoot(json!({"gardener.cloud/operation": operation}), state);
            assert_eq!(raises(None, &mut new, &old), raised, "{operation} when {state}");
            assert_eq!(annotation(&new, OPERATION), left, "{operation} when {state}");
        }
    }

    #[test]
    fn a_rotation_that_waits_raises_once() {
        let rotating = || shoot(json!({"gardener.cloud/operation": "rotate-ca-start"}), "Succeeded");
        assert!(!raises(None, &mut rotating(), &rotating()));
    }

    #[test]
    fn confined_changes_wait_but_hibernation_does_not() {
        let old = shoot(json!({}), "Succeeded");
        let mut plain = old.clone();
        plain["spec"]["purpose"] = json!("production");
        assert!(raises(None, &mut plain, &old));
        let mut confined = plain.clone();
        confined["spec"]["maintenance"] = json!({"confineSpecUpdateRollout": true});
        assert!(!raises(None, &mut confined, &old));
        confined["spec"]["hibernation"] = json!({"enabled": true});
        assert!(raises(None, &mut confined, &old));
    }

    #[test]
    fn confirming_a_forced_deletion_raises_once() {
        let old = shoot(json!({}), "Error");
        let mut new = shoot(json!({"confirmation.gardener.cloud/force-deletion": "true"}), "Error");
        assert!(raises(None, &mut new, &old));
        let old = new.clone();
        assert!(!raises(None, &mut new, &old));
    }

    #[test]
    fn binding_changes_the_seed_and_nothing_else() {
        let old = shoot(json!({"a": "b"}), "Succeeded");
        let mut new =
            json!({"metadata": {"name": "s", "labels": {"x": "y"}}, "spec": {"region": "other", "seedName": "seed"}});
        assert!(raises(Some("binding"), &mut new, &old));
        let mut expected = old.clone();
        expected["spec"]["seedName"] = json!("seed");
        assert_eq!(new, expected);
    }
}
