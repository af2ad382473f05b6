//! What the server itself sets in a pod, and how long one has to end. Pure; running pods is the node's work.

use serde_json::{Value, json};

/// The grace period of a pod that has none of its own.
const GRACE_DEFAULT_SECONDS: i64 = 30;

/// Seconds between the request to delete a pod and its forced end: none when no node holds it or it has ended
/// (kubernetes/kubernetes v1.35 pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
pub(crate) fn grace_seconds(pod: &Value, requested: Option<i64>) -> i64 {
    let node = pod
        .pointer("/spec/nodeName")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let phase = pod.pointer("/status/phase").and_then(Value::as_str).unwrap_or_default();
    if node.is_empty() || matches!(phase, "Failed" | "Succeeded") {
        return 0;
    }
    let own = pod
        .pointer("/spec/terminationGracePeriodSeconds")
        .and_then(Value::as_i64);
    // A negative period is one second (pkg/registry/core/pod/strategy.go, CheckGracefulDelete).
    match requested.or(own).unwrap_or(GRACE_DEFAULT_SECONDS) {
        ..0 => 1,
        seconds => seconds,
    }
}

/// A new pod is pending.
pub(crate) fn prepare(pod: &mut Value, old: Option<&Value>) {
    if old.is_some() {
        return;
    }
    if let Some(fields) = pod.as_object_mut() {
        let class = cluster_builtin::qos_class(fields.get("spec").unwrap_or(&Value::Null));
        fields.insert("status".to_owned(), json!({"phase": "Pending", "qosClass": class}));
    }
}
