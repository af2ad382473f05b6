//! Refuses what Gardener does for a Shoot and this product does not do yet, so that no promise is broken without a word.
//! Each refusal is removed when its feature is added.

mod fields;
mod to_come;

use std::collections::BTreeSet;

use api_meta::annotations::{CONFIRMATION_FORCE_DELETION, MAINTENANCE_OPERATION, OPERATION, is_true, operation};
use cluster_apiserver::fields::FieldError;
use cluster_apiserver::kind::Review;
use serde_json::Value;

use super::{Plugin, Verdict, some_of, writes_object};
use crate::AdmissionPlugin;
use crate::convert::{annotation, refuse, text};
use to_come::{TO_COME, ToCome};

/// Operations that may be requested of a Shoot.
const OPERATIONS: [&str; 2] = [operation::RECONCILE, operation::RETRY];
/// Operations of Gardener that are still to come here.
const OPERATIONS_TO_COME: [&str; 4] = [
    operation::ROTATE_PREFIX,
    operation::ROLLOUT_WORKERS_PREFIX,
    operation::FORCE_IN_PLACE_UPDATE,
    operation::MAINTAIN,
];

/// Refuses features of Shoots that are still to come.
pub(crate) struct NotYet(&'static [ToCome]);

impl NotYet {
    /// All that is still to come.
    pub(crate) const ALL: Self = Self(TO_COME);
}

impl Plugin for NotYet {
    fn name(&self) -> Option<AdmissionPlugin> {
        // What nothing acts on cannot be switched on.
        None
    }

    fn review<'a>(&'a self, review: Review<'a>) -> Verdict<'a> {
        Box::pin(async move {
            if let Some(object) = review.object.filter(|_| writes_object(&review.call)) {
                // What was requested before is not validated again: nothing else about the Shoot could be changed then.
                let mut unserved = fields::unserved(object, self.0);
                if let Some(before) = review.old.map(|old| fields::unserved(old, self.0)) {
                    let (refused, warned) = (places(&before.refused), places(&before.warned));
                    unserved.refused.retain(|finding| !refused.contains(&finding.place));
                    unserved.warned.retain(|finding| !warned.contains(&finding.place));
                }
                let mut refused: Vec<FieldError> = unserved.refused.into_iter().map(|finding| finding.what).collect();
                let before = |key| review.old.map_or("", |old| annotation(old, key));
                let gone = unknown_pools(object, annotation(object, OPERATION), before(OPERATION));
                if gone.is_none() {
                    refused.extend(operations(annotation(object, OPERATION), before(OPERATION)));
                }
                refused.extend(gone);
                refused.extend(in_maintenance(
                    annotation(object, MAINTENANCE_OPERATION),
                    before(MAINTENANCE_OPERATION),
                ));
                let given_up = annotation(object, CONFIRMATION_FORCE_DELETION);
                refused.extend(force_deletion(given_up, before(CONFIRMATION_FORCE_DELETION)));
                refuse(text(object, "/kind"), text(object, "/metadata/name"), &refused)?;
                return Ok(unserved.warned.into_iter().map(|finding| finding.what).collect());
            }
            Ok(Vec::new())
        })
    }
}

fn places<T>(findings: &[fields::Finding<T>]) -> BTreeSet<String> {
    findings.iter().map(|finding| finding.place.clone()).collect()
}

fn operations(requested: &str, before: &str) -> Vec<FieldError> {
    let parts = |all: &'_ str| -> BTreeSet<String> { all.split(';').map(|part| part.trim().to_owned()).collect() };
    let before = parts(before);
    let path = format!("metadata.annotations[{OPERATION}]");
    let check = |part: String| {
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
            "maintenance cannot be requested yet"
        } else {
            "workers cannot be rolled out on request yet"
        };
        Some(FieldError::forbidden(
            path,
            format!("{part}: {what}; supported: {known}"),
        ))
    };
    parts(requested).into_iter().filter_map(check).collect()
}

/// Pools that an operation names and that the Shoot does not have; `*` is all of them.
fn unknown_pools(shoot: &Value, requested: &str, before: &str) -> Option<FieldError> {
    let pools = shoot.pointer("/spec/provider/workers").and_then(Value::as_array);
    let pools: BTreeSet<&str> = pools.into_iter().flatten().map(|pool| text(pool, "/name")).collect();
    let before: BTreeSet<&str> = before.split(';').collect();
    let parts = requested.split(';').filter(|part| !before.contains(part));
    let named = parts.filter_map(|part| part.trim().strip_prefix(operation::ROLLOUT_WORKERS_PREFIX));
    let names = named.flat_map(|names| names.trim_start_matches('=').split(','));
    let unknown: BTreeSet<&str> = names.filter(|name| *name != "*" && !pools.contains(name)).collect();
    if unknown.is_empty() {
        return None;
    }
    let [unknown, pools] = [unknown, pools].map(|names| some_of(&Vec::from_iter(names)));
    let words = format!("the Shoot has no worker pool of this name; it has {pools}");
    Some(FieldError::invalid(
        format!("metadata.annotations[{OPERATION}]"),
        unknown,
        words,
    ))
}

/// What is requested for the maintenance window is at least one of Gardener's operations.
fn in_maintenance(requested: &str, before: &str) -> Vec<FieldError> {
    let is_known =
        |part: &str| OPERATIONS.contains(&part) || OPERATIONS_TO_COME.iter().any(|to_come| part.starts_with(to_come));
    let parts = requested
        .split(';')
        .map(str::trim)
        .filter(|part| !part.is_empty() && requested != before);
    let wrong = parts.filter(|part| !is_known(part));
    wrong
        .map(|part| {
            FieldError::not_supported(
                format!("metadata.annotations[{MAINTENANCE_OPERATION}]"),
                part,
                &OPERATIONS,
            )
        })
        .collect()
}

/// No component acts on the annotation, and whoever sets it cannot remove it.
fn force_deletion(requested: &str, before: &str) -> Option<FieldError> {
    (is_true(requested) && !is_true(before)).then(|| {
        FieldError::forbidden(
            format!("metadata.annotations[{CONFIRMATION_FORCE_DELETION}]"),
            "force-deletion is not supported yet; remove the annotation, and correct what blocks the deletion: `orangery why` names it",
        )
    })
}

#[cfg(test)]
mod tests {
    use cluster_apiserver::kind::Operation;
    use serde_json::{Value, json};

    use super::*;
    use crate::admission::tests::{Fixture, review};

    #[test]
    fn a_shoot_that_was_stored_with_such_a_feature_can_be_changed() {
        let shoot = |confined: bool, audit: Value| {
            json!({"kind": "Shoot", "metadata": {"name": "s"}, "spec": {
                "maintenance": {"confineSpecUpdateRollout": confined},
                "kubernetes": {"kubeAPIServer": {"auditConfig": audit}}}})
        };
        let none = || Value::Null;
        let change = |new: &Value| {
            let old = shoot(true, none());
            review(
                &NotYet::ALL,
                Operation::Update,
                Some(new),
                Some(&old),
                &Fixture::default(),
            )
        };
        assert!(change(&shoot(true, none())).is_ok());
        assert!(change(&shoot(false, none())).is_ok());
        let policy = json!({"auditPolicy": {"configMapRef": {"name": "policy"}}});
        let refusal = change(&shoot(true, policy)).expect_err("one more");
        assert!(
            refusal.contains("kubeAPIServer.auditConfig") && !refusal.contains("confineSpecUpdateRollout"),
            "{refusal}"
        );
    }

    /// No field of a pool is refused today, so the row is the test's own.
    const PAINTED: NotYet = NotYet(&[ToCome {
        path: "spec.provider.workers[].paint",
        is_requested: |_, _| true,
        answer: to_come::Answer::Refused,
        what: "machines are grey",
    }]);

    #[test]
    fn a_stored_pool_with_such_a_feature_is_recognised_among_changed_pools() {
        let shoot = |pools: &[Value]| json!({"kind": "Shoot", "metadata": {"name": "s"}, "spec": {"provider": {"workers": pools}}});
        let plain = |name: &str| json!({"name": name});
        let painted = |name: &str| json!({"name": name, "paint": "red"});
        let before = shoot(&[plain("a"), painted("b")]);
        let change = |new: &Value| {
            review(
                &PAINTED,
                Operation::Update,
                Some(new),
                Some(&before),
                &Fixture::default(),
            )
        };
        assert_eq!(change(&shoot(&[painted("b")])).unwrap(), Vec::<String>::new());
        let refusal = change(&shoot(&[painted("c"), painted("b")])).expect_err("another pool");
        assert!(
            refusal.contains("workers[0].paint") && !refusal.contains("workers[1]"),
            "{refusal}"
        );
    }

    #[test]
    fn a_warning_is_given_when_its_field_is_written() {
        let shoot = |pods: Option<u32>| json!({"kind": "Shoot", "metadata": {"name": "s"}, "spec": {"kubernetes": {"kubelet": {"maxPods": pods}}}});
        let change = |new: &Value, old: &Value| {
            review(
                &NotYet::ALL,
                Operation::Update,
                Some(new),
                Some(old),
                &Fixture::default(),
            )
            .unwrap()
        };
        assert!(change(&shoot(Some(20)), &shoot(None))[0].starts_with("spec.kubernetes.kubelet: "));
        assert!(change(&shoot(Some(20)), &shoot(Some(20))).is_empty());
    }

    #[test]
    fn force_deletion_is_refused_when_it_is_first_confirmed() {
        let refused = force_deletion("true", "").map(|error| error.to_string()).unwrap();
        assert!(refused.contains("confirmation.gardener.cloud/force-deletion") && refused.contains("orangery why"));
        assert!(force_deletion("1", "").is_some());
        assert_eq!(force_deletion("true", "1"), None);
        assert_eq!(force_deletion("", ""), None);
    }

    #[test]
    fn operations_still_to_come_are_refused_when_first_requested() {
        let messages = |requested: &str, before: &str| -> Vec<String> {
            let errors = operations(requested, before);
            errors.iter().map(ToString::to_string).collect()
        };
        for good in ["", "reconcile", "retry", "retry; reconcile"] {
            assert!(messages(good, "").is_empty(), "{good}");
        }
        for to_come in [
            "rotate-ca-start",
            "rotate-ssh-keypair",
            "rollout-workers=a",
            "force-in-place-update",
            "maintain",
        ] {
            let message = messages(to_come, "").concat();
            assert!(
                message.contains("metadata.annotations[gardener.cloud/operation]: Forbidden"),
                "{message}"
            );
            assert!(
                message.contains(to_come) && message.contains(" yet; supported: reconcile, retry"),
                "{message}"
            );
        }
        let unknown = messages("reconcile;nonsense", "").concat();
        assert!(
            unknown.contains("Unsupported value: \"nonsense\": supported values: \"reconcile\", \"retry\""),
            "{unknown}"
        );
        assert!(messages("nonsense", "nonsense").is_empty(), "it was there before");
    }
}
