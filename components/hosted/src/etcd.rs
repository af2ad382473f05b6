//! The store behind a shoot's API server: one member, one volume. Names as etcd-druid v0.30 gives them.

use std::net::IpAddr;

use api_meta::annotations::network as annotations;
use api_meta::labels::network;
use api_meta::names;
use base_secrets::Wanted;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, Titles, Workload, titles};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, from_scrape_targets, namespaces_with, open_ports, typed};
use crate::secrets::{CA_ETCD, server, service_names};

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

/// etcd's certificate.
pub(crate) const SERVER: &str = "etcd-server";

/// The store.
pub(crate) struct Etcd;

impl Component for Etcd {
    fn name(&self) -> &'static str {
        ETCD
    }

    fn titles(&self) -> Titles {
        Titles {
            deploy: "Deploying main and events ETCDs",
            wait: "Waiting until main and event ETCDs have been reconciled",
            wait_for_deletion: "Waiting until main and event etcd report readiness",
            wait_destroyed: "Waiting until main and event etcd have been destroyed",
            ..titles!("main and events etcd", "etcd-main")
        }
    }

    fn image(&self) -> Image {
        Image::Own("etcd")
    }

    fn workload(&self) -> Workload {
        Workload::StatefulSet
    }

    fn place(&self) -> Place {
        Place::Etcd
    }

    fn secrets(&self, cluster: &HostedCluster) -> Vec<Wanted> {
        let mut dns_names: Vec<String> = service_names(ETCD_CLIENT_SERVICE, &cluster.namespace).into();
        dns_names.push(format!("*.{PEER_SERVICE}.{}.svc", cluster.namespace));
        dns_names.push("localhost".to_owned());
        let spec = server(ETCD, dns_names, vec![IpAddr::from([127, 0, 0, 1])]);
        vec![Wanted::certificate(SERVER, CA_ETCD, spec)]
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        Ok(vec![
            client_service(&cluster.namespace).into(),
            peer_service(&cluster.namespace).into(),
            stateful_set(cluster, issued)?.into(),
        ])
    }
}

/// For clients.
pub(crate) fn client_service(namespace: &str) -> Service {
    typed(json!({
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
    }))
}

/// For members among each other; headless.
pub(crate) fn peer_service(namespace: &str) -> Service {
    typed(json!({
        "metadata": {"name": PEER_SERVICE, "namespace": namespace, "labels": LABELS.all()},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            // Members must find each other before they are ready.
            "publishNotReadyAddresses": true,
            "selector": LABELS.selector(),
            "ports": [{"name": "peer", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP"}],
        },
    }))
}

/// The member.
pub(crate) fn stateful_set(cluster: &HostedCluster, issued: &Issued) -> Result<StatefulSet, MissingSecret> {
    let mounts = Mounts(vec![
        ("etcd-ca", issued.bundle(CA_ETCD)?, "/var/etcd/ssl/ca"),
        ("etcd-server-tls", issued.secret(SERVER)?, "/var/etcd/ssl/server"),
    ]);
    let mut volume_mounts = mounts.volume_mounts();
    volume_mounts.push(json!({"name": ETCD, "mountPath": "/var/etcd/data"}));
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        network::TO_RUNTIME_API_SERVER,
    ]);
    Ok(typed(json!({
        "metadata": {"name": ETCD, "namespace": cluster.namespace, "labels": LABELS.all()},
        "spec": {
            "replicas": issued.replicas,
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
                        "image": issued.image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["etcd"],
                        "args": arguments(&cluster.namespace),
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
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": cluster.etcd_storage}}},
            }],
        },
    })))
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
