//! Namespaces, roles and information that every shoot has.

use serde_json::json;

use super::{Object, network_policies};

/// What the system objects contain about the shoot.
#[derive(Clone, Debug)]
pub struct SystemSettings {
    /// Name of the Shoot.
    pub shoot_name: String,
    /// Name of its project.
    pub project_name: String,
    /// Its Kubernetes version.
    pub kubernetes_version: String,
    /// Provider type.
    pub provider: String,
    /// Region.
    pub region: String,
    /// Domain, if it has one.
    pub domain: Option<String>,
    /// Networks of pods; none without workers.
    pub pod_networks: Vec<String>,
    /// Networks of services.
    pub service_networks: Vec<String>,
    /// Networks of nodes.
    pub node_networks: Vec<String>,
    /// When maintenance may begin, `HHMMSS+ZZZZ`.
    pub maintenance_begin: String,
    /// When it must end.
    pub maintenance_end: String,
}

const GROUP: &str = "rbac.authorization.k8s.io";

fn cluster_role_binding(name: &str, role: &str, kind: &str, subject: &str) -> Object {
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": kind, "name": subject}],
    })
}

/// What gardenlet and gardener-resource-manager may do in the shoot. Applied once, by a short-lived identity that may
/// give these rights away; everything later is done by these two.
#[must_use]
pub fn access_bindings() -> Vec<Object> {
    vec![
        cluster_role_binding(
            "gardener.cloud:system:gardenlet",
            "cluster-admin",
            "User",
            api_meta::names::GARDENLET_SHOOT_USER,
        ),
        cluster_role_binding(
            "gardener.cloud:system:gardener-resource-manager",
            "cluster-admin",
            "User",
            api_meta::names::RESOURCE_MANAGER_SHOOT_USER,
        ),
    ]
}

/// What those may do in the shoot who use the Secrets `gardener` and `gardener-internal` of its namespace: gardener
/// itself and the extensions (gardener/gardener v1.150 `pkg/component/gardener/access`).
#[must_use]
pub fn gardener_access_objects(service_accounts: &[&str]) -> Vec<Object> {
    let subject = |name: &&str| json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"});
    vec![json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "gardener.cloud:system:gardener"},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": service_accounts.iter().map(subject).collect::<Vec<_>>(),
    })]
}

/// The namespace that system components live in.
#[must_use]
pub fn namespace_objects() -> Vec<Object> {
    vec![json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {
            "name": "kube-system",
            // No cluster lets its own namespaces go: this one ends with the cluster.
            "annotations": {"resources.gardener.cloud/keep-object": "true"},
            "labels": {
                "gardener.cloud/purpose": "kube-system",
                "role": "kube-system",
                "shoot.gardener.cloud/no-cleanup": "true",
            },
        },
    })]
}

/// Roles of the shoot's people, priorities, network policies of its `kube-system`, and the ConfigMap with facts about
/// the shoot.
#[must_use]
pub fn system_objects(settings: &SystemSettings) -> Vec<Object> {
    let mut objects = vec![
        cluster_role_binding(
            "gardener.cloud:system:admins",
            "cluster-admin",
            "Group",
            api_meta::names::SHOOT_ADMINS_GROUP,
        ),
        viewers_role(),
        cluster_role_binding(
            "gardener.cloud:system:viewers",
            "gardener.cloud:system:viewers",
            "Group",
            api_meta::names::SHOOT_VIEWERS_GROUP,
        ),
        // kube-apiserver as a client of kubelets: logs, commands, forwarded ports. The role is one of Kubernetes' own.
        cluster_role_binding(
            "system:apiserver:kubelet",
            "system:kubelet-api-admin",
            "User",
            crate::api_server::KUBELET_USER,
        ),
        shoot_info(settings),
    ];
    objects.extend(network_policies::policies(!settings.pod_networks.is_empty()));
    for (value, description) in [(900, "highest"), (800, "higher"), (700, "high"), (600, "medium")] {
        objects.push(json!({
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": format!("gardener-shoot-system-{value}")},
            "value": 999_999_000 + value,
            "globalDefault": false,
            "description": format!("PriorityClass for Shoot system components, {description}"),
        }));
    }
    objects
}

fn viewers_role() -> Object {
    let read = ["get", "list", "watch"];
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "gardener.cloud:system:viewers"},
        // All that can be read without learning a secret.
        "rules": [
            {
                "apiGroups": [""],
                "resources": [
                    "bindings", "componentstatuses", "configmaps", "endpoints", "events", "limitranges", "namespaces",
                    "nodes", "persistentvolumeclaims", "persistentvolumes", "pods", "pods/log", "pods/status",
                    "podtemplates", "replicationcontrollers", "resourcequotas", "serviceaccounts", "services",
                ],
                "verbs": read,
            },
            {
                "apiGroups": [
                    "admissionregistration.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "apps",
                    "autoscaling", "batch", "certificates.k8s.io", "coordination.k8s.io", "discovery.k8s.io",
                    "events.k8s.io", "flowcontrol.apiserver.k8s.io", "networking.k8s.io", "node.k8s.io", "policy",
                    "rbac.authorization.k8s.io", "scheduling.k8s.io", "storage.k8s.io",
                ],
                "resources": ["*"],
                "verbs": read,
            },
            {"nonResourceURLs": ["*"], "verbs": ["get"]},
        ],
    })
}

fn shoot_info(settings: &SystemSettings) -> Object {
    let SystemSettings {
        shoot_name,
        project_name,
        kubernetes_version,
        provider,
        region,
        domain,
        pod_networks,
        service_networks,
        node_networks,
        maintenance_begin,
        maintenance_end,
    } = settings;
    let mut data = json!({
        "extensions": "",
        "projectName": project_name,
        "shootName": shoot_name,
        "provider": provider,
        "region": region,
        "kubernetesVersion": kubernetes_version,
        "maintenanceBegin": maintenance_begin,
        "maintenanceEnd": maintenance_end,
    });
    let optional = [
        ("domain", domain.clone().unwrap_or_default()),
        ("podNetwork", pod_networks.first().cloned().unwrap_or_default()),
        ("podNetworks", pod_networks.join(",")),
        ("serviceNetwork", service_networks.first().cloned().unwrap_or_default()),
        ("serviceNetworks", service_networks.join(",")),
        ("nodeNetwork", node_networks.first().cloned().unwrap_or_default()),
        ("nodeNetworks", node_networks.join(",")),
    ];
    for (key, value) in optional {
        if !value.is_empty() {
            data[key] = value.into();
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "shoot-info", "namespace": "kube-system"},
        "data": data,
    })
}

/// The shoot's identity, for programs that run in it.
#[must_use]
pub fn cluster_identity_objects(identity: &str) -> Vec<Object> {
    vec![json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": api_meta::names::CLUSTER_IDENTITY, "namespace": "kube-system"},
        "immutable": true,
        "data": {"cluster-identity": identity, "origin": "shoot"},
    })]
}

/// What the machine controllers may do in the shoot: drain and delete nodes, hand out bootstrap tokens. Rules as
/// gardener/gardener v1.150 `pkg/component/nodemanagement/machinecontrollermanager`.
#[must_use]
pub fn machine_controller_access_objects(user: &str) -> Vec<Object> {
    const NAME: &str = "gardener.cloud:target:machine-controller-manager";
    let everything = [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ];
    vec![
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": [
                        "nodes", "nodes/status", "endpoints", "replicationcontrollers", "pods", "persistentvolumes",
                        "persistentvolumeclaims",
                    ],
                    "verbs": everything,
                },
                {"apiGroups": [""], "resources": ["pods/eviction"], "verbs": ["create"]},
                {"apiGroups": ["apps"], "resources": ["replicasets", "statefulsets", "daemonsets", "deployments"], "verbs": everything},
                {"apiGroups": ["policy"], "resources": ["poddisruptionbudgets"], "verbs": ["list", "watch"]},
                {"apiGroups": ["storage.k8s.io"], "resources": ["volumeattachments"], "verbs": ["delete", "get", "list", "watch"]},
                {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": everything},
            ],
        }),
        cluster_role_binding(NAME, NAME, "User", user),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": NAME, "namespace": "kube-system"},
            "rules": [{
                "apiGroups": [""],
                "resources": ["secrets"],
                "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
            }],
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": NAME, "namespace": "kube-system"},
            "roleRef": {"apiGroup": GROUP, "kind": "Role", "name": NAME},
            "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
        }),
    ]
}
