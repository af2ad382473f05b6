//! A shoot's gardener-resource-manager: reads ManagedResources of the shoot's namespace with its service account in the
//! seed, applies them to the shoot with its kubeconfig, and fills the namespace's Secrets of class `shoot` with tokens of
//! the shoot. It may do nothing else in the seed.

use api_meta::labels::network;
use api_meta::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::json;

use crate::api_server::{self, API_SERVER};
use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, ShootClient, Titles, titles};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, to_service, typed};
use crate::{KUBECONFIG_FOLDER, KUBECONFIG_PATH, security};

/// Name of all its objects.
pub const RESOURCE_MANAGER: &str = "gardener-resource-manager";
const HEALTH_PORT: u16 = 8081;
const LABELS: Labels = Labels {
    app: RESOURCE_MANAGER,
    role: None,
    name: RESOURCE_MANAGER,
};

/// Applies what belongs into the shoot.
pub(crate) struct ResourceManager;

impl Component for ResourceManager {
    fn name(&self) -> &'static str {
        RESOURCE_MANAGER
    }

    fn titles(&self) -> Titles {
        titles!("gardener-resource-manager", "gardener-resource-manager")
    }

    fn image(&self) -> Image {
        Image::Own(RESOURCE_MANAGER)
    }

    fn place(&self) -> Place {
        Place::ResourceManager
    }

    fn client(&self) -> Option<ShootClient> {
        Some(ShootClient {
            user: names::RESOURCE_MANAGER_SHOOT_USER,
            secret: "gardener-resource-manager-client",
        })
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        let namespace = &cluster.namespace;
        Ok(vec![
            LABELS.service_account(namespace).into(),
            role(namespace).into(),
            LABELS.role_binding(namespace).into(),
            LABELS.disruption_budget(namespace).into(),
            deployment(cluster, issued)?.into(),
        ])
    }
}

/// What it may do there.
pub(crate) fn role(namespace: &str) -> Role {
    typed(json!({
        "metadata": LABELS.metadata(namespace),
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
    }))
}

/// The program.
pub(crate) fn deployment(cluster: &HostedCluster, issued: &Issued) -> Result<Deployment, MissingSecret> {
    let namespace = &cluster.namespace;
    let mounts = Mounts(vec![(
        "kubeconfig",
        issued.kubeconfig(RESOURCE_MANAGER)?,
        KUBECONFIG_FOLDER,
    )]);
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_RUNTIME_API_SERVER,
        &to_service(API_SERVER, api_server::PORT),
    ]);
    let probe =
        |path: &str| json!({"httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"}, "periodSeconds": 10});
    Ok(typed(json!({
        "metadata": LABELS.metadata(namespace),
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "serviceAccountName": RESOURCE_MANAGER,
                    "automountServiceAccountToken": true,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-400",
                    "containers": [{
                        "name": RESOURCE_MANAGER,
                        "image": issued.image,
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
                        "securityContext": security::container(),
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    })))
}
