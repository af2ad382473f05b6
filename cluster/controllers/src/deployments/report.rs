//! What a Deployment's status reports about its ReplicaSets. Pure.

use std::time::Duration;

use base_controller::Next;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;

use super::Seen;
use super::rollout::Bounds;

/// Seconds without progress after which a rollout counts as stuck, unless the Deployment says otherwise.
const DEADLINE_SECONDS: i32 = 600;

/// The Deployment with its new status, and when to look again.
pub(crate) fn report(seen: &Seen, now: Timestamp) -> (Deployment, Next) {
    let deployment = &*seen.deployment;
    let spec = deployment.spec.clone().unwrap_or_default();
    let before = deployment.status.clone().unwrap_or_default();
    let mut status = count(seen, &before);
    let available = status.available_replicas.unwrap_or(0);
    let is_enough = available >= spec.replicas.unwrap_or(1) - Bounds::of(&spec).unavailable;
    let condition = if is_enough {
        (
            "Available",
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "Available",
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set_condition(&mut status, now, condition, false);
    let deadline = spec.progress_deadline_seconds.unwrap_or(DEADLINE_SECONDS);
    let next = if deadline == i32::MAX {
        Next::Change
    } else {
        let limit = Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
        report_progress(seen, &spec, &before, &mut status, now, limit)
    };
    (
        Deployment {
            status: Some(status),
            ..deployment.clone()
        },
        next,
    )
}

/// The numbers, summed over the ReplicaSets.
fn count(seen: &Seen, before: &DeploymentStatus) -> DeploymentStatus {
    let sum = |count: fn(&ReplicaSet) -> Option<i32>| seen.sets.iter().filter_map(|set| count(set)).sum::<i32>();
    let available = sum(|set| set.status.as_ref()?.available_replicas);
    let wanted = seen
        .deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.replicas)
        .unwrap_or(1);
    let total = sum(|set| set.spec.as_ref()?.replicas).max(wanted);
    let updated = seen
        .newest()
        .and_then(|set| set.status.as_ref())
        .map_or(0, |status| status.replicas);
    let some = |count: i32| (count > 0).then_some(count);
    DeploymentStatus {
        replicas: some(sum(|set| Some(set.status.as_ref()?.replicas))),
        updated_replicas: some(updated),
        ready_replicas: some(sum(|set| set.status.as_ref()?.ready_replicas)),
        available_replicas: some(available),
        unavailable_replicas: some(total - available),
        observed_generation: seen.deployment.metadata.generation,
        ..before.clone()
    }
}

/// Whether the rollout is done, goes on or is stuck; and when that is to be checked again.
fn report_progress(
    seen: &Seen,
    spec: &DeploymentSpec,
    before: &DeploymentStatus,
    status: &mut DeploymentStatus,
    now: Timestamp,
    limit: Duration,
) -> Next {
    let Some(name) = seen.newest().map(|set| set.name_any()) else {
        return Next::Change;
    };
    let last = before
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "Progressing");
    let was_complete = last.is_some_and(|condition| condition.reason.as_deref() == Some("NewReplicaSetAvailable"));
    // A rollout that is done stays done, whatever becomes of its pods (Kubernetes v1.35
    // pkg/controller/deployment/progress.go).
    if was_complete && status.replicas == status.updated_replicas {
        return Next::Change;
    }
    let wanted = spec.replicas.unwrap_or(1);
    let is_all = |count: Option<i32>| count.unwrap_or(0) == wanted;
    if is_all(status.updated_replicas) && is_all(status.replicas) && is_all(status.available_replicas) {
        let message = format!("ReplicaSet {name:?} has successfully progressed.");
        set_condition(
            status,
            now,
            ("Progressing", "True", "NewReplicaSetAvailable", &message),
            false,
        );
        return Next::Change;
    }
    let outdated = |status: &DeploymentStatus| status.replicas.unwrap_or(0) - status.updated_replicas.unwrap_or(0);
    let has_progressed = status.updated_replicas > before.updated_replicas
        || status.ready_replicas > before.ready_replicas
        || status.available_replicas > before.available_replicas
        || outdated(status) < outdated(before)
        || status.observed_generation != before.observed_generation;
    let renew = has_progressed || was_complete;
    let since = last
        .and_then(|condition| condition.last_update_time.as_ref())
        .map_or(now, |time| time.0);
    let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
    if elapsed >= limit && !renew && spec.paused != Some(true) {
        let message = format!("ReplicaSet {name:?} has timed out progressing.");
        set_condition(
            status,
            now,
            ("Progressing", "False", "ProgressDeadlineExceeded", &message),
            false,
        );
        return Next::Change;
    }
    let message = format!("ReplicaSet {name:?} is progressing.");
    set_condition(
        status,
        now,
        ("Progressing", "True", "ReplicaSetUpdated", &message),
        renew,
    );
    Next::After(if renew { limit } else { limit.saturating_sub(elapsed) })
}

/// Type, value, reason, message.
type Condition<'a> = (&'a str, &'a str, &'a str, &'a str);

/// Writes a condition; times move only when it changes, or when `renew` says that it was confirmed again.
fn set_condition(status: &mut DeploymentStatus, now: Timestamp, condition: Condition<'_>, renew: bool) {
    let (type_, value, reason, message) = condition;
    let conditions = status.conditions.get_or_insert_default();
    let old = conditions.iter_mut().find(|condition| condition.type_ == type_);
    let same_value = old.as_ref().is_some_and(|old| old.status == value);
    let same = same_value && old.as_ref().is_some_and(|old| old.reason.as_deref() == Some(reason));
    if same && !renew {
        return;
    }
    // Kubernetes keeps whole seconds.
    let now = Some(Time(Timestamp::from_second(now.as_second()).unwrap_or(now)));
    let transition = old
        .as_ref()
        .filter(|_| same_value)
        .and_then(|old| old.last_transition_time.clone());
    let new = DeploymentCondition {
        type_: type_.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_update_time: now.clone(),
        last_transition_time: transition.or(now),
    };
    match old {
        Some(old) => *old = new,
        None => conditions.push(new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::sync::Arc;

    fn seen(status: Value, available: i32) -> Seen {
        let template = json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}});
        let deployment = json!({
            "metadata": {"name": "d", "generation": 2}, "status": status,
            "spec": {"replicas": 2, "selector": {}, "template": template, "progressDeadlineSeconds": 60},
        });
        let set = json!({
            "metadata": {"name": "d-1"}, "spec": {"replicas": 2, "selector": {}, "template": template},
            "status": {"replicas": 2, "readyReplicas": available, "availableReplicas": available},
        });
        Seen {
            deployment: Arc::new(serde_json::from_value(deployment).unwrap()),
            sets: vec![Arc::new(serde_json::from_value(set).unwrap())],
            old_pods_run: false,
        }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn conditions(deployment: &Deployment) -> Vec<(String, String, String)> {
        let conditions = deployment.status.as_ref().unwrap().conditions.clone().unwrap();
        conditions
            .into_iter()
            .map(|c| (c.type_, c.status, c.reason.unwrap()))
            .collect()
    }

    #[test]
    fn rollout_without_progress_is_reported_when_its_deadline_passes() {
        let (first, next) = report(&seen(json!({}), 0), at(100));
        assert_eq!(
            conditions(&first)[1],
            ("Progressing".into(), "True".into(), "ReplicaSetUpdated".into())
        );
        assert_eq!(next, Next::After(Duration::from_secs(60)));
        let status = serde_json::to_value(&first.status).unwrap();
        let (same, next) = report(&seen(status.clone(), 0), at(130));
        assert_eq!(
            (same.status, next),
            (first.status, Next::After(Duration::from_secs(30)))
        );
        let (stuck, next) = report(&seen(status, 0), at(160));
        assert_eq!(
            conditions(&stuck)[1],
            ("Progressing".into(), "False".into(), "ProgressDeadlineExceeded".into())
        );
        assert_eq!(next, Next::Change);
        let (done, next) = report(&seen(serde_json::to_value(&stuck.status).unwrap(), 2), at(200));
        assert_eq!(
            conditions(&done)[0],
            ("Available".into(), "True".into(), "MinimumReplicasAvailable".into())
        );
        assert_eq!(
            conditions(&done)[1],
            ("Progressing".into(), "True".into(), "NewReplicaSetAvailable".into())
        );
        assert_eq!(
            (done.status.unwrap().observed_generation, next),
            (Some(2), Next::Change)
        );
    }

    #[test]
    fn settled_status_does_not_change_with_time() {
        let (done, _) = report(&seen(json!({}), 2), at(100));
        let (again, _) = report(&seen(serde_json::to_value(&done.status).unwrap(), 2), at(9999));
        assert_eq!(again.status, done.status);
    }
}
