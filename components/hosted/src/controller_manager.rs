//! A shoot's kube-controller-manager. Flags as `kube-controller-manager --help` of Kubernetes 1.35 spells them.

use api_meta::labels::network;
use k8s_openapi::api::apps::v1::Deployment;
use serde_json::json;

use crate::KUBECONFIG_PATH;
use crate::api_server::{self, API_SERVER};
use crate::mount::{Mounted, Mounts};
use crate::object::{Labels, https_probe, to_service, typed};

/// Name of the Deployment.
pub const CONTROLLER_MANAGER: &str = "kube-controller-manager";
const PORT: u16 = 10257;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("controller-manager"),
    name: CONTROLLER_MANAGER,
};

/// Settings of kube-controller-manager.
#[derive(Clone, Debug)]
pub struct ControllerManagerSettings {
    /// The shoot's namespace in the seed; also the cluster's name.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// Its kubeconfig.
    pub kubeconfig: Mounted,
    /// Bundle of the authority of the API server, which service accounts get.
    pub authority: Mounted,
    /// The authority (certificate and key) that signs client certificates of nodes.
    pub client_authority: Mounted,
    /// The authority (certificate and key) that signs serving certificates of nodes.
    pub kubelet_authority: Mounted,
    /// The key that signs service account tokens.
    pub service_account_key: Mounted,
    /// Networks of pods, in CIDR form; empty for workerless shoots.
    pub pod_networks: Vec<String>,
    /// Networks of services, in CIDR form.
    pub service_networks: Vec<String>,
    /// Prefix length of a node's part of the pod network.
    pub node_mask_size: Option<u8>,
}

/// The Deployment.
#[must_use]
pub fn controller_manager(settings: &ControllerManagerSettings) -> Deployment {
    let mounts = Mounts(vec![
        ("ca", &settings.authority, "/srv/kubernetes/ca"),
        ("ca-client", &settings.client_authority, "/srv/kubernetes/ca-client"),
        ("ca-kubelet", &settings.kubelet_authority, "/srv/kubernetes/ca-kubelet"),
        (
            "kubeconfig",
            &settings.kubeconfig,
            "/var/run/secrets/gardener.cloud/shoot/generic-kubeconfig",
        ),
        (
            "service-account-key",
            &settings.service_account_key,
            "/srv/kubernetes/service-account-key",
        ),
    ]);
    let pods = LABELS.of_pods(&[network::TO_DNS, &to_service(API_SERVER, api_server::PORT)]);
    typed(json!({
        "metadata": {"name": CONTROLLER_MANAGER, "namespace": settings.namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": settings.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "priorityClassName": "gardener-system-300",
                    "containers": [{
                        "name": CONTROLLER_MANAGER,
                        "image": settings.image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": command(settings),
                        "ports": [{"name": "metrics", "containerPort": PORT, "protocol": "TCP"}],
                        "livenessProbe": https_probe("/healthz", PORT),
                        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
                        "volumeMounts": mounts.volume_mounts(),
                    }],
                    "volumes": mounts.volumes(),
                },
            },
        },
    }))
}

/// Program and flags in one list, as upstream has it: webhooks of extensions look for flags in `command` and change them
/// there (gardener/gardener v1.150 pkg/component/kubernetes/controllermanager/controllermanager.go).
fn command(settings: &ControllerManagerSettings) -> Vec<String> {
    let ControllerManagerSettings {
        namespace,
        pod_networks,
        service_networks,
        node_mask_size,
        ..
    } = settings;
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
        format!("--service-cluster-ip-range={}", service_networks.join(",")),
        "--use-service-account-credentials=true".to_owned(),
    ];
    // Without nodes there is nothing to give a part of the pod network to.
    if !pod_networks.is_empty() {
        command.push("--allocate-node-cidrs=true".to_owned());
        command.push(format!("--cluster-cidr={}", pod_networks.join(",")));
        // The size is that of IPv4; with two families upstream takes it by a name of its own.
        let flag = if pod_networks.len() > 1 {
            "node-cidr-mask-size-ipv4"
        } else {
            "node-cidr-mask-size"
        };
        command.extend(node_mask_size.map(|size| format!("--{flag}={size}")));
    }
    command
}
