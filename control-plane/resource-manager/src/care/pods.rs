//! What the pods of a workload wait for. Pure.

use std::collections::BTreeSet;
use std::sync::Arc;

use api_resources::ObjectReference;
use base_controller::ObjectKey;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Kind and key of what pods come from.
pub(super) type Workload = (&'static str, ObjectKey);

/// Different reasons reported for one workload: the first few show the cause, and a condition is no log.
const REASONS_MAX: usize = 3;
/// Reasons of containers that are on their way.
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// The workload that a pod belongs to, by its controlling owner. A Deployment's name is that of its ReplicaSet without
/// the hash of the template.
pub(super) fn workload_of(pod: &Pod) -> Option<Workload> {
    let owners = pod.metadata.owner_references.iter().flatten();
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    let (kind, name) = match owner.kind.as_str() {
        "ReplicaSet" => ("Deployment", owner.name.rsplit_once('-')?.0),
        "StatefulSet" => ("StatefulSet", owner.name.as_str()),
        "DaemonSet" => ("DaemonSet", owner.name.as_str()),
        "Job" => ("Job", owner.name.as_str()),
        _ => return None,
    };
    let key = ObjectKey {
        namespace: pod.metadata.namespace.clone(),
        name: name.to_owned(),
    };
    Some((kind, key))
}

/// What the pods of the workload, or the pod itself, wait for; none if they wait for nothing that has a name.
pub(super) fn waiting(pods: &[Arc<Pod>], workload: &ObjectReference) -> Option<String> {
    let is_its_own = |pod: &Pod| match workload.kind.as_deref() {
        Some("Pod") => pod.metadata.name == workload.name,
        kind => workload_of(pod).is_some_and(|(of, key)| Some(of) == kind && Some(&key.name) == workload.name.as_ref()),
    };
    let own = pods
        .iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none() && is_its_own(pod));
    // Replicas wait for the same: reported once.
    let mut seen = BTreeSet::new();
    let reasons: Vec<String> = own
        .flat_map(|pod| {
            reasons(pod)
                .into_iter()
                .map(|reason| (reason, pod.metadata.name.clone().unwrap_or_default()))
        })
        .filter(|(reason, _)| seen.insert(reason.clone()))
        .map(|(reason, pod)| format!("pod \"{pod}\": {reason}"))
        .take(REASONS_MAX)
        .collect();
    (!reasons.is_empty()).then(|| reasons.join("; "))
}

fn reasons(pod: &Pod) -> Vec<String> {
    let Some(status) = &pod.status else { return Vec::new() };
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .filter(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    let unscheduled = unscheduled.map(|condition| {
        let text = |field: &Option<String>| field.clone().unwrap_or_default();
        format!("{}: {}", text(&condition.reason), text(&condition.message))
    });
    let containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    unscheduled
        .chain(containers.filter_map(|container| container_waits(pod, container)))
        .collect()
}

fn container_waits(pod: &Pod, container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| !STARTING.contains(reason))?;
    let spec = pod.spec.as_ref()?;
    let mut wanted = spec.init_containers.iter().flatten().chain(&spec.containers);
    let image = wanted
        .find(|wanted| wanted.name == container.name)
        .and_then(|wanted| wanted.image.as_deref());
    let message = waiting
        .message
        .as_deref()
        .map(|message| format!(": {message}"))
        .unwrap_or_default();
    Some(format!(
        "container \"{}\" with image \"{}\" waits: {reason}{message}",
        container.name,
        image.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, owner: &str, reason: &str) -> Arc<Pod> {
        let waiting = json!({"waiting": {"reason": reason, "message": "no such image"}});
        Arc::new(serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "n", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": "u", "controller": true}]},
            "spec": {"containers": [{"name": "c", "image": "r.example/x:1"}]},
            "status": {"containerStatuses": [{"name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": waiting}]},
        })).unwrap())
    }

    #[test]
    fn replicas_with_the_same_reason_are_reported_once_with_their_image() {
        let pods = [
            pod("d-1-a", "d-1", "ImagePullBackOff"),
            pod("d-1-b", "d-1", "ImagePullBackOff"),
            pod("d-1-c", "d-1", "ContainerCreating"),
            pod("other-1-a", "other-1", "CrashLoopBackOff"),
        ];
        let workload = |kind: &str, name: &str| ObjectReference {
            kind: Some(kind.into()),
            name: Some(name.into()),
            ..ObjectReference::default()
        };
        assert_eq!(
            waiting(&pods, &workload("Deployment", "d")).unwrap(),
            "pod \"d-1-a\": container \"c\" with image \"r.example/x:1\" waits: ImagePullBackOff: no such image"
        );
        assert_eq!(waiting(&pods, &workload("StatefulSet", "d")), None);
        assert!(
            waiting(&pods, &workload("Pod", "other-1-a"))
                .unwrap()
                .contains("CrashLoopBackOff")
        );
    }
}
