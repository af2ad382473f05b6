//! konnectivity's proxy-agent in a shoot: it connects to the server beside the shoot's kube-apiserver and, through this
//! connection, from there to nodes, pods and Services. Flags as those of kubernetes-sigs/apiserver-network-proxy v0.34.0
//! `cmd/agent/app/options/options.go`; labels and policies as gardener/gardener v1.150 `pkg/component/networking/vpn/shoot`.

use std::net::IpAddr;

use api_meta::annotations;
use api_meta::labels::network;
use serde_json::{Value, json};

use super::Object;
use crate::component::Image;
use crate::mount::checksum_of_text;
use crate::security;
use crate::vpn_seed_server::RELEASE;

/// Name of all its objects.
const VPN_SHOOT: &str = "vpn-shoot";
const NAMESPACE: &str = "kube-system";
/// The port of health and metrics.
const HEALTH_PORT: u16 = 8134;
/// The port that shows profiles, which are off.
const ADMIN_PORT: u16 = 8133;
/// Where it finds its certificate.
const FOLDER: &str = "/srv/proxy-agent";
/// It goes on with what it carries after SIGTERM, until it is killed: what it carries are connections that
/// never end by themselves, such as watches of logs.
const GRACE_PERIOD_SECONDS: u32 = 5;
/// How long its node may be unreachable before another one runs it.
const GONE_SECONDS: u32 = 30;

/// Its image.
pub const VPN_SHOOT_IMAGE: Image = Image::Upstream {
    name: "proxy-agent",
    tag: RELEASE,
};

/// Settings of the agent. It holds a key: no Debug.
pub struct VpnSettings {
    /// Full image reference.
    pub image: String,
    /// Name in the server's certificate.
    pub server_name: String,
    /// The server's address as nodes reach it.
    pub server_address: IpAddr,
    /// Its port there.
    pub server_port: u16,
    /// The authorities of the server's certificate, as PEM.
    pub authorities: String,
    /// The agent's certificate, as PEM.
    pub certificate: String,
    /// Its key, as PEM.
    pub key: String,
    /// Networks of nodes: those that the infrastructure has reported, where it has.
    pub node_networks: Vec<String>,
    /// Networks of pods.
    pub pod_networks: Vec<String>,
    /// Networks of Services.
    pub service_networks: Vec<String>,
}

/// The agent, its certificate, and the network policies that it needs.
#[must_use]
pub fn vpn_objects(settings: &VpnSettings) -> Vec<Object> {
    let VpnSettings {
        authorities,
        certificate,
        key,
        ..
    } = settings;
    let credential = json!({"ca.crt": authorities, "tls.crt": certificate, "tls.key": key});
    let checksum = checksum_of_text(&credential.to_string());
    vec![
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": VPN_SHOOT, "namespace": NAMESPACE, "labels": labels()},
            "type": "Opaque",
            "stringData": credential,
        }),
        json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": VPN_SHOOT, "namespace": NAMESPACE, "labels": labels()},
            "automountServiceAccountToken": false,
        }),
        egress(settings),
        from_seed(),
        deployment(settings, &checksum),
    ]
}

/// What selects its pods.
fn selector() -> Value {
    json!({"app": VPN_SHOOT})
}

fn labels() -> Value {
    json!({"app": VPN_SHOOT, "gardener.cloud/role": "system-component", "origin": "gardener"})
}

/// To what kube-apiserver may want to reach, and to the server. Where that is depends on the seed: a load balancer, whose
/// addresses change.
fn egress(settings: &VpnSettings) -> Object {
    let VpnSettings {
        node_networks,
        pod_networks,
        service_networks,
        server_port,
        ..
    } = settings;
    let shoot = [node_networks, pod_networks, service_networks];
    let shoot: Vec<Value> = shoot
        .into_iter()
        .flatten()
        .map(|cidr| json!({"ipBlock": {"cidr": cidr}}))
        .collect();
    let everywhere = super::network_policies::EVERYWHERE.map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    policy(
        "allow-vpn",
        "Allows the VPN to connect to nodes, pods and Services of the shoot and to its server in the seed.",
        json!({
            "podSelector": {"matchLabels": selector()},
            "policyTypes": ["Egress"],
            "egress": [
                {"to": shoot},
                {"to": everywhere, "ports": [{"port": server_port, "protocol": "TCP"}]},
            ],
        }),
    )
}

fn from_seed() -> Object {
    let label = network::FROM_SEED;
    policy(
        "allow-from-seed",
        &format!(
            "Allows ingress from the control plane to pods labeled with '{label}={}'.",
            network::ALLOWED
        ),
        json!({
            "podSelector": {"matchLabels": {label: network::ALLOWED}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": selector()}}]}],
        }),
    )
}

fn policy(name: &str, description: &str, spec: Value) -> Object {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": format!("gardener.cloud--{name}"),
            "namespace": NAMESPACE,
            "annotations": {annotations::DESCRIPTION: description},
        },
        "spec": spec,
    })
}

fn deployment(settings: &VpnSettings, checksum: &str) -> Object {
    let mut of_pods = labels();
    of_pods[network::TO_DNS] = network::ALLOWED.into();
    // A deletion empties the shoot while nodes are still there: without it, a pod would be deleted and recreated until the nodes go.
    of_pods["shoot.gardener.cloud/no-cleanup"] = "true".into();
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": VPN_SHOOT, "namespace": NAMESPACE, "labels": labels()},
        "spec": {
            "replicas": 1,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector()},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": of_pods, "annotations": {"checksum/secret-vpn-shoot": checksum}},
                "spec": {
                    "serviceAccountName": VPN_SHOOT,
                    "automountServiceAccountToken": false,
                    "securityContext": security::pod(),
                    "priorityClassName": "system-cluster-critical",
                    "terminationGracePeriodSeconds": GRACE_PERIOD_SECONDS,
                    // Whatever is wrong with the cluster, its logs are read through this. Of a node that is gone it is soon replaced: the
                    // first toleration that matches counts.
                    "tolerations": [
                        gone_after("node.kubernetes.io/not-ready"),
                        gone_after("node.kubernetes.io/unreachable"),
                        {"effect": "NoSchedule", "operator": "Exists"},
                        {"effect": "NoExecute", "operator": "Exists"},
                    ],
                    // As nodes resolve names: the cluster's own name server needs none of it.
                    "dnsPolicy": "Default",
                    "hostAliases": [{"ip": settings.server_address, "hostnames": [settings.server_name]}],
                    "containers": [container(settings)],
                    "volumes": [{"name": VPN_SHOOT, "secret": {"secretName": VPN_SHOOT, "defaultMode": 0o640}}],
                },
            },
        },
    })
}

fn gone_after(taint: &str) -> Value {
    json!({"key": taint, "effect": "NoExecute", "operator": "Exists", "tolerationSeconds": GONE_SECONDS})
}

fn container(settings: &VpnSettings) -> Value {
    let probe = |path: &str, every_seconds: u32| {
        json!({
            "httpGet": {"path": path, "port": HEALTH_PORT, "scheme": "HTTP"},
            "periodSeconds": every_seconds,
            "failureThreshold": 3,
        })
    };
    json!({
        "name": VPN_SHOOT,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/proxy-agent"],
        "args": [
            format!("--admin-server-port={ADMIN_PORT}"),
            format!("--agent-cert={FOLDER}/tls.crt"),
            format!("--agent-key={FOLDER}/tls.key"),
            format!("--ca-cert={FOLDER}/ca.crt"),
            format!("--health-server-port={HEALTH_PORT}"),
            // A connection that a load balancer has forgotten is noticed. The server ends those that ask twice a minute.
            "--keepalive-time=1m",
            format!("--proxy-server-host={}", settings.server_name),
            format!("--proxy-server-port={}", settings.server_port),
        ],
        "ports": [{"name": "health", "containerPort": HEALTH_PORT, "protocol": "TCP"}],
        "livenessProbe": probe("/healthz", 10),
        // It is ready while it is connected to the server.
        "readinessProbe": probe("/readyz", 2),
        "resources": {"requests": {"cpu": "20m", "memory": "40Mi"}},
        "securityContext": security::container(),
        "volumeMounts": [{"name": VPN_SHOOT, "mountPath": FOLDER, "readOnly": true}],
    })
}
