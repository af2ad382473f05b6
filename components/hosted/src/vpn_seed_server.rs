//! konnectivity's proxy-server beside a shoot's kube-apiserver: what kube-apiserver sends to nodes, pods and Services of the
//! shoot goes to it by HTTP CONNECT, and on through the connection that an agent inside the shoot ([`crate::shoot::VpnSettings`])
//! holds open. Only shoots with workers have it, and only where nodes are reached through a tunnel. Flags as those of
//! kubernetes-sigs/apiserver-network-proxy v0.34.0 `cmd/server/app/options/options.go`.
//!
//! Three kinds of certificates keep the two ends apart: kube-apiserver and the server trust [`CA_VPN`], agents prove themselves
//! by [`CA_VPN_AGENT`] alone. So a certificate that lies in the shoot, where its users can read it, does not open the port of
//! kube-apiserver, and with it the tunnel.

use api_meta::annotations::network as annotations;
use base_secrets::Wanted;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use serde_json::{Value, json};

use crate::api_server::API_SERVER;
use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, NodeAccess, Place, Titles, titles};
use crate::mount::{Mounted, Mounts, checksum_of_text};
use crate::object::{HostedObject, Labels, from_scrape_targets, open_ports, to_service, typed};
use crate::secrets::{client, server, service_names};
use crate::security;

/// Name of Deployment and Service.
pub const VPN_SEED_SERVER: &str = "vpn-seed-server";
/// The port at which agents connect.
pub const VPN_AGENT_PORT: u16 = 8132;
/// The release of konnectivity that Kubernetes 1.36 runs (kubernetes/kubernetes v1.36
/// cluster/gce/manifests/konnectivity-server.yaml).
pub(crate) const RELEASE: &str = "v0.34.0";

/// Signs the server and, as its client, kube-apiserver.
pub const CA_VPN: &str = "ca-vpn";
/// Signs agents.
const CA_VPN_AGENT: &str = "ca-vpn-agent";
/// The server's certificate, for both of its ports.
const SERVER: &str = "vpn-seed-server";
/// kube-apiserver's certificate as a client of the server.
const API_SERVER_CLIENT: &str = "kube-apiserver-http-proxy";
/// The agent's certificate.
pub const VPN_SHOOT_CLIENT: &str = "vpn-shoot-client";

/// The port at which kube-apiserver connects.
const API_SERVER_PORT: u16 = 9443;
/// The port that shows profiles, open to the pod alone.
const ADMIN_PORT: u16 = 8133;
/// The port of health and metrics.
const HEALTH_PORT: u16 = 8134;
const LABELS: Labels = Labels {
    app: VPN_SEED_SERVER,
    role: None,
    name: VPN_SEED_SERVER,
};

/// The server's end of the tunnel.
pub(crate) struct VpnSeedServer;

impl Component for VpnSeedServer {
    fn name(&self) -> &'static str {
        VPN_SEED_SERVER
    }

    fn titles(&self) -> Titles {
        titles!("vpn-seed-server", "vpn-seed-server")
    }

    fn image(&self) -> Image {
        Image::Upstream {
            name: "proxy-server",
            tag: RELEASE,
        }
    }

    fn place(&self) -> Place {
        Place::ControlPlane {
            waits: false,
            needs_cloud_credentials: false,
        }
    }

    fn exists(&self, cluster: &HostedCluster) -> bool {
        !cluster.workerless && cluster.node_access == NodeAccess::Tunnel
    }

    /// All of the tunnel's, kube-apiserver's and the agent's as well: they come and go with it.
    fn secrets(&self, cluster: &HostedCluster) -> Vec<Wanted> {
        let names = service_names(VPN_SEED_SERVER, &cluster.namespace).into();
        vec![
            Wanted::authority(CA_VPN, "vpn"),
            Wanted::authority(CA_VPN_AGENT, "vpn-agent"),
            Wanted::certificate(SERVER, CA_VPN, server(VPN_SEED_SERVER, names, Vec::new())),
            Wanted::certificate(API_SERVER_CLIENT, CA_VPN, client(API_SERVER)),
            Wanted::certificate(VPN_SHOOT_CLIENT, CA_VPN_AGENT, client("vpn-shoot")),
        ]
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        Ok(vec![
            LABELS.disruption_budget(&cluster.namespace).into(),
            service(&cluster.namespace).into(),
            deployment(cluster, issued)?.into(),
        ])
    }
}

/// The name that agents know the server by. It is in its certificate.
#[must_use]
pub fn vpn_server_name(namespace: &str) -> String {
    format!("{VPN_SEED_SERVER}.{namespace}.svc")
}

/// Agents come from nodes, which are no pods of the seed.
fn service(namespace: &str) -> Service {
    let mut metadata = LABELS.metadata(namespace);
    metadata["annotations"] = json!({
        from_scrape_targets(): open_ports(&[HEALTH_PORT]),
        annotations::FROM_WORLD_TO_PORTS: open_ports(&[VPN_AGENT_PORT]),
    });
    let port = |name: &str, port: u16| json!({"name": name, "port": port, "targetPort": port, "protocol": "TCP"});
    typed(json!({
        "metadata": metadata,
        "spec": {
            "type": "ClusterIP",
            "selector": LABELS.selector(),
            "ports": [port("http-proxy", API_SERVER_PORT), port("agents", VPN_AGENT_PORT)],
        },
    }))
}

fn deployment(cluster: &HostedCluster, issued: &Issued) -> Result<Deployment, MissingSecret> {
    let mounts = Mounts(vec![
        ("ca", issued.bundle(CA_VPN)?, "/srv/proxy-server/ca"),
        ("ca-agent", issued.bundle(CA_VPN_AGENT)?, "/srv/proxy-server/ca-agent"),
        ("server", issued.secret(SERVER)?, "/srv/proxy-server/server"),
    ]);
    Ok(typed(json!({
        "metadata": {"name": VPN_SEED_SERVER, "namespace": cluster.namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            // Beside the old server, a new one would be one without agents, and fail what kube-apiserver sends to it.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                // It opens no connections, so it needs no label for them.
                "metadata": {"labels": LABELS.all(), "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": security::pod(),
                    "priorityClassName": "gardener-system-300",
                    "containers": [container(issued, &mounts)],
                    "volumes": mounts.volumes(),
                },
            },
        },
    })))
}

fn container(issued: &Issued, mounts: &Mounts<'_>) -> Value {
    // `/readyz` fails without an agent, and as long as it is not ready no agent finds it.
    let probe = json!({
        "httpGet": {"path": "/healthz", "port": HEALTH_PORT, "scheme": "HTTP"},
        "periodSeconds": 10,
        "timeoutSeconds": 15,
        "failureThreshold": 3,
    });
    json!({
        "name": VPN_SEED_SERVER,
        "image": issued.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/proxy-server"],
        "args": [
            format!("--admin-port={ADMIN_PORT}"),
            format!("--agent-port={VPN_AGENT_PORT}"),
            "--cluster-ca-cert=/srv/proxy-server/ca-agent/bundle.crt",
            "--cluster-cert=/srv/proxy-server/server/tls.crt",
            "--cluster-key=/srv/proxy-server/server/tls.key",
            format!("--health-port={HEALTH_PORT}"),
            // A connection that a load balancer has forgotten is noticed.
            "--keepalive-time=1m",
            "--mode=http-connect",
            "--server-ca-cert=/srv/proxy-server/ca/bundle.crt",
            "--server-cert=/srv/proxy-server/server/tls.crt",
            "--server-count=1",
            "--server-key=/srv/proxy-server/server/tls.key",
            format!("--server-port={API_SERVER_PORT}"),
        ],
        "ports": [
            {"name": "http-proxy", "containerPort": API_SERVER_PORT, "protocol": "TCP"},
            {"name": "agents", "containerPort": VPN_AGENT_PORT, "protocol": "TCP"},
            {"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"},
        ],
        "livenessProbe": probe,
        "readinessProbe": probe,
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}},
        "securityContext": security::container(),
        "volumeMounts": mounts.volume_mounts(),
    })
}

/// What kube-apiserver has for the tunnel: a file that says which connections go through it, and the certificates for them.
pub(crate) struct Egress<'a> {
    authorities: &'a Mounted,
    client: &'a Mounted,
    text: String,
}

/// Name of the ConfigMap with the file.
const EGRESS: &str = "kube-apiserver-egress-selector-config";
/// The volume of the ConfigMap.
const EGRESS_VOLUME: &str = "egress-selector-config";
const EGRESS_FOLDER: &str = "/etc/kubernetes/egress";
const EGRESS_FILE: &str = "egress-selector-configuration.yaml";
/// Where kube-apiserver finds the authority of the server.
const CA_FOLDER: &str = "/srv/kubernetes/ca-vpn";
/// Where kube-apiserver finds its certificate for it.
const CLIENT_FOLDER: &str = "/srv/kubernetes/http-proxy";

impl<'a> Egress<'a> {
    /// What a shoot with the tunnel has; none for another.
    pub(crate) fn of(cluster: &HostedCluster, issued: &'a Issued) -> Result<Option<Self>, MissingSecret> {
        if !VpnSeedServer.exists(cluster) {
            return Ok(None);
        }
        Ok(Some(Self {
            authorities: issued.bundle(CA_VPN)?,
            client: issued.secret(API_SERVER_CLIENT)?,
            text: selection(),
        }))
    }

    pub(crate) fn flag(&self) -> String {
        format!("--egress-selector-config-file={EGRESS_FOLDER}/{EGRESS_FILE}")
    }

    /// The label by which policies let its pods connect to the server.
    pub(crate) fn label(&self) -> String {
        to_service(VPN_SEED_SERVER, API_SERVER_PORT)
    }

    pub(crate) fn mounts(&self) -> [(&'static str, &'a Mounted, &'static str); 2] {
        [
            ("ca-vpn", self.authorities, CA_FOLDER),
            ("http-proxy", self.client, CLIENT_FOLDER),
        ]
    }

    /// Labels of the ConfigMap: those of kube-apiserver, which it belongs to.
    pub(crate) fn config_map(&self, namespace: &str, labels: Value) -> ConfigMap {
        typed(json!({
            "metadata": {"name": EGRESS, "namespace": namespace, "labels": labels},
            "data": {EGRESS_FILE: self.text},
        }))
    }

    /// The annotation that rolls the pods when the file changes: kube-apiserver reads it once.
    pub(crate) fn checksum(&self) -> (String, String) {
        (
            format!("checksum/configmap-{EGRESS_VOLUME}"),
            checksum_of_text(&self.text),
        )
    }

    pub(crate) fn volume(&self) -> Value {
        json!({"name": EGRESS_VOLUME, "configMap": {"name": EGRESS}})
    }

    pub(crate) fn volume_mount(&self) -> Value {
        json!({"name": EGRESS_VOLUME, "mountPath": EGRESS_FOLDER, "readOnly": true})
    }
}

/// `EgressSelectorConfiguration`, as JSON, which is YAML (k8s.io/apiserver v0.35 pkg/apis/apiserver/v1beta1/types.go).
fn selection() -> String {
    let direct = |name: &str| json!({"name": name, "connection": {"proxyProtocol": "Direct"}});
    let configuration = json!({
        "apiVersion": "apiserver.k8s.io/v1beta1",
        "kind": "EgressSelectorConfiguration",
        "egressSelections": [
            {
                "name": "cluster",
                "connection": {
                    "proxyProtocol": "HTTPConnect",
                    "transport": {
                        "tcp": {
                            "url": format!("https://{VPN_SEED_SERVER}:{API_SERVER_PORT}"),
                            "tlsConfig": {
                                "caBundle": format!("{CA_FOLDER}/bundle.crt"),
                                "clientCert": format!("{CLIENT_FOLDER}/tls.crt"),
                                "clientKey": format!("{CLIENT_FOLDER}/tls.key"),
                            },
                        },
                    },
                },
            },
            direct("controlplane"),
            direct("etcd"),
        ],
    });
    format!("{configuration:#}\n")
}
