//! Authorities, certificates and keys of a shoot: those that components share stand here, a component's own in its file.

use std::net::IpAddr;
use std::time::Duration;

use api_meta::names;
use base_secrets::{CertificateSpec, Wanted};

use crate::api_server;
use crate::component::HostedCluster;
use crate::etcd::Etcd;
use crate::table::{ComponentId, existing};

/// Signs the API server's certificate.
pub const CA: &str = "ca";
/// Signs clients of the API server.
pub const CA_CLIENT: &str = "ca-client";
/// Signs etcd and its clients.
pub const CA_ETCD: &str = "ca-etcd";
/// Signs the API server as a client of aggregated ones.
pub const CA_FRONT_PROXY: &str = "ca-front-proxy";
/// Signs nodes' serving certificates.
pub const CA_KUBELET: &str = "ca-kubelet";
/// Signs service account tokens.
pub const SERVICE_ACCOUNT_KEY: &str = "service-account-key";
/// Opens the nodes to SSH.
pub const SSH_KEY_PAIR: &str = "ssh-keypair";
/// gardenlet's client certificate for the shoot.
pub const GARDENLET: &str = "gardenlet";

/// How long certificates of servers and clients are valid. They are renewed after 80 % of it, at the next reconcile, which
/// comes every hour.
const VALIDITY: Duration = Duration::from_secs(90 * 24 * 3600);

/// The order in which a new shoot's secrets are generated; what is not listed comes behind, in the order of the table. Keys
/// are drawn from one source of randomness: without this list, a new component would change the keys of all others in a
/// landscape that is replayed.
const GENERATED_FIRST: [&str; 16] = [
    CA,
    CA_CLIENT,
    CA_ETCD,
    CA_FRONT_PROXY,
    SERVICE_ACCOUNT_KEY,
    api_server::SERVER,
    Etcd::Main.certificate(),
    api_server::ETCD_CLIENT,
    api_server::AGGREGATOR,
    GARDENLET,
    CA_KUBELET,
    SSH_KEY_PAIR,
    "gardener-resource-manager-client",
    "kube-controller-manager-client",
    "kube-scheduler-client",
    "machine-controller-manager-client",
];

/// What no single component owns.
#[must_use]
pub fn cluster_secrets(cluster: &HostedCluster) -> Vec<Wanted> {
    let mut wanted = vec![
        Wanted::authority(CA, "kubernetes"),
        Wanted::authority(CA_CLIENT, "kubernetes-client"),
        Wanted::authority(CA_ETCD, "etcd"),
        Wanted::authority(CA_FRONT_PROXY, "front-proxy"),
        Wanted::signing_key(SERVICE_ACCOUNT_KEY),
        Wanted::certificate(GARDENLET, CA_CLIENT, client(names::GARDENLET_SHOOT_USER)),
        // Without workers too: kube-controller-manager needs an authority to sign with.
        Wanted::authority(CA_KUBELET, "kubelet"),
    ];
    if cluster.ssh_access {
        wanted.push(Wanted::ssh_key_pair(SSH_KEY_PAIR));
    }
    wanted
}

/// Everything that a shoot has: what its components share, and what each of them has of its own. No name comes twice.
#[must_use]
pub fn wanted_secrets(cluster: &HostedCluster) -> Vec<Wanted> {
    let mut wanted = cluster_secrets(cluster);
    for component in existing(cluster).map(ComponentId::component) {
        let own = component.secrets(cluster);
        let new: Vec<Wanted> = own
            .into_iter()
            .filter(|one| wanted.iter().all(|present| present.name != one.name))
            .collect();
        wanted.extend(new);
    }
    let position = |one: &Wanted| GENERATED_FIRST.iter().position(|name| *name == one.name);
    wanted.sort_by_key(|one| position(one).unwrap_or(GENERATED_FIRST.len()));
    wanted
}

/// A client certificate for the user `user`, without groups.
pub(crate) fn client(user: &str) -> CertificateSpec {
    CertificateSpec::client(user, &[], VALIDITY)
}

/// The certificate of a server in the shoot's namespace, which is reached on loopback too.
pub(crate) fn server(name: &str, dns_names: Vec<String>, addresses: Vec<IpAddr>) -> CertificateSpec {
    CertificateSpec::server(name, dns_names, addresses, VALIDITY)
}

/// The names of a Service inside its cluster.
pub(crate) fn service_names(name: &str, namespace: &str) -> [String; 4] {
    [
        name.to_owned(),
        format!("{name}.{namespace}"),
        format!("{name}.{namespace}.svc"),
        format!("{name}.{namespace}.svc.cluster.local"),
    ]
}
