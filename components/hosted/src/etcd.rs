//! The store behind a shoot's API server: one member, one volume. Names as etcd-druid v0.30 gives them.

use api_meta::annotations::network as annotations;
use api_meta::labels::network;
use api_meta::names;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::mount::{Mounted, Mounts};
use crate::object::{Labels, from_scrape_targets, namespaces_with, open_ports, typed};

/// Name of the StatefulSet; its volume claim is `etcd-main-etcd-main-0`.
pub const ETCD: &str = "etcd-main";
/// Name of the Service that clients use.
pub const ETCD_CLIENT_SERVICE: &str = "etcd-main-client";
const PEER_SERVICE: &str = "etcd-main-peer";
/// Port of that Service.
pub(crate) const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// Port of the backup and restore program beside etcd.
const BACKUP_PORT: u16 = 8080;

const LABELS: Labels = Labels {
    app: "etcd-statefulset",
    role: Some("main"),
    name: ETCD,
};

/// Settings of etcd.
#[derive(Clone, Debug)]
pub struct EtcdSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// Size of the volume, as a Kubernetes quantity.
    pub storage: String,
    /// Bundle of the authority that signed etcd's clients and server.
    pub authority: Mounted,
    /// The server's certificate.
    pub server: Mounted,
}

/// Everything that makes up etcd.
#[derive(Clone, Debug)]
pub struct EtcdObjects {
    /// The member.
    pub stateful_set: StatefulSet,
    /// For clients.
    pub client_service: Service,
    /// For members among each other; headless.
    pub peer_service: Service,
}

/// Builds etcd.
#[must_use]
pub fn etcd(settings: &EtcdSettings) -> EtcdObjects {
    let EtcdSettings { namespace, .. } = settings;
    EtcdObjects {
        stateful_set: stateful_set(settings),
        client_service: typed(json!({
            "metadata": {
                "name": ETCD_CLIENT_SERVICE, "namespace": namespace, "labels": LABELS.all(),
                "annotations": {
                    from_scrape_targets(): open_ports(&[CLIENT_PORT, BACKUP_PORT]),
                    annotations::NAMESPACE_SELECTORS:
                        namespaces_with(&[("kubernetes.io/metadata.name", names::GARDEN_NAMESPACE)]),
                    annotations::POD_LABEL_SELECTOR_NAMESPACE_ALIAS: network::ALL_SHOOTS,
                },
            },
            "spec": {
                "type": "ClusterIP",
                "selector": LABELS.selector(),
                "ports": [{"name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT, "protocol": "TCP"}],
            },
        })),
        peer_service: typed(json!({
            "metadata": {"name": PEER_SERVICE, "namespace": namespace, "labels": LABELS.all()},
            "spec": {
                "type": "ClusterIP",
                "clusterIP": "None",
                // Members must find each other before they are ready.
                "publishNotReadyAddresses": true,
                "selector": LABELS.selector(),
                "ports": [{"name": "peer", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP"}],
            },
        })),
    }
}

fn stateful_set(settings: &EtcdSettings) -> StatefulSet {
    let EtcdSettings {
        namespace,
        image,
        storage,
        authority,
        server,
    } = settings;
    let mounts = Mounts(vec![
        ("etcd-ca", authority, "/var/etcd/ssl/ca"),
        ("etcd-server-tls", server, "/var/etcd/ssl/server"),
    ]);
    let mut volume_mounts = mounts.volume_mounts();
    volume_mounts.push(json!({"name": ETCD, "mountPath": "/var/etcd/data"}));
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        network::TO_RUNTIME_API_SERVER,
    ]);
    typed(json!({
        "metadata": {"name": ETCD, "namespace": namespace, "labels": LABELS.all()},
        "spec": {
            "replicas": 1,
            "serviceName": PEER_SERVICE,
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "priorityClassName": "gardener-system-500",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [{
                        "name": "etcd",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["etcd"],
                        "args": arguments(namespace),
                        "ports": [
                            {"name": "client", "containerPort": CLIENT_PORT, "protocol": "TCP"},
                            {"name": "peer", "containerPort": PEER_PORT, "protocol": "TCP"},
                        ],
                        "readinessProbe": {
                            "httpGet": {"path": "/health", "port": 2381, "scheme": "HTTP"},
                            "initialDelaySeconds": 5,
                            "periodSeconds": 5,
                            "failureThreshold": 5,
                        },
                        "resources": {"requests": {"cpu": "50m", "memory": "200Mi"}},
                        "volumeMounts": volume_mounts,
                    }],
                    "volumes": mounts.volumes(),
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": ETCD},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}},
            }],
        },
    }))
}

/// What etcd is started with.
fn arguments(namespace: &str) -> Vec<String> {
    vec![
        "--name=etcd-main-0".to_owned(),
        "--data-dir=/var/etcd/data/new.etcd".to_owned(),
        format!("--listen-client-urls=https://0.0.0.0:{CLIENT_PORT}"),
        format!("--advertise-client-urls=https://{ETCD_CLIENT_SERVICE}.{namespace}.svc:{CLIENT_PORT}"),
        "--listen-metrics-urls=http://0.0.0.0:2381".to_owned(),
        "--client-cert-auth=true".to_owned(),
        "--trusted-ca-file=/var/etcd/ssl/ca/bundle.crt".to_owned(),
        "--cert-file=/var/etcd/ssl/server/tls.crt".to_owned(),
        "--key-file=/var/etcd/ssl/server/tls.key".to_owned(),
        "--auto-compaction-mode=periodic".to_owned(),
        "--auto-compaction-retention=30m".to_owned(),
        // 8 GiB, upstream's quota.
        "--quota-backend-bytes=8589934592".to_owned(),
    ]
}
