//! A shoot's kube-controller-manager. Flags as `kube-controller-manager --help` of Kubernetes 1.35 spells them.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::api_server::{self, API_SERVER};
use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, ShootClient, Titles, titles};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, https_probe, to_service, typed};
use crate::secrets::{CA, CA_CLIENT, CA_KUBELET, SERVICE_ACCOUNT_KEY};
use crate::{KUBECONFIG_FOLDER, KUBECONFIG_PATH, security};

/// Name of the Deployment.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const PORT: u16 = 10257;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("controller-manager"),
    name: CONTROLLER_MANAGER,
};

/// The shoot's own controllers.
pub(crate) struct ControllerManager;

impl Component for ControllerManager {
    fn name(&self) -> &'static str {
        CONTROLLER_MANAGER
    }

    fn titles(&self) -> Titles {
        Titles {
            wait_for_deletion: "Waiting until kube-controller-manager is active",
            ..titles!("Kubernetes controller manager", "kube-controller-manager")
        }
    }

    fn image(&self) -> Image {
        Image::Kubernetes(CONTROLLER_MANAGER)
    }

    fn place(&self) -> Place {
        Place::ControlPlane {
            waits: true,
            needs_cloud_credentials: true,
        }
    }

    fn client(&self) -> Option<ShootClient> {
        Some(ShootClient {
            user: "system:kube-controller-manager",
            secret: "kube-controller-manager-client",
        })
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
    let mounts = Mounts(vec![
        // Service accounts get the bundle; with the other two authorities it signs certificates of nodes.
        ("ca", issued.bundle(CA)?, "/srv/kubernetes/ca"),
        ("ca-client", issued.secret(CA_CLIENT)?, "/srv/kubernetes/ca-client"),
        ("ca-kubelet", issued.secret(CA_KUBELET)?, "/srv/kubernetes/ca-kubelet"),
        ("kubeconfig", issued.kubeconfig(CONTROLLER_MANAGER)?, KUBECONFIG_FOLDER),
        (
            "service-account-key",
            issued.secret(SERVICE_ACCOUNT_KEY)?,
            "/srv/kubernetes/service-account-key",
        ),
    ]);
    let pods = LABELS.of_pods(&[network::TO_DNS, &to_service(API_SERVER, api_server::PORT)]);
    Ok(typed(json!({
        "metadata": {"name": CONTROLLER_MANAGER, "namespace": cluster.namespace, "labels": LABELS.with_webhooks()},
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
                        "name": CONTROLLER_MANAGER,
                        "image": issued.image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": command(cluster),
                        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
                        "livenessProbe": https_probe("/healthz", PORT),
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                        "securityContext": security::container(),
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    })))
}

/// Program and flags in one list, as upstream has it: webhooks of extensions look for flags in `command` and change them
/// there (gardener/gardener v1.150 pkg/component/kubernetes/controllermanager/controllermanager.go).
fn command(cluster: &HostedCluster) -> Vec<String> {
    let HostedCluster {
        namespace,
        pods,
        services,
        node_mask_size,
        ..
    } = cluster;
    let mut command = vec![
        "/usr/local/bin/kube-controller-manager".to_owned(),
        format!("--authentication-kubeconfig={KUBECONFIG_PATH}"),
        format!("--authorization-kubeconfig={KUBECONFIG_PATH}"),
        format!("--cluster-name={namespace}"),
        "--cluster-signing-duration=720h".to_owned(),
        "--cluster-signing-kube-apiserver-client-cert-file=/srv/kubernetes/ca-client/ca.crt".to_owned(),
        "--cluster-signing-kube-apiserver-client-key-file=/srv/kubernetes/ca-client/ca.key".to_owned(),
        "--cluster-signing-kubelet-client-cert-file=/srv/kubernetes/ca-client/ca.crt".to_owned(),
        "--cluster-signing-kubelet-client-key-file=/srv/kubernetes/ca-client/ca.key".to_owned(),
        "--cluster-signing-kubelet-serving-cert-file=/srv/kubernetes/ca-kubelet/ca.crt".to_owned(),
        "--cluster-signing-kubelet-serving-key-file=/srv/kubernetes/ca-kubelet/ca.key".to_owned(),
        "--controllers=*,bootstrapsigner,tokencleaner".to_owned(),
        format!("--kubeconfig={KUBECONFIG_PATH}"),
        "--leader-elect=true".to_owned(),
        "--profiling=false".to_owned(),
        "--root-ca-file=/srv/kubernetes/ca/bundle.crt".to_owned(),
        format!("--secure-port={PORT}"),
        "--service-account-private-key-file=/srv/kubernetes/service-account-key/signing.key".to_owned(),
        format!("--service-cluster-ip-range={}", services.join(",")),
        "--use-service-account-credentials=true".to_owned(),
    ];
    // Without nodes there is nothing to give a part of the pod network to.
    if !pods.is_empty() {
        command.push("--allocate-node-cidrs=true".to_owned());
        command.push(format!("--cluster-cidr={}", pods.join(",")));
        // The size is that of IPv4; with two families upstream takes it by a name of its own.
        let flag = if pods.len() > 1 {
            "node-cidr-mask-size-ipv4"
        } else {
            "node-cidr-mask-size"
        };
        command.extend(node_mask_size.map(|size| format!("--{flag}={size}")));
    }
    command
}
