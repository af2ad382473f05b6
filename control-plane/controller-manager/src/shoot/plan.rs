//! What a shoot shall show. Pure: the shoot as it is in, the shoot as it shall be out.

use api_core::v1beta1::{ControllerRegistration, Shoot, ShootStatus};
use api_meta::conditions::shoot::{HIBERNATION_POSSIBLE, MAINTENANCE_PRECONDITIONS_SATISFIED};
use api_meta::labels::{SHOOT_STATUS, shoot_status};
use api_meta::{Condition, ConditionStatus, LastOperationState, LastOperationType};
use api_rules::unregistered_types;
use jiff::Timestamp;

/// Constraint of a shoot that uses an extension type which is not registered any more. Ours: Gardener stops the
/// whole seed instead.
pub(crate) const EXTENSIONS_REGISTERED: &str = "ExtensionsRegistered";

/// Constraints that gardenlet vouches for.
const OF_GARDENLET: [&str; 2] = [HIBERNATION_POSSIBLE, MAINTENANCE_PRECONDITIONS_SATISFIED];

/// The shoot with status and label as they shall be.
pub(crate) fn plan(
    shoot: &Shoot,
    registrations: &[ControllerRegistration],
    gardenlet_silent: bool,
    now: Timestamp,
) -> Shoot {
    let mut after = shoot.clone();
    put_constraint(&mut after, registrations, now);
    if gardenlet_silent && let Some(status) = &mut after.status {
        let unknown = |type_: &str| {
            let message = "Gardenlet stopped sending heartbeats.";
            Condition::new(type_, ConditionStatus::Unknown, "StatusUnknown", message, now)
        };
        for old in status.conditions.clone() {
            unknown(&old.type_).put_into(&mut status.conditions);
        }
        // Only those that are there: gardenlet would have to correct what it never wrote.
        for old in status.constraints.clone() {
            if OF_GARDENLET.contains(&old.type_.as_str()) {
                unknown(&old.type_).put_into(&mut status.constraints);
            }
        }
    }
    if let Some(label) = health(after.status.as_ref()) {
        let labels = after.metadata.labels.get_or_insert_default();
        labels.insert(SHOOT_STATUS.to_owned(), label.to_owned());
    }
    after
}

/// A constraint while a type is missing, none otherwise.
fn put_constraint(shoot: &mut Shoot, registrations: &[ControllerRegistration], now: Timestamp) {
    let missing: Vec<String> = match shoot.metadata.deletion_timestamp {
        None => unregistered_types(shoot, registrations)
            .into_iter()
            .map(|error| error.detail)
            .collect(),
        Some(_) => Vec::new(),
    };
    if missing.is_empty() {
        if let Some(status) = &mut shoot.status {
            status
                .constraints
                .retain(|constraint| constraint.type_ != EXTENSIONS_REGISTERED);
        }
        return;
    }
    let constraints = &mut shoot.status.get_or_insert_default().constraints;
    Condition::new(
        EXTENSIONS_REGISTERED,
        ConditionStatus::False,
        "ExtensionTypeNotRegistered",
        &missing.join("; "),
        now,
    )
    .put_into(constraints);
}

/// The worst of last errors and conditions. While a shoot is made or deleted only errors count; what was never there
/// is not healthy either: it is unknown while it waits and then progresses (Gardener calls both healthy). Nothing for
/// a shoot without an operation: a label now would only conflict with its first writer.
fn health(status: Option<&ShootStatus>) -> Option<&'static str> {
    let status = status?;
    let operation = status.last_operation.as_ref()?;
    let by_errors = if status.last_errors.is_empty() {
        0
    } else {
        WORST.len() - 1
    };
    match (&operation.type_, &operation.state) {
        (LastOperationType::Create, LastOperationState::Succeeded) => {}
        (LastOperationType::Create, _) if by_errors > 0 => return Some(shoot_status::UNHEALTHY),
        (LastOperationType::Create, LastOperationState::Pending) => return Some(shoot_status::UNKNOWN),
        (LastOperationType::Create, _) => return Some(shoot_status::PROGRESSING),
        (LastOperationType::Delete, _) => return Some(WORST[by_errors]),
        _ => {}
    }
    let constraints = status
        .constraints
        .iter()
        .filter(|constraint| constraint.type_ == EXTENSIONS_REGISTERED);
    let worst = status
        .conditions
        .iter()
        .chain(constraints)
        .map(|condition| match condition.status {
            ConditionStatus::True => 0,
            ConditionStatus::Progressing => 1,
            ConditionStatus::Unknown | ConditionStatus::Other(_) => 2,
            ConditionStatus::False => 3,
        });
    Some(WORST[worst.max().unwrap_or_default().max(by_errors)])
}

/// From best to worst.
const WORST: [&str; 4] = [
    shoot_status::HEALTHY,
    shoot_status::PROGRESSING,
    shoot_status::UNKNOWN,
    shoot_status::UNHEALTHY,
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn shoot(status: serde_json::Value) -> Shoot {
        serde_json::from_value(json!({"spec": {"provider": {"type": "local"}}, "status": status})).unwrap()
    }

    fn label(status: serde_json::Value) -> String {
        let planned = plan(&shoot(status), &[], false, Timestamp::UNIX_EPOCH);
        let again = plan(&planned, &[], false, Timestamp::from_second(9).unwrap());
        assert_eq!(planned, again, "nothing is left to do");
        planned.metadata.labels.unwrap()[SHOOT_STATUS].clone()
    }

    #[test]
    fn the_label_shows_the_worst_condition() {
        let reconciled = |conditions: serde_json::Value| json!({"lastOperation": {"type": "Reconcile", "state": "Succeeded"}, "conditions": conditions});
        let cases = [
            (
                json!({"lastOperation": {"type": "Create", "state": "Processing"}, "conditions": [{"type": "A", "status": "False"}]}),
                "progressing",
            ),
            (
                json!({"lastOperation": {"type": "Create", "state": "Pending"}}),
                "unknown",
            ),
            (
                json!({"lastOperation": {"type": "Create", "state": "Error"}, "lastErrors": [{"description": "x"}]}),
                "unhealthy",
            ),
            (
                json!({"lastOperation": {"type": "Create", "state": "Succeeded"}}),
                "healthy",
            ),
            (
                json!({"lastOperation": {"type": "Delete", "state": "Processing"}}),
                "healthy",
            ),
            (
                json!({"lastOperation": {"type": "Delete", "state": "Error"}, "lastErrors": [{"description": "x"}]}),
                "unhealthy",
            ),
            (reconciled(json!([{"type": "A", "status": "True"}])), "healthy"),
            (
                reconciled(json!([{"type": "A", "status": "True"}, {"type": "B", "status": "Progressing"}])),
                "progressing",
            ),
            (
                reconciled(json!([{"type": "A", "status": "Unknown"}, {"type": "B", "status": "Progressing"}])),
                "unknown",
            ),
            (
                reconciled(json!([{"type": "A", "status": "Unknown"}, {"type": "B", "status": "False"}])),
                "unhealthy",
            ),
        ];
        for (status, expected) in cases {
            assert_eq!(label(status.clone()), expected, "{status}");
        }
    }

    #[test]
    fn a_shoot_without_an_operation_is_left_alone() {
        let fresh = shoot(json!({"uid": ""}));
        assert_eq!(plan(&fresh, &[], false, Timestamp::UNIX_EPOCH), fresh);
    }

    #[test]
    fn an_unregistered_type_is_a_constraint_until_registered() {
        let mut shoot = shoot(json!({"lastOperation": {"type": "Reconcile", "state": "Succeeded"}}));
        shoot.spec.extensions = serde_json::from_value(json!([{"type": "gone"}])).unwrap();
        let reported = plan(&shoot, &[], false, Timestamp::UNIX_EPOCH);
        let constraint = &reported.status.as_ref().unwrap().constraints[0];
        assert!(
            constraint.message.contains("spec.extensions[0].type (\"gone\")"),
            "{}",
            constraint.message
        );
        assert_eq!(reported.metadata.labels.as_ref().unwrap()[SHOOT_STATUS], "unhealthy");
        let back: Vec<ControllerRegistration> = serde_json::from_value(json!([{"spec": {"resources": [
            {"kind": "Extension", "type": "Gone", "workerlessSupported": true}]}}]))
        .unwrap();
        let settled = plan(&reported, &back, false, Timestamp::UNIX_EPOCH);
        assert!(settled.status.unwrap().constraints.is_empty());
    }

    #[test]
    fn conditions_of_a_silent_gardenlet_become_unknown() {
        let reported = plan(
            &shoot(
                json!({"lastOperation": {"type": "Reconcile", "state": "Succeeded"}, "conditions": [{"type": "A", "status": "True"}],
                    "constraints": [{"type": "HibernationPossible", "status": "True"}, {"type": "Other", "status": "True"}]}),
            ),
            &[],
            true,
            Timestamp::UNIX_EPOCH,
        );
        let status = reported.status.unwrap();
        assert_eq!(status.conditions[0].status, ConditionStatus::Unknown);
        let constraints: Vec<_> = status
            .constraints
            .iter()
            .map(|constraint| constraint.status.clone())
            .collect();
        assert_eq!(constraints, [ConditionStatus::Unknown, ConditionStatus::True]);
        assert_eq!(reported.metadata.labels.unwrap()[SHOOT_STATUS], "unknown");
    }
}
