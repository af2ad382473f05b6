//! A shoot's gardener-resource-manager: reads ManagedResources of the shoot's namespace with its service account in the
//! seed, applies them to the shoot with its kubeconfig, and fills the namespace's Secrets of class `shoot` with tokens of
//! the shoot. It may do nothing else in the seed.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::json;

use crate::KUBECONFIG_PATH;
use crate::api_server::{self, API_SERVER};
use crate::mount::{Mounted, Mounts};
use crate::object::{Labels, to_service, typed};

/// Name of all its objects.
pub const RESOURCE_MANAGER: &str = "gardener-resource-manager";
const HEALTH_PORT: u16 = 8081;
const LABELS: Labels = Labels {
    app: RESOURCE_MANAGER,
    role: None,
    name: RESOURCE_MANAGER,
};

/// Settings of gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig for the shoot.
    pub kubeconfig: Mounted,
}

/// Everything that makes up gardener-resource-manager.
#[derive(Clone, Debug)]
pub struct ResourceManagerObjects {
    /// Who it is in the seed.
    pub service_account: ServiceAccount,
    /// What it may do there.
    pub role: Role,
    /// Gives it the role.
    pub role_binding: RoleBinding,
    /// The program.
    pub deployment: Deployment,
}

/// Builds gardener-resource-manager.
#[must_use]
pub fn resource_manager(settings: &ResourceManagerSettings) -> ResourceManagerObjects {
    let namespace = &settings.namespace;
    let metadata = json!({"name": RESOURCE_MANAGER, "namespace": namespace, "labels": LABELS.all()});
    ResourceManagerObjects {
        service_account: typed(json!({"metadata": metadata, "automountServiceAccountToken": false})),
        role: typed(json!({
            "metadata": metadata,
            "rules": [
                {
                    "apiGroups": ["resources.gardener.cloud"],
                    "resources": ["managedresources", "managedresources/status"],
                    "verbs": ["get", "list", "watch", "update", "patch"],
                },
                {
                    "apiGroups": [""],
                    "resources": ["secrets"],
                    "verbs": ["get", "list", "watch", "update", "patch"],
                },
                {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "get", "watch", "patch"]},
                {"apiGroups": ["events.k8s.io"], "resources": ["events"], "verbs": ["create", "patch"]},
                {
                    "apiGroups": ["coordination.k8s.io"],
                    "resources": ["leases"],
                    "verbs": ["create", "get", "list", "watch", "update", "patch"],
                },
            ],
        })),
        role_binding: typed(json!({
            "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": RESOURCE_MANAGER},
            "subjects": [{"kind": "ServiceAccount", "name": RESOURCE_MANAGER, "namespace": namespace}],
        })),
        deployment: deployment(settings),
    }
}

fn deployment(settings: &ResourceManagerSettings) -> Deployment {
    let ResourceManagerSettings {
        namespace,
        image,
        replicas,
        kubeconfig,
    } = settings;
    let mounts = Mounts(vec![(
        "kubeconfig",
        kubeconfig,
        "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig",
    )]);
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_RUNTIME_API_SERVER,
        &to_service(API_SERVER, api_server::PORT),
    ]);
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"}, "periodSeconds": 10});
    typed(json!({
        "metadata": {"name": RESOURCE_MANAGER, "namespace": namespace, "labels": LABELS.all()},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "serviceAccountName": RESOURCE_MANAGER,
                    "automountServiceAccountToken": true,
                    "priorityClassName": "gardener-system-400",
                    "containers": [{
                        "name": RESOURCE_MANAGER,
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": [
                            format!("--source-namespace={namespace}"),
                            format!("--target-kubeconfig={KUBECONFIG_PATH}"),
                            "--resource-class=",
                            "--token-requestor-class=shoot",
                            "--leader-elect=true",
                            format!("--health-port={HEALTH_PORT}"),
                        ],
                        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
                        "livenessProbe": probe("/healthz"),
                        "readinessProbe": probe("/readyz"),
                        "resources": {"requests": {"cpu": "23m", "memory": "47Mi"}},
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    }))
}
