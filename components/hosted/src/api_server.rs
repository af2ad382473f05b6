//! A shoot's kube-apiserver. Flags as `kube-apiserver --help` of Kubernetes 1.35 spells them.

use std::net::IpAddr;

use api_meta::annotations::network as annotations;
use api_meta::labels::{self, network};
use api_meta::{conditions, names};
use base_secrets::{CertificateSpec, Wanted};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use serde_json::{Value, json};

use crate::component::{Component, HostedCluster, Image, Issued, MissingSecret, Place, Titles, titles};
use crate::etcd::{CLIENT_PORT, Etcd};
use crate::mount::Mounts;
use crate::object::{
    HostedObject, Labels, from_scrape_targets, https_probe, namespaces_with, open_ports, startup_probe, to_service,
    typed,
};
use crate::secrets::{CA, CA_CLIENT, CA_ETCD, CA_FRONT_PROXY, SERVICE_ACCOUNT_KEY, client, server, service_names};
use crate::security;
use crate::vpn_seed_server::Egress;

/// Name of Deployment and Service.
pub const API_SERVER: &str = "kube-apiserver";
/// Port of pods and Service.
pub(crate) const PORT: u16 = 443;
const LABELS: Labels = Labels {
    app: "kubernetes",
    role: Some("apiserver"),
    name: API_SERVER,
};

/// Its certificate as a server.
pub(crate) const SERVER: &str = "kube-apiserver";
/// Its certificate as a client of etcd.
pub(crate) const ETCD_CLIENT: &str = "etcd-client";
/// Its certificate as a client of aggregated API servers.
pub(crate) const AGGREGATOR: &str = "kube-aggregator";

/// Its certificate as a client of kubelets.
const KUBELET_CLIENT: &str = "kube-apiserver-kubelet";
/// The user that it is for kubelets. They let it in by the shoot's own rights.
pub(crate) const KUBELET_USER: &str = "system:kube-apiserver:kubelet";

/// Titles of its Service.
const SERVICE_TITLES: Titles = Titles {
    deploy: "Deploying Kubernetes API server service in the Seed cluster",
    wait: "Waiting until Kubernetes API server service in the Seed cluster has reported readiness",
    deploy_for_deletion: "Deploying Kubernetes API server service in the Seed cluster",
    wait_for_deletion: "Waiting until Kubernetes API LoadBalancer in the Seed cluster has reported readiness",
    ..titles!("Kubernetes API server service", "kube-apiserver")
};

/// The API server.
pub(crate) struct ApiServer;

impl Component for ApiServer {
    fn name(&self) -> &'static str {
        API_SERVER
    }

    fn titles(&self) -> Titles {
        Titles {
            wait: "Waiting until Kubernetes API server rolled out",
            wait_for_deletion: "Waiting until Kubernetes API server reports readiness",
            destroy: "Deleting Kubernetes API server",
            wait_destroyed: "Waiting until Kubernetes API server has been deleted",
            early: Some(&SERVICE_TITLES),
            ..titles!("Kubernetes API server", "kube-apiserver")
        }
    }

    fn image(&self) -> Image {
        Image::Kubernetes(API_SERVER)
    }

    fn place(&self) -> Place {
        Place::ApiServer
    }

    fn secrets(&self, cluster: &HostedCluster) -> Vec<Wanted> {
        vec![
            Wanted::certificate(SERVER, CA, certificate(cluster)),
            Wanted::certificate(ETCD_CLIENT, CA_ETCD, client(API_SERVER)),
            Wanted::certificate(AGGREGATOR, CA_FRONT_PROXY, client("system:kube-aggregator")),
            Wanted::certificate(KUBELET_CLIENT, CA_CLIENT, client(KUBELET_USER)),
        ]
    }

    /// Without it nothing of the control plane works, and clients want to know about it alone.
    fn conditions(&self) -> &'static [&'static str] {
        &[
            conditions::shoot::API_SERVER_AVAILABLE,
            conditions::shoot::CONTROL_PLANE_HEALTHY,
        ]
    }

    fn early_objects(&self, cluster: &HostedCluster) -> Vec<HostedObject> {
        vec![service(&cluster.namespace).into()]
    }

    fn objects(&self, cluster: &HostedCluster, issued: &Issued) -> Result<Vec<HostedObject>, MissingSecret> {
        let egress = Egress::of(cluster, issued)?;
        let mut objects = vec![LABELS.disruption_budget(&cluster.namespace).into()];
        objects.extend(
            egress
                .iter()
                .map(|egress| egress.config_map(&cluster.namespace, LABELS.all()).into()),
        );
        objects.push(deployment(cluster, issued, egress.as_ref())?.into());
        Ok(objects)
    }
}

fn certificate(cluster: &HostedCluster) -> CertificateSpec {
    let mut dns_names: Vec<String> = service_names(API_SERVER, &cluster.namespace).into();
    dns_names.extend(service_names("kubernetes", "default"));
    dns_names.push("localhost".to_owned());
    dns_names.extend(cluster.server_names.iter().cloned());
    let mut addresses = vec![IpAddr::from([127, 0, 0, 1])];
    addresses.extend(cluster.services.iter().filter_map(|network| first_address(network)));
    server(API_SERVER, dns_names, addresses)
}

/// The address of the Service `kubernetes`: the first of the network.
fn first_address(network: &str) -> Option<IpAddr> {
    let (address, _) = network.split_once('/')?;
    match address.parse().ok()? {
        IpAddr::V4(address) => Some(IpAddr::V4((u32::from(address).checked_add(1)?).into())),
        IpAddr::V6(address) => Some(IpAddr::V6((u128::from(address).checked_add(1)?).into())),
    }
}

/// The Service, which exists before the Deployment does.
pub(crate) fn service(namespace: &str) -> Service {
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

/// The program.
fn deployment(
    cluster: &HostedCluster,
    issued: &Issued,
    egress: Option<&Egress<'_>>,
) -> Result<Deployment, MissingSecret> {
    let mounts = mounts(issued, egress)?;
    let webhooks = format!("{}to-{}", network::PREFIX, network::WEBHOOK_TARGETS);
    let extensions = format!(
        "{}to-{}-{}",
        network::PREFIX,
        network::EXTENSIONS,
        network::WEBHOOK_TARGETS
    );
    let mut pods = LABELS.of_pods(&[
        network::TO_DNS,
        network::TO_PUBLIC_NETWORKS,
        network::TO_PRIVATE_NETWORKS,
        &webhooks,
        &extensions,
        &to_service(Etcd::Main.client_service(), CLIENT_PORT),
        &to_service(Etcd::Events.client_service(), CLIENT_PORT),
    ]);
    let (mut annotations, mut volumes) = (mounts.annotations(), mounts.volumes());
    if let Some(egress) = egress {
        pods[egress.label()] = network::ALLOWED.into();
        let (key, checksum) = egress.checksum();
        annotations[key] = checksum.into();
        volumes.push(egress.volume());
    }
    Ok(typed(json!({
        "metadata": {"name": API_SERVER, "namespace": cluster.namespace, "labels": LABELS.with_webhooks()},
        "spec": {
            "replicas": issued.replicas,
            "revisionHistoryLimit": 2,
            "minReadySeconds": 0,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "100%", "maxUnavailable": 0}},
            "selector": {"matchLabels": LABELS.selector()},
            "template": {
                "metadata": {"labels": pods, "annotations": annotations},
                "spec": {
                    "automountServiceAccountToken": false,
                    "securityContext": security::pod_with_low_ports(),
                    "priorityClassName": "gardener-system-500",
                    "terminationGracePeriodSeconds": 30,
                    "containers": [container(cluster, issued, &mounts, egress)],
                    "volumes": volumes,
                },
            },
        },
    })))
}

fn container(cluster: &HostedCluster, issued: &Issued, mounts: &Mounts<'_>, egress: Option<&Egress<'_>>) -> Value {
    let mut volume_mounts = mounts.volume_mounts();
    volume_mounts.extend(egress.map(Egress::volume_mount));
    let mut args = args(cluster);
    args.extend(egress.map(Egress::flag));
    json!({
        "name": API_SERVER,
        "image": issued.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["/usr/local/bin/kube-apiserver"],
        "args": args,
        // Else it would look for an interface with a route, which not every pod network shows.
        "env": [{"name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}],
        "ports": [{"name": "https", "containerPort": PORT, "protocol": "TCP"}],
        // It serves once it has read what etcd holds, and no liveness counts until then.
        "startupProbe": startup_probe("/livez", PORT),
        "livenessProbe": https_probe("/livez", PORT),
        "readinessProbe": https_probe("/readyz", PORT),
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {"requests": {"cpu": "250m", "memory": "500Mi"}},
        "securityContext": security::container_with_low_ports(),
        "volumeMounts": volume_mounts,
    })
}

fn mounts<'a>(issued: &'a Issued, egress: Option<&Egress<'a>>) -> Result<Mounts<'a>, MissingSecret> {
    let mut mounts = vec![
        ("ca", issued.bundle(CA)?, "/srv/kubernetes/ca"),
        ("ca-client", issued.bundle(CA_CLIENT)?, "/srv/kubernetes/ca-client"),
        ("ca-etcd", issued.bundle(CA_ETCD)?, "/srv/kubernetes/etcd/ca"),
        (
            "ca-front-proxy",
            issued.bundle(CA_FRONT_PROXY)?,
            "/srv/kubernetes/ca-front-proxy",
        ),
        (
            "etcd-client",
            issued.secret(ETCD_CLIENT)?,
            "/srv/kubernetes/etcd/client",
        ),
        (
            "kube-aggregator",
            issued.secret(AGGREGATOR)?,
            "/srv/kubernetes/aggregator",
        ),
        (
            "kubelet-client",
            issued.secret(KUBELET_CLIENT)?,
            "/srv/kubernetes/apiserver-kubelet",
        ),
        ("server", issued.secret(SERVER)?, "/srv/kubernetes/apiserver"),
        (
            "service-account-key",
            issued.secret(SERVICE_ACCOUNT_KEY)?,
            "/srv/kubernetes/service-account-key",
        ),
        (
            "service-account-key-bundle",
            issued.bundle(SERVICE_ACCOUNT_KEY)?,
            "/srv/kubernetes/service-account-key-bundle",
        ),
    ];
    mounts.extend(egress.into_iter().flat_map(Egress::mounts));
    Ok(Mounts(mounts))
}

fn args(cluster: &HostedCluster) -> Vec<String> {
    let HostedCluster {
        namespace,
        services,
        api_host,
        ..
    } = cluster;
    vec![
        "--advertise-address=$(POD_IP)".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--client-ca-file=/srv/kubernetes/ca-client/bundle.crt".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-aggregator-routing=true".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--etcd-cafile=/srv/kubernetes/etcd/ca/bundle.crt".to_owned(),
        "--etcd-certfile=/srv/kubernetes/etcd/client/tls.crt".to_owned(),
        "--etcd-keyfile=/srv/kubernetes/etcd/client/tls.key".to_owned(),
        format!("--etcd-servers={}", Etcd::Main.url(namespace)),
        format!("--etcd-servers-overrides={}", overrides(namespace)),
        "--event-ttl=1h".to_owned(),
        format!("--external-hostname={api_host}"),
        "--kubelet-client-certificate=/srv/kubernetes/apiserver-kubelet/tls.crt".to_owned(),
        "--kubelet-client-key=/srv/kubernetes/apiserver-kubelet/tls.key".to_owned(),
        "--kubelet-preferred-address-types=InternalIP,Hostname,ExternalIP".to_owned(),
        "--profiling=false".to_owned(),
        "--proxy-client-cert-file=/srv/kubernetes/aggregator/tls.crt".to_owned(),
        "--proxy-client-key-file=/srv/kubernetes/aggregator/tls.key".to_owned(),
        "--requestheader-allowed-names=".to_owned(),
        "--requestheader-client-ca-file=/srv/kubernetes/ca-front-proxy/bundle.crt".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        format!("--secure-port={PORT}"),
        format!("--service-account-issuer=https://{api_host}"),
        "--service-account-key-file=/srv/kubernetes/service-account-key-bundle/bundle.key".to_owned(),
        "--service-account-signing-key-file=/srv/kubernetes/service-account-key/signing.key".to_owned(),
        format!("--service-cluster-ip-range={}", services.join(",")),
        "--tls-cert-file=/srv/kubernetes/apiserver/tls.crt".to_owned(),
        "--tls-private-key-file=/srv/kubernetes/apiserver/tls.key".to_owned(),
    ]
}

/// Events have a store of their own, under both names by which they are known.
fn overrides(namespace: &str) -> String {
    let store = Etcd::Events.url(namespace);
    format!("/events#{store},events.k8s.io/events#{store}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kubernetes_service_has_the_first_address_of_its_network() {
        assert_eq!(first_address("100.64.0.0/13"), Some(IpAddr::from([100, 64, 0, 1])));
        assert_eq!(first_address("fd00::/108"), "fd00::1".parse().ok());
        assert_eq!(first_address("255.255.255.255/32"), None);
        assert_eq!(first_address("nonsense"), None);
    }
}
