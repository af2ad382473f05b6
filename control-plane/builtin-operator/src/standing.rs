//! How what has been installed stands: plain functions over its Deployment and its pods.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentCondition, DeploymentStatus};
use k8s_openapi::api::core::v1::{ContainerStateTerminated, ContainerStatus, Pod};
use kube::ResourceExt;

/// Waiting reasons of containers that are on their way; any other keeps a container from running.
const ON_THEIR_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Pods in trouble that one message names: more of them add nothing.
const PODS_NAMED_MAX: usize = 3;
/// Bytes of a container's termination message, from its end: programs print last why they end.
const LAST_WORDS_CHARS_MAX: usize = 500;

/// What is wrong with it; nothing if all is well.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// What keeps the extension from being installed as it is described. Once it has been, a crash is an illness.
    pub(crate) pending: Option<String>,
    /// What is broken.
    pub(crate) ill: Option<String>,
    /// What is still to be rolled out.
    pub(crate) rolling_out: Option<String>,
}

/// Evaluates a Deployment by the status of its newest generation, and by its pods. A pod that cannot start
/// is an illness also while older pods do the work: left alone, the change that made it never arrives.
pub(crate) fn standing(deployment: &Deployment, pods: &[Arc<Pod>]) -> Standing {
    let name = format!(
        "Deployment {}/{}",
        deployment.namespace().unwrap_or_default(),
        deployment.name_any()
    );
    let status = deployment.status.clone().unwrap_or_default();
    let wanted = deployment.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let available = is(&status, "Available", "True");
    let troubles = troubles(pods);
    let counted = format!(
        "{} of {wanted} pods are available",
        status.available_replicas.unwrap_or(0)
    );
    let refused = condition_message(&status, "ReplicaFailure", "True")
        .or_else(|| condition_message(&status, "Progressing", "False"));
    let ill: Vec<String> = (!available)
        .then(|| counted.clone())
        .into_iter()
        .chain(refused)
        .chain(troubles)
        .collect();
    let left = not_rolled_out(deployment, &status, wanted);
    let why = |first: &str| {
        let further = ill.iter().filter(|one| **one != first).cloned();
        let all: Vec<String> = std::iter::once(first.to_owned()).chain(further).collect();
        format!("{name}: {}", all.join("; "))
    };
    let complete = available || find(&status, "Progressing").is_some_and(is_complete);
    let left = left.or_else(|| (!complete).then_some(counted)).map(|first| why(&first));
    Standing {
        pending: left.as_ref().map(|left| format!("waiting for {left}")),
        rolling_out: left,
        ill: (!ill.is_empty()).then(|| format!("{name}: {}", ill.join("; "))),
    }
}

/// What of the newest generation does not run yet.
fn not_rolled_out(deployment: &Deployment, status: &DeploymentStatus, wanted: i32) -> Option<String> {
    let generation = deployment.metadata.generation.unwrap_or_default();
    if status.observed_generation.unwrap_or_default() < generation {
        return Some("its newest form has not been taken up yet".to_owned());
    }
    let updated = status.updated_replicas.unwrap_or(0);
    if updated < wanted {
        return Some(format!("{updated} of {wanted} pods are of its newest form"));
    }
    let old = status.replicas.unwrap_or(0) - updated;
    (old > 0).then(|| format!("{old} pods of an older form still run"))
}

fn find<'s>(status: &'s DeploymentStatus, type_: &str) -> Option<&'s DeploymentCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == type_)
}

fn is(status: &DeploymentStatus, type_: &str, value: &str) -> bool {
    find(status, type_).is_some_and(|condition| condition.status == value)
}

fn condition_message(status: &DeploymentStatus, type_: &str, value: &str) -> Option<String> {
    let condition = find(status, type_).filter(|condition| condition.status == value)?;
    condition.message.clone().or_else(|| condition.reason.clone())
}

/// Kubernetes' word for a rollout that has been completed; it stays while pods come and go later.
fn is_complete(condition: &DeploymentCondition) -> bool {
    condition.reason.as_deref() == Some("NewReplicaSetAvailable")
}

/// What prevents pods from running, as their node reports it; in the order of their names.
fn troubles(pods: &[Arc<Pod>]) -> Vec<String> {
    let mut found: Vec<(String, String)> = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .filter_map(|pod| Some((pod.name_any(), trouble(pod)?)))
        .collect();
    found.sort();
    let more = found.len().saturating_sub(PODS_NAMED_MAX);
    found
        .into_iter()
        .take(PODS_NAMED_MAX)
        .map(|(name, trouble)| format!("Pod {name}: {trouble}"))
        .chain((more > 0).then(|| format!("{more} more pods in trouble")))
        .collect()
}

fn trouble(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().flatten();
    let mut containers = containers.chain(status.container_statuses.iter().flatten());
    containers
        .find_map(held)
        .or_else(|| {
            let unscheduled = |condition: &&k8s_openapi::api::core::v1::PodCondition| {
                condition.type_ == "PodScheduled" && condition.status == "False"
            };
            let condition = status.conditions.iter().flatten().find(unscheduled)?;
            Some(words(condition.reason.as_deref(), condition.message.as_deref()))
        })
        .or_else(|| {
            (status.phase.as_deref() == Some("Failed"))
                .then(|| words(status.reason.as_deref().or(Some("Failed")), status.message.as_deref()))
        })
}

/// Why a container does not run, if something prevents it: its node's reason, and its own termination message.
fn held(container: &ContainerStatus) -> Option<String> {
    let state = container.state.as_ref()?;
    if let Some(ended) = state.terminated.as_ref().filter(|ended| ended.exit_code != 0) {
        return Some(last_words(ended));
    }
    let waiting = state.waiting.as_ref()?;
    let reason = waiting
        .reason
        .as_deref()
        .filter(|reason| !ON_THEIR_WAY.contains(reason))?;
    let retained = words(Some(reason), waiting.message.as_deref());
    let before = container.last_state.as_ref().and_then(|last| last.terminated.as_ref());
    Some(match before {
        Some(ended) => format!("{retained}; {}", last_words(ended)),
        None => retained,
    })
}

fn last_words(ended: &ContainerStateTerminated) -> String {
    let text = ended.message.as_deref().unwrap_or_default().trim();
    let left_out = text.chars().count().saturating_sub(LAST_WORDS_CHARS_MAX);
    let text: String = text.chars().skip(left_out).collect();
    let head = format!("ended with exit code {}", ended.exit_code);
    match (text.is_empty(), left_out) {
        (true, _) => head,
        (false, 0) => format!("{head}: {text}"),
        (false, _) => format!("{head}: ...{text}"),
    }
}

fn words(reason: Option<&str>, message: Option<&str>) -> String {
    let words: Vec<&str> = [reason, message]
        .into_iter()
        .flatten()
        .filter(|word| !word.is_empty())
        .collect();
    words.join(": ")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn deployment(status: Value) -> Deployment {
        serde_json::from_value(json!({"metadata": {"name": "d", "namespace": "n", "generation": 3},
            "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": status}))
        .unwrap()
    }

    fn available(is: &str, progressing: Value) -> Value {
        json!([{"type": "Available", "status": is}, progressing])
    }

    fn pod(name: &str, status: Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).unwrap())
    }

    fn rolled_out() -> Value {
        json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"})
    }

    fn waiting(reason: &str) -> Value {
        json!({"phase": "Pending", "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": "no i"}}}]})
    }

    #[test]
    fn all_is_well_when_the_newest_form_alone_runs() {
        let status = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
            "conditions": available("True", rolled_out())});
        let pods = [pod("a", waiting("ContainerCreating"))];
        assert_eq!(
            standing(&deployment(status), &pods),
            Standing::default(),
            "a pod on its way is no trouble"
        );
    }

    #[test]
    fn a_pod_that_cannot_start_is_an_illness_while_older_ones_work() {
        let status = json!({"observedGeneration": 3, "replicas": 3, "updatedReplicas": 1, "availableReplicas": 2,
            "conditions": available("True", json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"}))});
        let mut gone = Pod::clone(&pod("0", waiting("ImagePullBackOff")));
        gone.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        let found = standing(
            &deployment(status),
            &[Arc::new(gone), pod("a", waiting("ImageNotInCatalogue"))],
        );
        let trouble = "Pod a: ImageNotInCatalogue: no i";
        let left = "1 of 2 pods are of its newest form";
        assert_eq!(
            found,
            Standing {
                pending: Some(format!("waiting for Deployment n/d: {left}; {trouble}")),
                ill: Some(format!("Deployment n/d: {trouble}")),
                rolling_out: Some(format!("Deployment n/d: {left}; {trouble}")),
            }
        );
    }

    #[test]
    fn a_status_of_an_older_generation_is_ignored() {
        let status = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2,
            "conditions": available("True", rolled_out())});
        let found = standing(&deployment(status), &[]);
        let left = "Deployment n/d: its newest form has not been taken up yet";
        assert_eq!(
            (found.pending.unwrap(), found.rolling_out.unwrap()),
            (format!("waiting for {left}"), left.to_owned())
        );
        assert_eq!(found.ill, None, "what ran goes on");
    }

    #[test]
    fn what_crashes_after_its_rollout_is_ill_and_installed_all_the_same() {
        let status = json!({"observedGeneration": 3, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 1,
            "conditions": available("False", rolled_out())});
        let found = standing(&deployment(status), &[pod("a", waiting("CrashLoopBackOff"))]);
        assert_eq!(
            found.ill.as_deref(),
            Some("Deployment n/d: 1 of 2 pods are available; Pod a: CrashLoopBackOff: no i")
        );
        assert_eq!((found.rolling_out, found.pending), (None, None));
    }

    #[test]
    fn a_stuck_rollout_reports_the_reason_of_node_or_container() {
        let stuck = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"});
        let status = json!({"observedGeneration": 3, "conditions": available("False", stuck)});
        let unscheduled = json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node"}]});
        let pods: Vec<_> = ["e", "d", "c", "b"]
            .iter()
            .map(|name| pod(name, unscheduled.clone()))
            .collect();
        assert_eq!(
            standing(&deployment(status), &pods).ill.as_deref(),
            Some(
                "Deployment n/d: 0 of 2 pods are available; timed out; Pod b: Unschedulable: no node; \
                 Pod c: Unschedulable: no node; Pod d: Unschedulable: no node; 1 more pods in trouble"
            )
        );
    }

    #[test]
    fn the_termination_message_of_a_container_is_reported() {
        let text = |state: Value, last: Value| {
            pod(
                "a",
                json!({"phase": "Running", "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false,
                "restartCount": 2, "state": state, "lastState": last}]}),
            )
        };
        let ended = |message: &str| json!({"terminated": {"exitCode": 2, "message": message}});
        let backing_off = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}});
        let long = format!("{}end", "x".repeat(LAST_WORDS_CHARS_MAX));
        let cut = format!("ended with exit code 2: ...{}end", "x".repeat(LAST_WORDS_CHARS_MAX - 3));
        let cases = [
            (
                backing_off.clone(),
                ended("--to is required\n"),
                "CrashLoopBackOff: back-off 10s; ended with exit code 2: --to is required",
            ),
            (backing_off.clone(), json!({}), "CrashLoopBackOff: back-off 10s"),
            (
                backing_off,
                ended(""),
                "CrashLoopBackOff: back-off 10s; ended with exit code 2",
            ),
            (ended("no\n"), json!({}), "ended with exit code 2: no"),
            (ended(&long), json!({}), &cut),
        ];
        for (state, last, expected) in cases {
            assert_eq!(troubles(&[text(state, last)]), [format!("Pod a: {expected}")]);
        }
        let well = [
            text(json!({"running": {}}), ended("long ago")),
            text(json!({"terminated": {"exitCode": 0}}), json!({})),
        ];
        assert_eq!(troubles(&well), [""; 0], "what runs again is no trouble");
    }
}
