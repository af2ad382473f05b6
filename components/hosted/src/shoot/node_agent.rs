//! How nodes get in: rights of bootstrap tokens, and one Secret per worker pool with what its nodes are to be. Rules as
//! gardener/gardener v1.150 `pkg/component/extensions/operatingsystemconfig/original/.../gardener-node-agent`.

use serde_json::json;

use super::Object;

/// Where a node finds the node agent's configuration.
pub const NODE_AGENT_CONFIG_PATH: &str = "/var/lib/gardener-node-agent/config.yaml";
/// Where a node finds its bootstrap token.
pub const NODE_AGENT_TOKEN_PATH: &str = "/var/lib/gardener-node-agent/credentials/bootstrap-token";

const GROUP: &str = "rbac.authorization.k8s.io";
const NAME: &str = "gardener-node-agent";

/// What the node agents of one worker pool are to apply.
#[derive(Clone, Debug)]
pub struct NodeAgentPool {
    /// The pool's name.
    pub pool: String,
    /// Name of its Secret: `gardener-node-agent-<pool>-<hash>`.
    pub secret_name: String,
    /// The OperatingSystemConfig, as text that reads as YAML.
    pub operating_system_config: String,
    /// Checksum of that text.
    pub checksum: String,
    /// Kubernetes version of the pool.
    pub kubernetes_version: String,
}

/// The pool's Secret.
#[must_use]
pub fn node_agent_secret(pool: &NodeAgentPool) -> Object {
    let NodeAgentPool {
        pool,
        secret_name,
        operating_system_config,
        checksum,
        kubernetes_version,
    } = pool;
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": secret_name,
            "namespace": "kube-system",
            "labels": {
                "gardener.cloud/role": "operating-system-config",
                "worker.gardener.cloud/pool": pool,
                "worker.gardener.cloud/kubernetes-version": kubernetes_version,
            },
            "annotations": {"checksum/data-script": checksum},
        },
        "type": "Opaque",
        "stringData": {"osc.yaml": operating_system_config},
    })
}

/// The rights of nodes that join and have joined, and the Secrets of all pools.
#[must_use]
pub fn node_agent_objects(pools: &[NodeAgentPool]) -> Vec<Object> {
    let names: Vec<&str> = pools.iter().map(|pool| pool.secret_name.as_str()).collect();
    let mut objects = vec![
        group_binding(
            "system:node-bootstrapper",
            "system:node-bootstrapper",
            &["system:bootstrappers"],
        ),
        group_binding(
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            "system:certificates.k8s.io:certificatesigningrequests:nodeclient",
            &["system:bootstrappers"],
        ),
        group_binding(
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            "system:certificates.k8s.io:certificatesigningrequests:selfnodeclient",
            &["system:nodes"],
        ),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": "kube-system"},
            "rules": [
                // An empty list of names would mean all Secrets.
                {"apiGroups": [""], "resources": ["secrets"], "resourceNames": names_or_none(&names), "verbs": ["get", "list", "watch"]},
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]},
            ],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME, "namespace": "kube-system"},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": NAME},
            "subjects": groups(&["system:bootstrappers", "system:nodes"]),
        }),
    ];
    objects.extend(pools.iter().map(node_agent_secret));
    objects
}

fn names_or_none<'a>(names: &'a [&'a str]) -> Vec<&'a str> {
    if names.is_empty() { vec![NAME] } else { names.to_vec() }
}

fn groups(names: &[&str]) -> Vec<serde_json::Value> {
    names
        .iter()
        .map(|name| json!({"apiGroup": GROUP, "kind": "Group", "name": name}))
        .collect()
}

fn group_binding(name: &str, role: &str, members: &[&str]) -> Object {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": groups(members),
    })
}
