//! What the strategies of Kubernetes' own kinds set beyond defaults: a Job's selector, how often a DaemonSet's template has
//! changed, the taint of a new node. Pure; kinds with more of their own (pods, Services, namespaces) have files of their own.
//! (kubernetes/kubernetes v1.35 pkg/registry/{batch/job,apps/daemonset}/strategy.go, plugin/pkg/admission/nodetaint)

use cluster_builtin::TEMPLATE_GENERATION;
use serde_json::{Map, Value, json};

use crate::kinds::kind::Call;
use crate::kinds::metadata;

/// Keeps pods from a node that has not been reported ready yet.
const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The label by which a Job knows its pods, and what it was called once.
const JOB_UID: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
/// The label with the Job's name, and what it was called once.
const JOB_NAME: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];
/// The finalizer that keeps a claim while pods use it.
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";

/// Sets what no client may choose.
pub(crate) fn prepare(group: &str, kind: &str, call: &Call<'_>, object: &mut Value, old: Option<&Value>) {
    match (group, kind, old) {
        ("batch", "Job", None) => select_by_uid(object),
        ("apps", "DaemonSet", _) if call.subresource.is_none() => count_templates(object, old),
        ("", "Node", None) => {
            map(object, &["status"]);
            taint(object);
        }
        ("", "PersistentVolumeClaim", None) => object["status"] = json!({"phase": "Pending"}),
        ("", "PersistentVolume", None) => {
            let now = metadata::timestamp(call.now);
            object["status"] = json!({"phase": "Pending", "lastPhaseTransitionTime": now});
        }
        _ => {}
    }
}

/// Whether a new object of the kind keeps the status it comes with: nodes alone, which describe themselves in it.
pub(crate) fn keeps_status(group: &str, plural: &str) -> bool {
    (group, plural) == ("", "nodes")
}

/// Whether a new object's metadata are validated only if nothing else is wrong: of all kinds, this one's own validation does
/// not include them (kubernetes/kubernetes v1.35 pkg/apis/policy/validation/validation.go, and after it
/// staging/src/k8s.io/apiserver/pkg/registry/rest/create.go).
pub(crate) fn validates_metadata_last(group: &str, kind: &str) -> bool {
    (group, kind) == ("policy", "PodDisruptionBudget")
}

/// Finalizers that a new object gets.
pub(crate) fn finalizers(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("", "PersistentVolumeClaim") => &[CLAIM_PROTECTION],
        _ => &[],
    }
}

/// Whether the pods of a deleted object stay unless the client requests otherwise, and the warning about it.
pub(crate) fn orphans(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        ("batch", "Job") => Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them \
             or set propagationPolicy=Orphan to suppress this warning",
        ),
        ("", "ReplicationController") => Some(""),
        _ => None,
    }
}

/// Whether something beyond the spec raises the generation.
pub(crate) fn changes_generation(group: &str, kind: &str, object: &Value, old: &Value) -> bool {
    fn of<'a>(object: &'a Value, field: &str) -> Option<&'a Value> {
        let found = object["metadata"].get(field);
        found.filter(|found| found.as_object().is_none_or(|found| !found.is_empty()))
    }
    let differ = |field| of(object, field) != of(old, field);
    match (group, kind) {
        ("apps", "Deployment") => differ("annotations"),
        ("discovery.k8s.io", "EndpointSlice") => differ("labels"),
        _ => false,
    }
}

fn map<'v>(object: &'v mut Value, path: &[&str]) -> Option<&'v mut Map<String, Value>> {
    let mut here = object;
    for name in path {
        here = here.as_object_mut()?.entry(*name).or_insert(Value::Null);
        if here.is_null() {
            *here = json!({});
        }
    }
    here.as_object_mut()
}

/// A Job's pods are recognised by its uid, unless its author has chosen a selector.
fn select_by_uid(job: &mut Value) {
    if job.pointer("/spec/manualSelector") == Some(&json!(true)) {
        return;
    }
    let (name, uid) = (
        metadata::text(job, "name").to_owned(),
        metadata::text(job, "uid").to_owned(),
    );
    // A Job without labels of its own has those of its template, before and after this.
    let shared = job.pointer("/metadata/labels").cloned().unwrap_or_default();
    let before = job
        .pointer("/spec/template/metadata/labels")
        .cloned()
        .unwrap_or_default();
    let Some(labels) = map(job, &["spec", "template", "metadata", "labels"]) else {
        return;
    };
    for (keys, value) in [(JOB_NAME, name), (JOB_UID, uid.clone())] {
        for key in keys {
            labels.entry(key).or_insert_with(|| value.clone().into());
        }
    }
    let labels = labels.clone();
    if shared == before
        && let Some(own) = map(job, &["metadata"])
    {
        own.insert("labels".to_owned(), Value::Object(labels));
    }
    if let Some(selector) = map(job, &["spec", "selector", "matchLabels"]) {
        selector.entry(JOB_UID[0]).or_insert_with(|| uid.into());
    }
}

fn count_templates(set: &mut Value, old: Option<&Value>) {
    let count = |set: &Value| -> i64 {
        let annotations = set.pointer("/metadata/annotations");
        let text = annotations.and_then(|annotations| annotations.get(TEMPLATE_GENERATION)?.as_str());
        text.and_then(|text| text.parse().ok()).unwrap_or_default()
    };
    let count = match old {
        None => count(set).max(1),
        Some(old) => count(old) + i64::from(set.pointer("/spec/template") != old.pointer("/spec/template")),
    };
    if let Some(annotations) = map(set, &["metadata", "annotations"]) {
        annotations.insert(TEMPLATE_GENERATION.to_owned(), count.to_string().into());
    }
}

fn taint(node: &mut Value) {
    let wanted = json!({"key": NOT_READY, "effect": "NoSchedule"});
    let Some(spec) = map(node, &["spec"]) else { return };
    let taints = spec.entry("taints").or_insert_with(|| json!([]));
    let Some(taints) = taints.as_array_mut() else { return };
    let same = |taint: &Value| taint.get("key") == wanted.get("key") && taint.get("effect") == wanted.get("effect");
    if !taints.iter().any(same) {
        taints.push(wanted);
    }
}
