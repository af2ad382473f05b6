//! A shoot's machine-controller-manager. Its Deployment holds the controllers that are the same in every cloud; a provider's
//! webhook adds the container that talks to the cloud, finds it by name and label, and mounts the volume `kubeconfig` as this
//! one does. Flags, ports and rights as gardener/gardener v1.150 `pkg/component/nodemanagement/machinecontrollermanager`.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::{Value, json};

use crate::api_server::{self, API_SERVER};
use crate::component::{
    Component, HostedCluster, Image, Issued, MissingSecret, Place, Power, ScaleFacts, ShootClient, Titles, titles,
};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, from_scrape_targets, open_ports, to_service, typed};
use crate::shoot::{Object, machine_controller_access_objects};
use crate::{KUBECONFIG_FOLDER, KUBECONFIG_PATH, security};

/// Name of all its objects and of its container.
const MACHINE_CONTROLLER_MANAGER: &str = "machine-controller-manager";
/// Who it is in the shoot.
const USER: &str = "gardener.cloud:system:machine-controller-manager";
/// Port of its metrics and probes.
const PORT: u16 = 10258;
/// Port of the same of the container that a provider adds.
const PROVIDER_PORT: u16 = 10259;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some(MACHINE_CONTROLLER_MANAGER),
    name: MACHINE_CONTROLLER_MANAGER,
};

/// The controllers of MachineDeployments, MachineSets and Machines.
pub(crate) struct MachineControllerManager;

impl Component for MachineControllerManager {
    fn name(&self) -> &'static str {
        MACHINE_CONTROLLER_MANAGER
    }

    fn titles(&self) -> Titles {
        Titles {
            destroy: "Deleting machine-controller-manager",
            ..titles!("machine-controller-manager", "machine-controller-manager")
        }
    }

    fn image(&self) -> Image {
        Image::Own(MACHINE_CONTROLLER_MANAGER)
    }

    fn place(&self) -> Place {
        Place::Machines
    }

    fn exists(&self, cluster: &HostedCluster) -> bool {
        !cluster.workerless
    }

    fn client(&self) -> Option<ShootClient> {
        Some(ShootClient {
            user: USER,
            secret: "machine-controller-manager-client",
        })
    }

    fn shoot_objects(&self) -> Vec<Object> {
        machine_controller_access_objects(USER)
    }

    /// While hibernating it runs whatever its size before: no machine goes without it. A shoot that never ran has none
    /// (gardener/gardener v1.150 pkg/gardenlet/operation/botanist/machinecontrollermanager.go).
    fn scale(&self, facts: &ScaleFacts) -> i32 {
        if facts.migrating {
            return facts.present.unwrap_or(0);
        }
        match facts.power {
            Power::Awake | Power::Waking => 1,
            Power::Hibernating => i32::from(facts.present.is_some()),
            Power::Hibernated => 0,
        }
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        let namespace = &cluster.namespace;
        Ok(vec![
            LABELS.service_account(namespace).into(),
            role(namespace).into(),
            LABELS.role_binding(namespace).into(),
            service(namespace).into(),
            LABELS.disruption_budget(namespace).into(),
            deployment(cluster, issued)?.into(),
        ])
    }
}

/// What it may do in the seed, and with it the container of the provider.
fn role(namespace: &str) -> Role {
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
    let machines = ["machineclasses", "machinedeployments", "machinesets", "machines"];
    let with_status: Vec<String> = machines
        .iter()
        .flat_map(|kind| [(*kind).to_owned(), format!("{kind}/status")])
        .collect();
    typed(json!({
        "metadata": LABELS.metadata(namespace),
        "rules": [
            {"apiGroups": ["machine.sapcloud.io"], "resources": with_status, "verbs": everything},
            {"apiGroups": [""], "resources": ["secrets"], "verbs": everything},
            {
                "apiGroups": ["", "events.k8s.io"],
                "resources": ["events"],
                "verbs": ["create", "get", "list", "patch", "update"],
            },
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                // The second is that of the provider's container.
                "resourceNames": [MACHINE_CONTROLLER_MANAGER, "machine-controller"],
                "verbs": ["get", "update", "watch"],
            },
        ],
    }))
}

/// For pods that scrape metrics; headless.
fn service(namespace: &str) -> Service {
    let mut metadata = LABELS.metadata(namespace);
    metadata["annotations"] = json!({from_scrape_targets(): open_ports(&[PORT, PROVIDER_PORT])});
    typed(json!({
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            "selector": LABELS.selector(),
            "ports": [
                {"name": "metrics", "port": PORT, "protocol": "TCP"},
                {"name": "providermetrics", "port": PROVIDER_PORT, "protocol": "TCP"},
            ],
        },
    }))
}

fn deployment(cluster: &HostedCluster, issued: &Issued) -> Result<Deployment, MissingSecret> {
    let mounts = Mounts(vec![(
        "kubeconfig",
        issued.kubeconfig(MACHINE_CONTROLLER_MANAGER)?,
        KUBECONFIG_FOLDER,
    )]);
    // The cloud's API may be anywhere.
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        network::TO_RUNTIME_API_SERVER,
        &to_service(API_SERVER, api_server::PORT),
    ]);
    Ok(typed(json!({
        "metadata": {
            "name": MACHINE_CONTROLLER_MANAGER, "namespace": cluster.namespace, "labels": LABELS.with_webhooks(),
        },
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "serviceAccountName": MACHINE_CONTROLLER_MANAGER,
                    "automountServiceAccountToken": true,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-300",
                    "terminationGracePeriodSeconds": 5,
                    "containers": [container(&cluster.namespace, issued, &mounts)],
                    "volumes": mounts.volumes(),
                },
            },
        },
    })))
}

fn container(namespace: &str, issued: &Issued, mounts: &Mounts<'_>) -> Value {
    json!({
        "name": MACHINE_CONTROLLER_MANAGER,
        "image": issued.image,
        "imagePullPolicy": "IfNotPresent",
        "command": [
            "./machine-controller-manager",
            "--control-kubeconfig=inClusterConfig",
            "--machine-safety-overshooting-period=1m",
            format!("--namespace={namespace}"),
            format!("--port={PORT}"),
            "--safety-up=2",
            "--safety-down=1",
            format!("--target-kubeconfig={KUBECONFIG_PATH}"),
            "--concurrent-syncs=30",
            "--kube-api-qps=150",
            "--kube-api-burst=200",
            "--v=3",
        ],
        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": PORT, "scheme": "HTTP"},
            "initialDelaySeconds": 30,
            "periodSeconds": 10,
            "timeoutSeconds": 5,
            "successThreshold": 1,
            "failureThreshold": 3,
        },
        "resources": {"requests": {"cpu": "10m", "memory": "20M"}},
        "securityContext": security::container(),
        "volumeMounts": mounts.volume_mounts(),
    })
}
