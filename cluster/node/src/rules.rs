//! What a node must be allowed to do. Data alone: who binds it to whom is the cluster's business.

use k8s_openapi::api::rbac::v1::PolicyRule;

/// The rules of a role for nodes: those of Kubernetes' `system:node` (kubernetes/kubernetes v1.35
/// plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go) as far as this node uses them, and reading EndpointSlices,
/// which stands in for kube-proxy's role.
pub fn node_rules() -> Vec<PolicyRule> {
    [
        (&["nodes"][..], &["create", "get", "list", "watch", "patch", "update"][..], ""),
        (&["nodes/status", "pods/status"], &["patch", "update"], ""),
        (&["pods"], &["get", "list", "watch", "patch", "delete"], ""),
        (&["events"], &["create", "patch", "update"], ""),
        (&["secrets", "configmaps", "services"], &["get", "list", "watch"], ""),
        (&["persistentvolumeclaims", "persistentvolumes"], &["get", "list", "watch"], ""),
        (&["serviceaccounts/token"], &["create"], ""),
        (&["leases"], &["create", "get", "patch", "update"], "coordination.k8s.io"),
        (&["endpointslices"], &["get", "list", "watch"], "discovery.k8s.io"),
    ]
    .into_iter()
    .map(|(resources, verbs, group)| PolicyRule {
        api_groups: Some(vec![group.to_owned()]),
        resources: Some(resources.iter().map(|name| (*name).to_owned()).collect()),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..PolicyRule::default()
    })
    .collect()
}
