//! The stores behind a shoot's API server, each of one member with one volume: one of Events, one of all else. Events come in
//! numbers, are worth little and are not backed up; apart, they cannot fill the store that a cluster cannot do without. Names
//! as etcd-druid v0.30 gives them; what differs between the two as in gardener/gardener v1.150
//! `pkg/gardenlet/operation/botanist/etcd.go` and `pkg/component/etcd/etcd`.

use std::net::IpAddr;

use api_meta::annotations::network as annotations;
use api_meta::labels::network;
use api_meta::names;
use base_secrets::{CertificateSpec, Usage, Wanted};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, Titles, Workload, titles};
use crate::mount::Mounts;
use crate::object::{HostedObject, Labels, from_scrape_targets, namespaces_with, open_ports, typed};
use crate::secrets::{CA_ETCD, server, service_names};
use crate::security;
use crate::table::ComponentId;

/// The release that runs. Its flags are those of every 3.6.
const VERSION: &str = "v3.6.16";
/// Port of the Services that clients use.
pub(crate) const CLIENT_PORT: u16 = 2379;
const PEER_PORT: u16 = 2380;
/// Port of health and metrics, without TLS: kubelets have no certificate for it.
const METRICS_PORT: u16 = 2381;
/// Port of the backup and restore program beside etcd.
const BACKUP_PORT: u16 = 8080;

/// Files of the certificate that a member shows clients and other members, and of whom it believes.
const AUTHORITIES: &str = "/var/etcd/ssl/ca/bundle.crt";
const CERTIFICATE: &str = "/var/etcd/ssl/server/tls.crt";
const KEY: &str = "/var/etcd/ssl/server/tls.key";

/// A store. Both have one authority, and one client certificate opens both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Etcd {
    /// The etcd of everything but Events.
    Main,
    /// The etcd of Events.
    Events,
}

impl Etcd {
    /// Name of the StatefulSet, and of its volume: the claim is `etcd-main-etcd-main-0`.
    const fn called(self) -> &'static str {
        match self {
            Self::Main => "etcd-main",
            Self::Events => "etcd-events",
        }
    }

    const fn role(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Events => "events",
        }
    }

    /// Name of the Service that clients use.
    pub(crate) const fn client_service(self) -> &'static str {
        match self {
            Self::Main => "etcd-main-client",
            Self::Events => "etcd-events-client",
        }
    }

    const fn peer_service(self) -> &'static str {
        match self {
            Self::Main => "etcd-main-peer",
            Self::Events => "etcd-events-peer",
        }
    }

    /// Under which name its certificate is wanted.
    pub(crate) const fn certificate(self) -> &'static str {
        match self {
            Self::Main => "etcd-server",
            Self::Events => "etcd-server-events",
        }
    }

    /// Where clients in the seed reach it.
    pub(crate) fn url(self, namespace: &str) -> String {
        format!("https://{}.{namespace}.svc:{CLIENT_PORT}", self.client_service())
    }

    fn storage(self, cluster: &HostedCluster) -> &str {
        match self {
            Self::Main => &cluster.etcd_storage.main,
            Self::Events => &cluster.etcd_storage.events,
        }
    }

    fn requests(self) -> Value {
        match self {
            Self::Main => json!({"cpu": "50m", "memory": "200Mi"}),
            Self::Events => json!({"cpu": "30m", "memory": "150M"}),
        }
    }

    fn labels(self) -> Labels {
        Labels {
            app: "etcd-statefulset",
            role: Some(self.role()),
            name: self.called(),
        }
    }
}

impl Component for Etcd {
    fn name(&self) -> &'static str {
        self.called()
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

    fn joins(&self) -> Option<ComponentId> {
        (*self == Self::Events).then_some(ComponentId::EtcdMain)
    }

    fn image(&self) -> Image {
        Image::Upstream {
            name: "etcd",
            tag: VERSION,
        }
    }

    fn workload(&self) -> Workload {
        Workload::StatefulSet
    }

    fn place(&self) -> Place {
        Place::Etcd
    }

    fn secrets(&self, cluster: &HostedCluster) -> Vec<Wanted> {
        let mut dns_names: Vec<String> = service_names(self.client_service(), &cluster.namespace).into();
        dns_names.push(format!("*.{}.{}.svc", self.peer_service(), cluster.namespace));
        dns_names.push("localhost".to_owned());
        // Members are each other's clients, and etcd's gateway of JSON is a client of its own member.
        let spec = CertificateSpec {
            usage: Usage::ServerAndClient,
            ..server(self.called(), dns_names, vec![IpAddr::from([127, 0, 0, 1])])
        };
        vec![Wanted::certificate(self.certificate(), CA_ETCD, spec)]
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        Ok(vec![
            client_service(*self, &cluster.namespace).into(),
            peer_service(*self, &cluster.namespace).into(),
            self.labels().disruption_budget(&cluster.namespace).into(),
            stateful_set(*self, cluster, issued)?.into(),
        ])
    }
}

/// For clients.
fn client_service(etcd: Etcd, namespace: &str) -> Service {
    let labels = etcd.labels();
    typed(json!({
        "metadata": {
            "name": etcd.client_service(), "namespace": namespace, "labels": labels.all(),
            "annotations": {
                from_scrape_targets(): open_ports(&[CLIENT_PORT, BACKUP_PORT]),
                annotations::NAMESPACE_SELECTORS:
                    namespaces_with(&[("kubernetes.io/metadata.name", names::GARDEN_NAMESPACE)]),
                annotations::POD_LABEL_SELECTOR_NAMESPACE_ALIAS: network::ALL_SHOOTS,
            },
        },
        "spec": {
            "type": "ClusterIP",
            "selector": labels.selector(),
            "ports": [{"name": "client", "port": CLIENT_PORT, "targetPort": CLIENT_PORT, "protocol": "TCP"}],
        },
    }))
}

/// For members among each other; headless.
fn peer_service(etcd: Etcd, namespace: &str) -> Service {
    let labels = etcd.labels();
    typed(json!({
        "metadata": {"name": etcd.peer_service(), "namespace": namespace, "labels": labels.all()},
        "spec": {
            "type": "ClusterIP",
            "clusterIP": "None",
            // Members must find each other before they are ready.
            "publishNotReadyAddresses": true,
            "selector": labels.selector(),
            "ports": [{"name": "peer", "port": PEER_PORT, "targetPort": PEER_PORT, "protocol": "TCP"}],
        },
    }))
}

/// The member.
fn stateful_set(etcd: Etcd, cluster: &HostedCluster, issued: &Issued) -> Result<StatefulSet, MissingSecret> {
    let (name, labels) = (etcd.called(), etcd.labels());
    let mounts = Mounts(vec![
        ("etcd-ca", issued.bundle(CA_ETCD)?, "/var/etcd/ssl/ca"),
        (
            "etcd-server-tls",
            issued.secret(etcd.certificate())?,
            "/var/etcd/ssl/server",
        ),
    ]);
    let pods = labels.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        network::TO_RUNTIME_API_SERVER,
    ]);
    Ok(typed(json!({
        "metadata": {"name": name, "namespace": cluster.namespace, "labels": labels.all()},
        "spec": {
            "replicas": issued.replicas,
            "serviceName": etcd.peer_service(),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "selector": {"matchLabels": labels.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-500",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [container(etcd, cluster, issued, &mounts)],
                    "volumes": mounts.volumes(),
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": etcd.storage(cluster)}},
                },
            }],
        },
    })))
}

fn container(etcd: Etcd, cluster: &HostedCluster, issued: &Issued, mounts: &Mounts<'_>) -> Value {
    let mut volume_mounts = mounts.volume_mounts();
    volume_mounts.push(json!({"name": etcd.called(), "mountPath": "/var/etcd/data"}));
    json!({
        "name": "etcd",
        "image": issued.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["etcd"],
        "args": arguments(etcd, &cluster.namespace),
        "ports": [
            {"name": "client", "containerPort": CLIENT_PORT, "protocol": "TCP"},
            {"name": "peer", "containerPort": PEER_PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": METRICS_PORT, "protocol": "TCP"},
        ],
        // A member that replays a long log, or checks a large file, answers nothing meanwhile.
        "startupProbe": probe("/readyz", 1, 600),
        "readinessProbe": probe("/readyz", 5, 3),
        "livenessProbe": probe("/livez", 10, 6),
        "resources": {"requests": etcd.requests()},
        "securityContext": security::container(),
        "volumeMounts": volume_mounts,
    })
}

/// A probe of etcd's own port for it (etcd v3.6 server/etcdserver/api/etcdhttp/health.go).
fn probe(path: &str, period_seconds: u16, failures_max: u16) -> Value {
    json!({
        "httpGet": {"path": path, "port": METRICS_PORT, "scheme": "HTTP"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failures_max,
    })
}

/// What etcd is started with.
fn arguments(etcd: Etcd, namespace: &str) -> Vec<String> {
    let member = format!("{}-0", etcd.called());
    let peer = format!("https://{member}.{}.{namespace}.svc:{PEER_PORT}", etcd.peer_service());
    vec![
        format!("--name={member}"),
        "--data-dir=/var/etcd/data/new.etcd".to_owned(),
        format!("--listen-client-urls=https://0.0.0.0:{CLIENT_PORT}"),
        format!("--advertise-client-urls={}", etcd.url(namespace)),
        format!("--listen-metrics-urls=http://0.0.0.0:{METRICS_PORT}"),
        "--client-cert-auth=true".to_owned(),
        format!("--trusted-ca-file={AUTHORITIES}"),
        format!("--cert-file={CERTIFICATE}"),
        format!("--key-file={KEY}"),
        format!("--listen-peer-urls=https://0.0.0.0:{PEER_PORT}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster={member}={peer}"),
        // Another shoot's members, or those of the other store, are refused even where an address leads to them.
        format!("--initial-cluster-token={}-{namespace}", etcd.called()),
        "--initial-cluster-state=new".to_owned(),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-trusted-ca-file={AUTHORITIES}"),
        format!("--peer-cert-file={CERTIFICATE}"),
        format!("--peer-key-file={KEY}"),
        "--auto-compaction-mode=periodic".to_owned(),
        "--auto-compaction-retention=30m".to_owned(),
        // 8 GiB, upstream's quota.
        "--quota-backend-bytes=8589934592".to_owned(),
    ]
}
