//! Restricts nodes to writes of their own objects.
//! (kubernetes/kubernetes v1.35 plugin/pkg/admission/noderestriction)

use std::collections::BTreeSet;

use cluster_access::{node_name, node_of};
use serde_json::Value;

use crate::kinds::metadata;
use crate::state::context::Context;
use crate::wire::status::Status;

/// Labels of Kubernetes' own that a node may give itself, beside those of [`OWN_LABELS`]
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go).
const LABELS: [&str; 13] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.kubernetes.io/region",
    "failure-domain.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
];

/// Domains whose labels a node may give itself.
const OWN_LABELS: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];

/// The domain of labels that keep pods away from compromised nodes, so that no node may set them.
const RESTRICTED_LABELS: &str = "node-restriction.kubernetes.io";

/// Refuses writes of nodes to objects of others. `object` is absent when it is deleted or evicted, `old` when it is new.
pub(crate) fn restrict(context: &Context, object: Option<&Value>, old: Option<&Value>) -> Result<(), Status> {
    let Some(node) = node_name(&context.user) else {
        return Ok(());
    };
    let name = object.or(old).map_or("", |object| metadata::text(object, "name"));
    let refused = match (context.served.group(), context.served.plural()) {
        ("", "pods") => pod(node, context.subresource(), object, old),
        ("", "nodes") if name != node => Some(format!("node {node:?} is not allowed to modify node {name:?}")),
        ("", "nodes") => object.and_then(|object| own_node(node, object, old)),
        ("coordination.k8s.io", "leases") if context.namespace() != Some("kube-node-lease") || name != node => {
            Some("can only access node lease with the same name as the requesting node".to_owned())
        }
        ("storage.k8s.io", "csinodes") if name != node => {
            Some("can only access CSINode with the same name as the requesting node".to_owned())
        }
        _ => None,
    };
    match refused {
        Some(why) => Err(Status::forbidden(
            context.served.group(),
            context.served.plural(),
            name,
            &why,
        )),
        None => Ok(()),
    }
}

fn pod(node: &str, subresource: Option<&str>, object: Option<&Value>, old: Option<&Value>) -> Option<String> {
    let Some(old) = old else {
        return Some(format!("node {node:?} cannot create pods"));
    };
    if node_of(old) != node {
        return Some(format!(
            "node {node:?} can only write pods with spec.nodeName set to itself"
        ));
    }
    match (subresource, object) {
        (None, Some(object)) if without_mutable_metadata(object) != without_mutable_metadata(old) => Some(format!(
            "node {node:?} can only change the annotations and the status of its pods"
        )),
        (None | Some("status" | "eviction"), _) => None,
        (Some(other), _) => Some(format!(
            "unexpected pod subresource {other:?}, only 'status' and 'eviction' are allowed"
        )),
    }
}

/// The object without what a node may change of its pods, and what changes with every write.
fn without_mutable_metadata(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    if let Some(metadata) = metadata {
        for field in ["annotations", "managedFields", "resourceVersion", "generation"] {
            metadata.remove(field);
        }
    }
    object
}

/// Unlike upstream, a new Node may have any labels: here only the kubelet sets those of its pool, there another controller
/// does.
fn own_node(node: &str, object: &Value, old: Option<&Value>) -> Option<String> {
    let old = old?;
    let taints = |object: &Value| {
        let taints = object.pointer("/spec/taints").and_then(Value::as_array);
        taints.cloned().unwrap_or_default()
    };
    if taints(old) != taints(object) {
        return Some(format!("node {node:?} is not allowed to modify taints"));
    }
    let labels = |object: &Value| {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        labels.cloned().unwrap_or_default()
    };
    let (now, before) = (labels(object), labels(old));
    let keys: BTreeSet<String> = now.keys().chain(before.keys()).cloned().collect();
    let changed = keys.into_iter().filter(|key| now.get(key) != before.get(key));
    let refused: Vec<String> = changed.filter(|key| is_restricted(key)).collect();
    (!refused.is_empty()).then(|| {
        format!(
            "node {node:?} is not allowed to set the following labels: {}",
            refused.join(", ")
        )
    })
}

fn is_restricted(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    let within = |parent: &str| {
        domain
            .strip_suffix(parent)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let of_kubernetes = within("kubernetes.io") || within("k8s.io");
    let own = LABELS.contains(&label) || OWN_LABELS.iter().any(|domain| within(domain));
    within(RESTRICTED_LABELS) || (of_kubernetes && !own)
}

/// Refuses a token for a node that is not bound to one of its pods.
pub(crate) fn restrict_token(context: &Context, bound: &Value, pod: Option<&Value>) -> Result<(), Status> {
    let Some(node) = node_name(&context.user) else {
        return Ok(());
    };
    let text = |field: &str| bound.get(field).and_then(Value::as_str).unwrap_or_default();
    let why = match pod {
        None => "node requested token not bound to a pod",
        Some(_) if text("uid").is_empty() => "node requested token with a pod binding without a uid",
        Some(pod) if node_of(pod) != node => "node requested token bound to a pod scheduled on a different node",
        Some(_) => return Ok(()),
    };
    Err(Status::forbidden("", "serviceaccounts", context.name(), why))
}
