//! A shoot's kube-apiserver. Flags as `kube-apiserver --help` of Kubernetes 1.35 spells them.

use api_meta::annotations::network as annotations;
use api_meta::labels::{self, network};
use api_meta::names;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::etcd::{CLIENT_PORT, ETCD_CLIENT_SERVICE};
use crate::mount::{Mounted, Mounts};
use crate::object::{Labels, from_scrape_targets, https_probe, namespaces_with, open_ports, to_service, typed};

/// Name of Deployment and Service.
pub const API_SERVER: &str = "kube-apiserver";
/// Port of pods and Service.
pub(crate) const PORT: u16 = 443;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("apiserver"),
    name: API_SERVER,
};

/// Settings of kube-apiserver.
#[derive(Clone, Debug)]
pub struct ApiServerSettings {
    /// The shoot's namespace in the seed.
    pub namespace: String,
    /// Full image reference.
    pub image: String,
    /// How many pods.
    pub replicas: i32,
    /// URL of the store.
    pub etcd_servers: String,
    /// Bundle of the authority of etcd.
    pub etcd_authority: Mounted,
    /// The certificate with which it is a client of etcd.
    pub etcd_client: Mounted,
    /// Bundle of the authority whose clients it knows.
    pub client_authority: Mounted,
    /// Bundle of the authority of its own certificate.
    pub authority: Mounted,
    /// Its own certificate.
    pub server: Mounted,
    /// The key that signs service account tokens.
    pub service_account_key: Mounted,
    /// All keys whose service account tokens it knows.
    pub service_account_keys: Mounted,
    /// Authority of the aggregation layer's clients.
    pub front_proxy_authority: Mounted,
    /// The certificate with which it is a client of aggregated API servers.
    pub aggregator_client: Mounted,
    /// `iss` of service account tokens.
    pub service_account_issuer: String,
    /// Networks of services, in CIDR form.
    pub service_networks: Vec<String>,
    /// The host under which clients outside the seed reach it.
    pub external_hostname: String,
}

/// The Service, which exists before the Deployment does.
#[must_use]
pub fn api_server_service(namespace: &str) -> Service {
    let neighbours = namespaces_with(&[
        (labels::ACCESS_TARGET_API_SERVER, network::ALLOWED),
        ("kubernetes.io/metadata.name", names::GARDEN_NAMESPACE),
        (labels::ROLE, labels::role::EXTENSION),
    ]);
    typed(json!({
        "metadata": {
            "name": API_SERVER, "namespace": namespace, "labels": LABELS.all(),
            "annotations": {
                from_scrape_targets(): open_ports(&[PORT]),
                annotations::NAMESPACE_SELECTORS: neighbours,
                annotations::POD_LABEL_SELECTOR_NAMESPACE_ALIAS: network::ALL_SHOOTS,
            },
        },
        "spec": {
            "type": "ClusterIP",
            "selector": LABELS.selector(),
            "ports": [{"name": API_SERVER, "port": 443, "targetPort": PORT, "protocol": "TCP"}],
        },
    }))
}

/// The Deployment.
#[must_use]
pub fn api_server(settings: &ApiServerSettings) -> Deployment {
    let mounts = mounts(settings);
    let webhooks = format!("{}to-{}", network::PREFIX, network::WEBHOOK_TARGETS);
    let extensions = format!(
        "{}to-{}-{}",
        network::PREFIX,
        network::EXTENSIONS,
        network::WEBHOOK_TARGETS
    );
    let pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        &webhooks,
        &extensions,
        &to_service(ETCD_CLIENT_SERVICE, CLIENT_PORT),
    ]);
    typed(json!({
        "metadata": {"name": API_SERVER, "namespace": settings.namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": settings.replicas,
            "revisionHistoryLimit": 2,
            "minReadySeconds": 0,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": mounts.annotations()},
                "spec": {
                    "automountServiceAccountToken": false,
                    "priorityClassName": "gardener-system-500",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [container(settings, &mounts)],
                    "volumes": mounts.volumes(),
                },
            },
        },
    }))
}

fn container(settings: &ApiServerSettings, mounts: &Mounts<'_>) -> Value {
    json!({
        "name": API_SERVER,
        "image": settings.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/local/bin/kube-apiserver"],
        "args": args(settings),
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        "livenessProbe": https_probe("/livez", PORT),
        "readinessProbe": https_probe("/readyz", PORT),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "250m", "memory": "500Mi"}},
        "volumeMounts": mounts.volume_mounts(),
    })
}

fn mounts(settings: &ApiServerSettings) -> Mounts<'_> {
    Mounts(vec![
        ("ca", &settings.authority, "/srv/kubernetes/ca"),
        ("ca-client", &settings.client_authority, "/srv/kubernetes/ca-client"),
        ("ca-etcd", &settings.etcd_authority, "/srv/kubernetes/etcd/ca"),
        (
            "ca-front-proxy",
            &settings.front_proxy_authority,
            "/srv/kubernetes/ca-front-proxy",
        ),
        ("etcd-client", &settings.etcd_client, "/srv/kubernetes/etcd/client"),
        (
            "kube-aggregator",
            &settings.aggregator_client,
            "/srv/kubernetes/aggregator",
        ),
        ("server", &settings.server, "/srv/kubernetes/apiserver"),
        (
            "service-account-key",
            &settings.service_account_key,
            "/srv/kubernetes/service-account-key",
        ),
        (
            "service-account-key-bundle",
            &settings.service_account_keys,
            "/srv/kubernetes/service-account-key-bundle",
        ),
    ])
}

fn args(settings: &ApiServerSettings) -> Vec<String> {
    let ApiServerSettings {
        etcd_servers,
        service_account_issuer,
        service_networks,
        external_hostname,
        ..
    } = settings;
    vec![
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--client-ca-file=/srv/kubernetes/ca-client/bundle.crt".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--etcd-cafile=/srv/kubernetes/etcd/ca/bundle.crt".to_owned(),
        "--etcd-certfile=/srv/kubernetes/etcd/client/tls.crt".to_owned(),
        "--etcd-keyfile=/srv/kubernetes/etcd/client/tls.key".to_owned(),
        format!("--etcd-servers={etcd_servers}"),
        "--event-ttl=1h".to_owned(),
        format!("--external-hostname={external_hostname}"),
        "--profiling=false".to_owned(),
        "--proxy-client-cert-file=/srv/kubernetes/aggregator/tls.crt".to_owned(),
        "--proxy-client-key-file=/srv/kubernetes/aggregator/tls.key".to_owned(),
        "--requestheader-allowed-names=".to_owned(),
        "--requestheader-client-ca-file=/srv/kubernetes/ca-front-proxy/bundle.crt".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--service-account-issuer={service_account_issuer}"),
        "--service-account-key-file=/srv/kubernetes/service-account-key-bundle/bundle.key".to_owned(),
        "--service-account-signing-key-file=/srv/kubernetes/service-account-key/signing.key".to_owned(),
        format!("--service-cluster-ip-range={}", service_networks.join(",")),
        "--tls-cert-file=/srv/kubernetes/apiserver/tls.crt".to_owned(),
        "--tls-private-key-file=/srv/kubernetes/apiserver/tls.key".to_owned(),
    ]
}
