//! A shoot's kube-scheduler. Flags as `kube-scheduler --help` of Kubernetes 1.35 spells them.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::KUBECONFIG_PATH;
use crate::api_server::{self, API_SERVER};
use crate::mount::{Mounted, Mounts};
use crate::object::{Labels, https_probe, to_service, typed};

/// Name of the Deployment.
pub const SCHEDULER: &str = "kube-scheduler";
const PORT: u16 = 10259;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("scheduler"),
    name: SCHEDULER,
};

/// Settings of kube-scheduler.
#[derive(Clone, Debug)]
pub struct SchedulerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig.
    pub kubeconfig: Mounted,
}

/// The Deployment.
#[must_use]
pub fn scheduler(settings: &SchedulerSettings) -> Deployment {
    let SchedulerSettings {
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
    let pods = LABELS.of_pods(&[network::TO_DNS, &to_service(API_SERVER, api_server::PORT)]);
    typed(json!({
        "metadata": {"name": SCHEDULER, "namespace": namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "priorityClassName": "gardener-system-300",
                    "containers": [{
                        "name": SCHEDULER,
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        // One list, as upstream has it: webhooks of extensions look for flags in `command`.
                        "command": [
                            "/usr/local/bin/kube-scheduler",
                            format!("--authentication-kubeconfig={KUBECONFIG_PATH}"),
                            format!("--authorization-kubeconfig={KUBECONFIG_PATH}"),
                            format!("--kubeconfig={KUBECONFIG_PATH}"),
                            "--leader-elect=true",
                            "--profiling=false",
                            format!("--secure-port={PORT}"),
                        ],
                        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
                        "livenessProbe": https_probe("/healthz", PORT),
                        "resources": {"requests": {"cpu": "23m", "memory": "64Mi"}},
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    }))
}
