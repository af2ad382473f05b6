//! Fields that Go writes although they are empty: its types have no way to leave them out. Clients that read JSON without
//! such types find them in every answer of kube-apiserver.

use serde_json::{Value, json};

use super::{child, elements_mut};

/// Counters of a status that are always there.
fn counters(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("apps", "StatefulSet") => &["replicas", "availableReplicas"],
        ("apps", "DaemonSet") => &[
            "currentNumberScheduled",
            "desiredNumberScheduled",
            "numberMisscheduled",
            "numberReady",
        ],
        ("apps", "ReplicaSet") | ("", "ReplicationController") => &["replicas"],
        ("policy", "PodDisruptionBudget") => {
            &["currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods"]
        }
        ("autoscaling", "HorizontalPodAutoscaler") => &["desiredReplicas"],
        _ => &[],
    }
}

/// Times of a condition that are always there, as null when nobody has set them.
fn times(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "Pod" | "PersistentVolumeClaim") | ("batch", "Job") => &["lastProbeTime", "lastTransitionTime"],
        ("", "Node") => &["lastHeartbeatTime", "lastTransitionTime"],
        ("apps", "Deployment") => &["lastUpdateTime", "lastTransitionTime"],
        ("", "Namespace" | "ReplicationController")
        | ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet")
        | ("autoscaling", "HorizontalPodAutoscaler") => &["lastTransitionTime"],
        _ => &[],
    }
}

/// What the software of a node is called; all texts.
const NODE_INFO: [&str; 10] = [
    "architecture",
    "bootID",
    "containerRuntimeVersion",
    "kernelVersion",
    "kubeProxyVersion",
    "kubeletVersion",
    "machineID",
    "operatingSystem",
    "osImage",
    "systemUUID",
];

/// Writes what is missing of a spec. Nobody owns it.
pub fn fill_spec_zeros(group: &str, kind: &str, object: &mut Value) {
    if let ("batch", "CronJob", Some(job)) = (group, kind, object.pointer_mut("/spec/jobTemplate")) {
        child(job, "metadata");
        if let Some(template) = job.pointer_mut("/spec/template") {
            child(template, "metadata");
        }
    }
    if let ("apps", "StatefulSet", Some(spec)) = (group, kind, object.get_mut("spec")) {
        put(spec, "serviceName", "".into());
    }
}

/// Writes what is missing of a status. One that is not there stays away.
pub fn fill_status_zeros(group: &str, kind: &str, object: &mut Value) {
    let Some(status) = object.get_mut("status").filter(|status| status.is_object()) else {
        return;
    };
    for name in counters(group, kind) {
        put(status, name, 0.into());
    }
    let times = times(group, kind);
    if !times.is_empty() {
        for condition in elements_mut(status, "conditions") {
            times.iter().for_each(|name| put(condition, name, Value::Null));
        }
    }
    match (group, kind) {
        ("", "Service") | ("networking.k8s.io", "Ingress") => put(status, "loadBalancer", json!({})),
        ("", "Node") => {
            put(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 0}}));
            if let Some(info) = child(status, "nodeInfo") {
                NODE_INFO.iter().for_each(|name| put(info, name, "".into()));
            }
        }
        _ => {}
    }
}

fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(map) = object.as_object_mut().filter(|map| !map.contains_key(name)) {
        map.insert(name.to_owned(), value);
    }
}
