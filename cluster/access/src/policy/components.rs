//! The default roles of nodes, scheduler, controllers and certificate signing. Never binds them to a user or group.

use k8s_openapi::api::rbac::v1::{ClusterRole, PolicyRule};

use super::{RBAC_GROUP, READ, WRITE, events, named, paths, role, rule};
use crate::node;

pub(super) fn component_roles() -> Vec<ClusterRole> {
    vec![
        role("system:node", node_rules()),
        role(
            "system:node-bootstrapper",
            vec![rule(
                "create get list watch",
                "certificates.k8s.io",
                "certificatesigningrequests",
            )],
        ),
        role(
            "system:node-proxier",
            vec![
                rule("list watch", "", "services"),
                rule("get list watch", "", "nodes"),
                events(),
                rule("list watch", "discovery.k8s.io", "endpointslices"),
            ],
        ),
        role("system:kube-scheduler", scheduler_rules()),
        role("system:kube-controller-manager", controller_rules()),
        role(
            "system:volume-scheduler",
            vec![
                rule(
                    "get list patch update watch",
                    "",
                    "persistentvolumes persistentvolumeclaims",
                ),
                rule(READ, "storage.k8s.io", "storageclasses"),
            ],
        ),
    ]
}

/// The rules of all nodes, and written out those that [`node`] decides by the pods of a node.
fn node_rules() -> Vec<PolicyRule> {
    let mut rules = node::uniform();
    rules.extend([
        rule("create get list watch", "", "nodes"),
        rule("patch update", "", "nodes nodes/status"),
        rule("get list watch create delete", "", "pods"),
        rule("update patch", "", "pods/status"),
        rule("create", "", "pods/eviction"),
        rule(READ, "", "configmaps secrets"),
        // Beyond upstream: the in-process node watches where the kubelet polls, and marks simulated pods.
        rule(READ, "", "persistentvolumeclaims"),
        rule("patch", "", "pods"),
        rule("get patch update", "", "persistentvolumeclaims/status"),
        rule("create", "", "serviceaccounts/token"),
        rule("get", "", "serviceaccounts"),
        rule(&format!("get {WRITE}"), "coordination.k8s.io", "leases"),
        rule("get", "storage.k8s.io", "volumeattachments"),
        rule("get create delete patch update", "storage.k8s.io", "csinodes"),
    ]);
    rules
}

fn scheduler_rules() -> Vec<PolicyRule> {
    vec![
        events(),
        rule("create", "coordination.k8s.io", "leases"),
        named(
            rule("get update patch", "coordination.k8s.io", "leases"),
            "kube-scheduler",
        ),
        rule("get list watch", "coordination.k8s.io", "leases"),
        rule(
            READ,
            "",
            "nodes namespaces persistentvolumes persistentvolumeclaims services replicationcontrollers",
        ),
        rule("delete get list watch", "", "pods"),
        rule("create", "", "bindings pods/binding"),
        rule("patch update", "", "pods/status"),
        rule("patch update", "", "persistentvolumes persistentvolumeclaims"),
        rule(READ, "apps", "replicasets statefulsets"),
        rule(READ, "policy", "poddisruptionbudgets"),
        rule(
            READ,
            "storage.k8s.io",
            "csidrivers csinodes csistoragecapacities storageclasses volumeattachments",
        ),
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
    ]
}

/// `system:kube-controller-manager` with the roles of garbage collection, namespaces, workloads, endpoints, service
/// accounts, certificates, node life cycle, bootstrap tokens, volumes, root CA publishing and role aggregation.
fn controller_rules() -> Vec<PolicyRule> {
    let mut rules = vec![
        events(),
        // Garbage collection and namespace deletion act on every kind.
        rule("get list watch patch update delete deletecollection", "*", "*"),
        rule("update", "", "namespaces/finalize namespaces/status"),
        rule(
            "create",
            "",
            "endpoints configmaps namespaces persistentvolumes persistentvolumeclaims pods secrets serviceaccounts serviceaccounts/token pods/eviction pods/binding",
        ),
        rule("create", "apps", "controllerrevisions replicasets"),
        rule("create", "batch", "jobs"),
        rule("create", "discovery.k8s.io", "endpointslices"),
        rule("create", "coordination.k8s.io", "leases"),
        rule("create", "authentication.k8s.io", "tokenreviews"),
        rule("create", "authorization.k8s.io", "subjectaccessreviews"),
        rule("approve sign attest", "certificates.k8s.io", "signers"),
        rule(
            "update",
            "certificates.k8s.io",
            "certificatesigningrequests/approval certificatesigningrequests/status",
        ),
        // The aggregation controller writes rules it does not hold.
        rule("escalate get list patch update watch", RBAC_GROUP, "clusterroles"),
    ];
    rules.push(paths("get", "*"));
    rules
}

pub(super) fn certificate_roles() -> Vec<ClusterRole> {
    let auto = |name: &str, what: &str| {
        role(
            &format!("system:certificates.k8s.io:certificatesigningrequests:{name}"),
            vec![rule(
                "create",
                "certificates.k8s.io",
                &format!("certificatesigningrequests/{what}"),
            )],
        )
    };
    let approver = |short: &str, signer: &str| {
        role(
            &format!("system:certificates.k8s.io:{short}-approver"),
            vec![named(rule("approve", "certificates.k8s.io", "signers"), signer)],
        )
    };
    vec![
        auto("nodeclient", "nodeclient"),
        auto("selfnodeclient", "selfnodeclient"),
        approver("kube-apiserver-client", "kubernetes.io/kube-apiserver-client"),
        approver(
            "kube-apiserver-client-kubelet",
            "kubernetes.io/kube-apiserver-client-kubelet",
        ),
        approver("kubelet-serving", "kubernetes.io/kubelet-serving"),
        approver("legacy-unknown", "kubernetes.io/legacy-unknown"),
    ]
}
