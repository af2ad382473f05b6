//! A shoot's gardener-resource-manager: reads ManagedResources of the shoot's namespace with its service account in the
//! seed, applies them to the shoot with its kubeconfig, fills the namespace's Secrets of class `shoot` with tokens of the
//! shoot, and approves the certificates that kubelets request for their own ports, for which it reads the namespace's machines. It
//! may do nothing else in the seed. It is the program `orangery resource-manager` with a configuration file in a
//! ConfigMap, the same in a pod of a real kubelet and in one of the embedded node.

use api_meta::labels::network;
use api_meta::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::json;

use crate::api_server::{self, API_SERVER};
use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, ShootClient, Titles, titles};
use crate::mount::{Mounts, checksum_of_text};
use crate::object::{HostedObject, Labels, to_service, typed};
use crate::{KUBECONFIG_FOLDER, KUBECONFIG_PATH, security};

/// Name of all its objects.
pub const RESOURCE_MANAGER: &str = "gardener-resource-manager";
/// The subcommand of the program that it is.
const SUBCOMMAND: &str = "resource-manager";
const HEALTH_PORT: u16 = 8081;
const METRICS_PORT: u16 = 8080;
/// The folder of its configuration, and the file in it.
const CONFIGURATION_FOLDER: &str = "/etc/gardener-resource-manager/config";
const CONFIGURATION_FILE: &str = "config.yaml";
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
        Image::Program
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
            config_map(cluster).into(),
            deployment(cluster, issued)?.into(),
        ])
    }
}

/// `ResourceManagerConfiguration`, as JSON, which is YAML.
fn configuration(cluster: &HostedCluster) -> String {
    let namespace = &cluster.namespace;
    let configuration = json!({
        "apiVersion": "resourcemanager.config.gardener.cloud/v1alpha1",
        "kind": "ResourceManagerConfiguration",
        "sourceClientConnection": {"namespaces": [namespace]},
        "targetClientConnection": {"kubeconfig": KUBECONFIG_PATH},
        "leaderElection": {"leaderElect": true, "resourceNamespace": namespace},
        "server": {"healthProbes": {"port": HEALTH_PORT}, "metrics": {"port": METRICS_PORT}},
        // Without a class: ManagedResources of the shoot have none.
        "controllers": {
            "tokenRequestor": {"enabled": true},
            "csrApprover": {"enabled": !cluster.workerless, "machineNamespace": namespace},
        },
    });
    format!("{configuration:#}\n")
}

fn config_map(cluster: &HostedCluster) -> ConfigMap {
    typed(json!({
        "metadata": LABELS.metadata(&cluster.namespace),
        "data": {CONFIGURATION_FILE: configuration(cluster)},
    }))
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
            {"apiGroups": ["machine.sapcloud.io"], "resources": ["machines"], "verbs": ["list"]},
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
    let probe = |path: &str, every_seconds: u32, tries: u32| {
        json!({
            "httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"},
            "periodSeconds": every_seconds,
            "failureThreshold": tries,
        })
    };
    let mut annotations = mounts.annotations();
    annotations["checksum/configmap-config"] = checksum_of_text(&configuration(cluster)).into();
    let mut volumes = mounts.volumes();
    volumes.push(json!({"name": "config", "configMap": {"name": RESOURCE_MANAGER}}));
    let mut volume_mounts = mounts.volume_mounts();
    volume_mounts.push(json!({"name": "config", "mountPath": CONFIGURATION_FOLDER, "readOnly": true}));
    Ok(typed(json!({
        "metadata": LABELS.metadata(namespace),
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": annotations},
                "spec": {
                    "serviceAccountName": RESOURCE_MANAGER,
                    "automountServiceAccountToken": true,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-400",
                    "containers": [{
                        "name": RESOURCE_MANAGER,
                        "image": issued.image,
                        "imagePullPolicy": "IfNotPresent",
                        "args": [SUBCOMMAND, format!("--config={CONFIGURATION_FOLDER}/{CONFIGURATION_FILE}")],
                        "ports": [
                            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
                            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
                        ],
                        // It holds the others back, which would look ten seconds later again.
                        "startupProbe": probe("/readyz", 1, 600),
                        "livenessProbe": probe("/healthz", 10, 3),
                        "readinessProbe": probe("/readyz", 10, 3),
                        "resources": {"requests": {"cpu": "23m", "memory": "47Mi"}},
                        "securityContext": security::container(),
                        "volumeMounts": volume_mounts,
                    }],
                    "volumes": volumes,
                },
            },
        },
    })))
}
