//! Which operation is requested of an extension for an object, read from the object alone. Pure.
//! Source: gardener/gardener v1.150 pkg/api/core/v1beta1/helper (ComputeOperationType) and
//! `extensions/pkg/controller/KIND/reconciler.go`.

use std::fmt;

use api_meta::annotations::{self, operation};
use api_meta::{LastOperation, LastOperationState, LastOperationType};
use jiff::Timestamp;

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Make it, for the first time.
    Create,
    /// Make it as it should be.
    Reconcile,
    /// Take it down.
    Delete,
    /// Forget it without taking it down: another seed takes over.
    Migrate,
    /// Take over what another seed has left, by `status.state`.
    Restore,
}

impl Operation {
    /// As `status.lastOperation.type` spells it.
    pub fn type_(self) -> LastOperationType {
        match self {
            Self::Create => LastOperationType::Create,
            Self::Reconcile => LastOperationType::Reconcile,
            Self::Delete => LastOperationType::Delete,
            Self::Migrate => LastOperationType::Migrate,
            Self::Restore => LastOperationType::Restore,
        }
    }

    /// "Reconciling", for descriptions.
    pub(crate) fn under_way(self) -> &'static str {
        match self {
            Self::Create => "Creating",
            Self::Reconcile => "Reconciling",
            Self::Delete => "Deleting",
            Self::Migrate => "Migrating",
            Self::Restore => "Restoring",
        }
    }

    /// "reconciled", for descriptions.
    pub(crate) fn done(self) -> &'static str {
        match self {
            Self::Create => "created",
            Self::Reconcile => "reconciled",
            Self::Delete => "deleted",
            Self::Migrate => "migrated",
            Self::Restore => "restored",
        }
    }
}

/// What the decision is made from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Facts<'a> {
    /// The value of `gardener.cloud/operation`.
    pub(crate) annotation: Option<&'a str>,
    /// When an operation was requested last: the annotation `gardener.cloud/timestamp`.
    pub(crate) requested: Option<Timestamp>,
    /// Whether its deletion is confirmed: the request is then the deletion, which follows.
    pub(crate) confirmed: bool,
    pub(crate) deleting: bool,
    pub(crate) generation: i64,
    pub(crate) observed_generation: i64,
    pub(crate) last_operation: Option<&'a LastOperation>,
    /// Whether our finalizer is on it.
    pub(crate) held: bool,
    /// Whether something else has changed for which it is to be reconciled.
    pub(crate) due: bool,
}

/// Why an object is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leave {
    /// Its last operation succeeded and no other is requested.
    Settled,
    /// It waits for its state to be written.
    WaitsForState,
    /// It has been migrated away.
    Migrated,
    /// It is being deleted and we hold nothing of it.
    NotHeld,
}

impl fmt::Display for Leave {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Settled => "nothing is requested",
            Self::WaitsForState => "it waits for its state",
            Self::Migrated => "it has been migrated away",
            Self::NotHeld => "it is being deleted and nothing of it is ours",
        })
    }
}

pub(crate) fn decide(facts: &Facts<'_>) -> Result<Operation, Leave> {
    if facts.annotation == Some(operation::WAIT_FOR_STATE) {
        return Err(Leave::WaitsForState);
    }
    let request = matches!(
        facts.annotation,
        Some(operation::RECONCILE | operation::MIGRATE | operation::RESTORE)
    );
    let succeeded = facts
        .last_operation
        .is_some_and(|last| last.state == LastOperationState::Succeeded);
    let current = succeeded && facts.observed_generation == facts.generation && !facts.due;
    if !request && !unanswered(facts) && !facts.deleting && current {
        return Err(Leave::Settled);
    }
    let operation = operation_of(facts);
    let migrated = succeeded
        && facts
            .last_operation
            .is_some_and(|last| last.type_ == LastOperationType::Migrate);
    match operation {
        Operation::Migrate | Operation::Restore => Ok(operation),
        _ if migrated => Err(Leave::Migrated),
        Operation::Delete if !facts.held => Err(Leave::NotHeld),
        _ => Ok(operation),
    }
}

/// Whether a request was taken off the object by a process that ended before it wrote so much as "Processing".
/// Statuses have whole seconds.
fn unanswered(facts: &Facts<'_>) -> bool {
    let answered = facts.last_operation.map(|last| last.last_update_time.0.as_second());
    let requested = facts.requested.map(Timestamp::as_second);
    !facts.confirmed && answered.is_some() && requested > answered
}

fn operation_of(facts: &Facts<'_>) -> Operation {
    if facts.annotation == Some(operation::MIGRATE) {
        return Operation::Migrate;
    }
    if facts.deleting {
        return Operation::Delete;
    }
    if facts.annotation == Some(operation::RESTORE) {
        return Operation::Restore;
    }
    let Some(last) = facts.last_operation else {
        return Operation::Create;
    };
    if last.state == LastOperationState::Succeeded {
        return Operation::Reconcile;
    }
    match last.type_ {
        LastOperationType::Create => Operation::Create,
        LastOperationType::Migrate => Operation::Migrate,
        LastOperationType::Restore => Operation::Restore,
        _ => Operation::Reconcile,
    }
}

/// The value of the operation annotation.
pub(crate) fn annotation_of<K: kube::Resource>(object: &K) -> Option<&str> {
    noted(object, annotations::OPERATION)
}

/// The value of an annotation.
pub(crate) fn noted<'a, K: kube::Resource>(object: &'a K, key: &str) -> Option<&'a str> {
    object.meta().annotations.as_ref()?.get(key).map(String::as_str)
}

/// When an operation was requested last.
pub(crate) fn requested_at<K: kube::Resource>(object: &K) -> Option<Timestamp> {
    noted(object, annotations::TIMESTAMP)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(type_: LastOperationType, state: LastOperationState) -> LastOperation {
        LastOperation {
            type_,
            state,
            ..Default::default()
        }
    }

    fn check(annotation: &str, deleting: bool, last: Option<LastOperation>, expected: Result<Operation, Leave>) {
        let facts = Facts {
            annotation: (!annotation.is_empty()).then_some(annotation),
            deleting,
            generation: 2,
            observed_generation: 2,
            last_operation: last.as_ref(),
            held: true,
            ..Facts::default()
        };
        assert_eq!(decide(&facts), expected, "{facts:?}");
    }

    use LastOperationState::{Error, Processing, Succeeded};
    use LastOperationType as Type;

    #[test]
    fn the_operation_follows_annotation_deletion_and_last_operation_in_that_order() {
        check("", false, None, Ok(Operation::Create));
        check("", false, Some(last(Type::Create, Error)), Ok(Operation::Create));
        check(
            "",
            false,
            Some(last(Type::Reconcile, Processing)),
            Ok(Operation::Reconcile),
        );
        check("", false, Some(last(Type::Restore, Error)), Ok(Operation::Restore));
        check(
            "reconcile",
            false,
            Some(last(Type::Create, Succeeded)),
            Ok(Operation::Reconcile),
        );
        check(
            "reconcile",
            true,
            Some(last(Type::Create, Succeeded)),
            Ok(Operation::Delete),
        );
        check(
            "migrate",
            true,
            Some(last(Type::Create, Succeeded)),
            Ok(Operation::Migrate),
        );
        check("restore", false, None, Ok(Operation::Restore));
        check("restore", true, None, Ok(Operation::Delete));
    }

    #[test]
    fn an_unanswered_request_is_done_and_one_of_the_same_second_is_answered() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let mut done = last(Type::Reconcile, Succeeded);
        done.last_update_time.0 = at("2026-01-01T00:00:10Z");
        let facts = |requested: &str| Facts {
            requested: Some(at(requested)),
            last_operation: Some(&done),
            ..Facts::default()
        };
        assert_eq!(decide(&facts("2026-01-01T00:00:10.9Z")), Err(Leave::Settled));
        assert_eq!(decide(&facts("2026-01-01T00:00:11Z")), Ok(Operation::Reconcile));
        let confirmed = Facts {
            confirmed: true,
            ..facts("2026-01-01T00:00:11Z")
        };
        assert_eq!(decide(&confirmed), Err(Leave::Settled));
    }

    #[test]
    fn settled_waiting_migrated_and_foreign_objects_are_left_alone() {
        check("", false, Some(last(Type::Reconcile, Succeeded)), Err(Leave::Settled));
        check(
            "unheard-of",
            false,
            Some(last(Type::Reconcile, Succeeded)),
            Err(Leave::Settled),
        );
        check("wait-for-state", false, None, Err(Leave::WaitsForState));
        check(
            "reconcile",
            false,
            Some(last(Type::Migrate, Succeeded)),
            Err(Leave::Migrated),
        );
        check(
            "restore",
            false,
            Some(last(Type::Migrate, Succeeded)),
            Ok(Operation::Restore),
        );
        let foreign = Facts {
            deleting: true,
            ..Facts::default()
        };
        assert_eq!(decide(&foreign), Err(Leave::NotHeld));
        let done = last(Type::Reconcile, Succeeded);
        let changed = Facts {
            generation: 3,
            observed_generation: 2,
            last_operation: Some(&done),
            ..Facts::default()
        };
        assert_eq!(decide(&changed), Ok(Operation::Reconcile));
    }
}
