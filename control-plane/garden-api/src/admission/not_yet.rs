//! What a Shoot may ask for in Gardener and nobody here brings about yet is refused, so that nothing is promised and then
//! forgotten. Each refusal goes when its feature comes.

use api_meta::annotations::{OPERATION, operation};
use cluster_apiserver::kind::Review;
use cluster_apiserver::schema::FieldError;
use serde_json::Value;

use super::{Plugin, Verdict, writes_object};
use crate::convert::{annotation, refuse, text};

/// Operations that a Shoot may be asked for.
const OPERATIONS: [&str; 2] = [operation::RECONCILE, operation::RETRY];
/// Operations of Gardener that nobody here brings about.
const OPERATIONS_TO_COME: [&str; 4] = [
    operation::ROTATE_PREFIX,
    operation::ROLLOUT_WORKERS_PREFIX,
    operation::FORCE_IN_PLACE_UPDATE,
    operation::MAINTAIN,
];

/// Refuses features of Shoots that are still to come.
pub(crate) struct NotYet;

impl Plugin for NotYet {
    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            if let Some(object) = review.object.filter(|_| writes_object(&review.call)) {
                // What was asked for before is not judged again: nothing else about the Shoot could be changed then.
                let mut errors = asked(object);
                let before = review.old.map(asked).unwrap_or_default();
                errors.retain(|error| !before.contains(error));
                let before = review.old.map_or("", |old| annotation(old, OPERATION));
                errors.extend(operations(annotation(object, OPERATION), before));
                refuse(text(object, "/kind"), text(object, "/metadata/name"), &errors)?;
            }
            Ok(Vec::new())
        })
    }
}

fn asked(shoot: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if shoot.pointer("/spec/hibernation/enabled") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(
            "spec.hibernation.enabled",
            "clusters cannot be hibernated yet; leave the field out, or delete the Shoot while it is not needed",
        ));
    }
    if shoot
        .pointer("/spec/hibernation/schedules")
        .and_then(Value::as_array)
        .is_some_and(|all| !all.is_empty())
    {
        errors.push(FieldError::forbidden(
            "spec.hibernation.schedules",
            "clusters cannot be hibernated yet; leave the field out",
        ));
    }
    if shoot
        .pointer("/spec/controlPlane/highAvailability")
        .is_some_and(Value::is_object)
    {
        errors.push(FieldError::forbidden(
            "spec.controlPlane.highAvailability",
            "control planes have one replica as yet; leave the field out",
        ));
    }
    if shoot.pointer("/spec/maintenance/confineSpecUpdateRollout") == Some(&Value::Bool(true)) {
        errors.push(FieldError::forbidden(
            "spec.maintenance.confineSpecUpdateRollout",
            "changes cannot wait for the maintenance window yet; leave the field out",
        ));
    }
    errors
}

fn operations(asked: &str, before: &str) -> Vec<FieldError> {
    let parts = |all: &'_ str| -> Vec<String> { all.split(';').map(|part| part.trim().to_owned()).collect() };
    let before = parts(before);
    let path = format!("metadata.annotations[{OPERATION}]");
    let judge = |part: String| {
        if part.is_empty() || OPERATIONS.contains(&part.as_str()) || before.contains(&part) {
            return None;
        }
        let (path, known) = (path.clone(), OPERATIONS.join(", "));
        if !OPERATIONS_TO_COME.iter().any(|to_come| part.starts_with(to_come)) {
            return Some(FieldError::not_supported(path, part, &OPERATIONS));
        }
        let what = if part.starts_with(operation::ROTATE_PREFIX) {
            "credentials cannot be rotated yet"
        } else if part == operation::MAINTAIN {
            "maintenance cannot be asked for yet"
        } else {
            "workers cannot be rolled out on request yet"
        };
        Some(FieldError::forbidden(
            path,
            format!("{part}: {what}; supported: {known}"),
        ))
    };
    parts(asked).into_iter().filter_map(judge).collect()
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::json;

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn what_nobody_brings_about_is_refused_by_its_field() {
        let of = |spec| {
            asked(&json!({"spec": spec}))
                .into_iter()
                .map(|error| error.path)
                .collect::<Vec<_>>()
        };
        assert_eq!(
            of(json!({"hibernation": {"enabled": true}})),
            ["spec.hibernation.enabled"]
        );
        assert_eq!(
            of(json!({"controlPlane": {"highAvailability": {"failureTolerance": {"type": "node"}}}})),
            ["spec.controlPlane.highAvailability"]
        );
        assert_eq!(
            of(json!({"maintenance": {"confineSpecUpdateRollout": true}})),
            ["spec.maintenance.confineSpecUpdateRollout"]
        );
        assert!(of(json!({"maintenance": {"confineSpecUpdateRollout": false}})).is_empty());
        assert!(of(json!({"hibernation": {"enabled": false, "schedules": []}, "controlPlane": {}})).is_empty());
    }

    #[test]
    fn a_shoot_that_was_stored_with_such_a_feature_can_be_changed() {
        let shoot = |maintenance, hibernation| {
            json!({"kind": "Shoot", "metadata": {"name": "s"}, "spec": {
                "maintenance": {"confineSpecUpdateRollout": maintenance}, "hibernation": {"enabled": hibernation}}})
        };
        let change = |new: &Value| {
            let old = shoot(true, false);
            review(&NotYet, Operation::Update, Some(new), Some(&old), &Fixture::default())
        };
        assert!(change(&shoot(true, false)).is_ok());
        assert!(change(&shoot(false, false)).is_ok());
        let refusal = change(&shoot(true, true)).expect_err("one more");
        assert!(
            refusal.contains("spec.hibernation.enabled") && !refusal.contains("confineSpecUpdateRollout"),
            "{refusal}"
        );
    }

    #[test]
    fn operations_that_nobody_does_are_refused_when_they_are_asked_for() {
        let told = |asked: &str, before: &str| -> Vec<String> {
            let errors = operations(asked, before);
            errors.iter().map(ToString::to_string).collect()
        };
        for good in ["", "reconcile", "retry", "retry; reconcile"] {
            assert!(told(good, "").is_empty(), "{good}");
        }
        for to_come in [
            "rotate-ca-start",
            "rotate-ssh-keypair",
            "rollout-workers=a",
            "force-in-place-update",
            "maintain",
        ] {
            let told = told(to_come, "").concat();
            assert!(
                told.contains("metadata.annotations[gardener.cloud/operation]: Forbidden"),
                "{told}"
            );
            assert!(
                told.contains(to_come) && told.contains(" yet; supported: reconcile, retry"),
                "{told}"
            );
        }
        let unknown = told("reconcile;nonsense", "").concat();
        assert!(
            unknown.contains("Unsupported value: \"nonsense\": supported values: \"reconcile\", \"retry\""),
            "{unknown}"
        );
        assert!(told("nonsense", "nonsense").is_empty(), "it was there before");
    }
}
