//! A shoot's kube-scheduler. Flags as `kube-scheduler --help` of Kubernetes 1.35 spells them.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::api_server::{self, API_SERVER};
use crate::component::{
    Component, HostedCluster, Image, Issued, MissingSecret, Place, Power, ScaleFacts, ShootClient, Titles, titles,
};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, https_probe, to_service, typed};
use crate::{KUBECONFIG_FOLDER, KUBECONFIG_PATH, security};

/// Name of the Deployment.
pub const SCHEDULER: &str = "kube-scheduler";
const PORT: u16 = 10259;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("scheduler"),
    name: SCHEDULER,
};

/// Places pods onto nodes.
pub(crate) struct Scheduler;

impl Component for Scheduler {
    fn name(&self) -> &'static str {
        SCHEDULER
    }

    fn titles(&self) -> Titles {
        titles!("Kubernetes scheduler", "kube-scheduler")
    }

    fn image(&self) -> Image {
        Image::Kubernetes(SCHEDULER)
    }

    fn place(&self) -> Place {
        Place::ControlPlane {
            waits: false,
            needs_cloud_credentials: false,
        }
    }

    /// Without nodes there is nothing to choose from.
    fn exists(&self, cluster: &HostedCluster) -> bool {
        !cluster.workerless
    }

    fn client(&self) -> Option<ShootClient> {
        Some(ShootClient {
            user: "system:kube-scheduler",
            secret: "kube-scheduler-client",
        })
    }

    /// Gone as soon as the shoot is to hibernate: no pod needs a node any more (gardener/gardener v1.150
    /// pkg/gardenlet/operation/botanist/kubescheduler.go).
    fn scale(&self, facts: &ScaleFacts) -> i32 {
        match facts.power {
            Power::Awake | Power::Waking => 1,
            Power::Hibernating | Power::Hibernated => 0,
        }
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        Ok(vec![
            LABELS.disruption_budget(&cluster.namespace).into(),
            deployment(cluster, issued)?.into(),
        ])
    }
}

/// The program.
pub(crate) fn deployment(cluster: &HostedCluster, issued: &Issued) -> Result<Deployment, MissingSecret> {
    let mounts = Mounts(vec![("kubeconfig", issued.kubeconfig(SCHEDULER)?, KUBECONFIG_FOLDER)]);
    let pods = LABELS.of_pods(&[network::TO_DNS, &to_service(API_SERVER, api_server::PORT)]);
    Ok(typed(json!({
        "metadata": {"name": SCHEDULER, "namespace": cluster.namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-300",
                    "containers": [{
                        "name": SCHEDULER,
                        "image": issued.image,
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
                        "securityContext": security::container(),
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    })))
}
