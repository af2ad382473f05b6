//! As whom hosted components run: what Pod Security's level `restricted` demands of every pod and container
//! (kubernetes/pod-security-admission v0.35 policy/check_*.go), and the user that the pods share.

use serde_json::{Value, json};

/// User and group of all hosted components: `nonroot` of the images that Kubernetes and etcd are released in.
const USER: u32 = 65_532;

/// The security context of a pod. Volumes belong to the pod's group, so that Secrets with mode 0640 can be read and claims
/// can be written.
pub(crate) fn pod() -> Value {
    json!({
        "runAsNonRoot": true,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "fsGroupChangePolicy": "OnRootMismatch",
        "seccompProfile": {"type": "RuntimeDefault"},
    })
}

/// The same of a pod that listens on a port below 1024: without capabilities, the pod's network must allow that to all users.
pub(crate) fn pod_with_low_ports() -> Value {
    let mut context = pod();
    context["sysctls"] = json!([{"name": "net.ipv4.ip_unprivileged_port_start", "value": "0"}]);
    context
}

/// The security context of a container.
pub(crate) fn container() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}})
}

/// The same of kube-apiserver: the program's file carries the capability `cap_net_bind_service` in its released images
/// (kubernetes/kubernetes v1.35 build/server-image/kube-apiserver/Dockerfile), and Linux starts no such file where the
/// capability is beyond reach. `restricted` accepts this one.
pub(crate) fn container_with_low_ports() -> Value {
    json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}})
}
