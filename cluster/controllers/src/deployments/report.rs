//! What a Deployment's status says about its ReplicaSets. Pure.

use std::time::Duration;

use base_controller::Next;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus, ReplicaSet};
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
    let wanted = spec.replicas.unwrap_or(1);
    let newest = seen.newest();
    let sum = |count: fn(&ReplicaSet) -> i32| seen.sets.iter().map(|set| count(set)).sum::<i32>();
    let replicas = sum(|set| set.status.as_ref().map_or(0, |status| status.replicas));
    let ready = sum(|set| {
        set.status
            .as_ref()
            .and_then(|status| status.ready_replicas)
            .unwrap_or(0)
    });
    let available = sum(|set| {
        set.status
            .as_ref()
            .and_then(|status| status.available_replicas)
            .unwrap_or(0)
    });
    let updated = newest
        .and_then(|set| set.status.as_ref())
        .map_or(0, |status| status.replicas);
    let total = sum(|set| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(0)).max(wanted);
    let some = |count: i32| (count > 0).then_some(count);
    let mut status = DeploymentStatus {
        replicas: some(replicas),
        updated_replicas: some(updated),
        ready_replicas: some(ready),
        available_replicas: some(available),
        unavailable_replicas: some(total - available),
        observed_generation: deployment.metadata.generation,
        ..before.clone()
    };
    let is_enough = available >= wanted - Bounds::of(&spec).unavailable;
    let (text, reason, message) = if is_enough {
        (
            "True",
            "MinimumReplicasAvailable",
            "Deployment has minimum availability.",
        )
    } else {
        (
            "False",
            "MinimumReplicasUnavailable",
            "Deployment does not have minimum availability.",
        )
    };
    set_condition(&mut status, now, "Available", text, reason, message.to_owned(), false);
    let is_complete = updated == wanted && replicas == wanted && available == wanted;
    let deadline = spec.progress_deadline_seconds.unwrap_or(DEADLINE_SECONDS);
    if deadline == i32::MAX {
        return (
            Deployment {
                status: Some(status),
                ..deployment.clone()
            },
            Next::Change,
        );
    }
    let name = newest.map_or_else(String::new, |set| set.name_any());
    let mut next = Next::Change;
    if is_complete {
        let message = format!("ReplicaSet {name:?} has successfully progressed.");
        set_condition(
            &mut status,
            now,
            "Progressing",
            "True",
            "NewReplicaSetAvailable",
            message,
            false,
        );
    } else if newest.is_some() {
        let has_progressed = status.updated_replicas > before.updated_replicas
            || status.ready_replicas > before.ready_replicas
            || status.available_replicas > before.available_replicas
            || replicas - updated < before.replicas.unwrap_or(0) - before.updated_replicas.unwrap_or(0)
            || status.observed_generation != before.observed_generation;
        let since = before
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == "Progressing");
        let was_complete = since.is_some_and(|condition| condition.reason.as_deref() == Some("NewReplicaSetAvailable"));
        let since = since
            .and_then(|condition| condition.last_update_time.as_ref())
            .map_or(now, |time| time.0);
        let limit = Duration::from_secs(u64::try_from(deadline).unwrap_or(0));
        let elapsed = Duration::try_from(now.duration_since(since)).unwrap_or(Duration::ZERO);
        if elapsed >= limit && !has_progressed && !was_complete && spec.paused != Some(true) {
            let message = format!("ReplicaSet {name:?} has timed out progressing.");
            set_condition(
                &mut status,
                now,
                "Progressing",
                "False",
                "ProgressDeadlineExceeded",
                message,
                false,
            );
        } else {
            let message = format!("ReplicaSet {name:?} is progressing.");
            let renew = has_progressed || was_complete;
            set_condition(
                &mut status,
                now,
                "Progressing",
                "True",
                "ReplicaSetUpdated",
                message,
                renew,
            );
            next = Next::After(if renew { limit } else { limit.saturating_sub(elapsed) });
        }
    }
    (
        Deployment {
            status: Some(status),
            ..deployment.clone()
        },
        next,
    )
}

/// Writes a condition; times move only when it changes, or when `renew` says that it was confirmed anew.
fn set_condition(
    status: &mut DeploymentStatus,
    now: Timestamp,
    type_: &str,
    value: &str,
    reason: &str,
    message: String,
    renew: bool,
) {
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
        message: Some(message),
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
