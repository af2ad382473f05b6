//! What holds a deletion beside its extension objects: finalizers of others on the Shoot, and objects inside it.

use api_meta::{ErrorCode, FaultClass, finalizers};
use base_flow::Name;
use control_plane_shoot_flow::{ShootTask, Single, Step, Way};

use super::reported::{Failed, errors, running};
use super::{Blocker, Cause, Located, next_try, status};
use crate::facts::Facts;

/// The tasks that empty a Shoot.
const CLEANING: [Single; 3] = [
    Single::CleanWebhooks,
    Single::CleanExtendedApis,
    Single::CleanKubernetesResources,
];

pub(super) fn blockers(facts: &Facts) -> Vec<Blocker> {
    let Some(deleted_at) = &facts.shoot.metadata.deletion_timestamp else {
        return Vec::new();
    };
    let foreign = foreign(facts).map(|blocker| Blocker {
        since: Some(deleted_at.0),
        ..blocker
    });
    foreign.into_iter().chain(left_inside(facts)).collect()
}

/// gardenlet removes its finalizer last; those that are left then belong to others.
fn foreign(facts: &Facts) -> Option<Blocker> {
    let all = facts.shoot.metadata.finalizers.clone().unwrap_or_default();
    if all.is_empty() || all.iter().any(|one| one == finalizers::GARDENER) {
        return None;
    }
    let names = all.join(", ");
    Some(Blocker {
        message: format!("it is gone from its seed, and finalizers of others hold the object: {names}"),
        class: Some(FaultClass::Dependency.as_str()),
        next_try: "when its finalizers are gone".to_owned(),
        to_do: "look at whoever has set the finalizer; take it away only if its owner is gone for good".to_owned(),
        objects: vec![Located::in_garden(facts.itself())],
        ..Blocker::new(Cause::FinalizerHolds, format!("the owner of the finalizer {names}"))
    })
}

/// Names are written down once the task's time is up; before, only that it is being done.
fn left_inside(facts: &Facts) -> Vec<Blocker> {
    let left: Vec<Blocker> = errors(facts)
        .into_iter()
        .filter(|error| error.problem.codes.contains(&ErrorCode::CleanupClusterResources))
        .map(|Failed { problem, at }| Blocker {
            message: problem.text,
            tasks: problem.task.into_iter().collect(),
            class: Some(ErrorCode::CleanupClusterResources.class().as_str()),
            codes: problem.codes,
            since: at,
            next_try: next_try(facts),
            to_do: "look at the finalizers of the named objects, with a kubeconfig of the Shoot".to_owned(),
            ..Blocker::new(
                Cause::ObjectsLeft,
                "the owners of the objects inside the Shoot".to_owned(),
            )
        })
        .collect();
    if !left.is_empty() {
        return left;
    }
    let names = CLEANING.map(|single| {
        let (way, step) = (Way::Delete, Step::Single(single));
        ShootTask { way, step }.name()
    });
    let running = running(facts);
    let Some(task) = running.iter().find(|task| names.contains(&task.as_str())) else {
        return left;
    };
    vec![Blocker {
        message: "objects inside the Shoot are being deleted; what is left is named once the task's time is up"
            .to_owned(),
        tasks: vec![task.clone()],
        since: status(facts).last_operation.map(|last| last.last_update_time.0),
        next_try: "now: the operation runs".to_owned(),
        to_do: "nothing; if it lasts, look for objects with finalizers, with a kubeconfig of the Shoot".to_owned(),
        ..Blocker::new(Cause::AtWork, "the controllers inside the Shoot".to_owned())
    }]
}
