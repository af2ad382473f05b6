//! Between an API server and the nodes of its cluster: what listens on pods of this process, the port of a node for API servers
//! of other processes, and how nodes of other processes are called.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::CertificateSpec;
use cluster_apiserver::{KubeletClient, PodPort};
use cluster_front::{ANY_NAME, Front, RegisteredServer};
use cluster_node::{Endpoint, Network, NodeServices};
use kube::Client;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Keys;

/// The user of requests to kubelets, as kubeadm names it, and a group that may.
const USER: &str = "kube-apiserver-kubelet-client";
const GROUP: &str = "system:masters";
/// How long certificates are valid; every start issues new ones.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// Which addresses of nodes are used: other than kube-apiserver expects, no name server here has the names of nodes.
const PREFERRED: [&str; 5] = ["InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"];

/// How kubelets of other processes are called, where that differs from the cluster's own nodes.
#[derive(Clone, Debug, Default)]
pub struct KubeletAccess {
    /// Certificate (PEM, its chain behind it) and private key that kubelets are shown. (`--kubelet-client-certificate`,
    /// `--kubelet-client-key`)
    pub identity: Option<(String, Vec<u8>)>,
    /// The authorities of kubelets' certificates beside the cluster's own, as PEM. (`--kubelet-certificate-authority`)
    pub authorities: Option<String>,
    /// Which types of addresses are used, in order of preference; empty: internal addresses, then names.
    /// (`--kubelet-preferred-address-types`)
    pub preferred: Vec<String>,
}

/// What listens on the pods of a network, for [`cluster_apiserver::Builder::pods`].
pub fn pods_of(network: &Network) -> impl Fn(IpAddr, u16) -> PodPort + Send + Sync + 'static {
    let network = network.clone();
    move |ip, port| match network.connect(ip, port) {
        Some(Endpoint::Http(service)) => PodPort::Http(service),
        Some(Endpoint::Bytes(dialer)) => PodPort::Bytes(dialer),
        Some(Endpoint::Store(_)) => PodPort::Closed,
        None if network.has(ip) => PodPort::Closed,
        None => PodPort::Elsewhere,
    }
}

/// The server with what runs on the nodes of this process.
pub(crate) fn with_nodes(
    server: cluster_apiserver::Builder,
    services: &NodeServices,
    network: &Network,
) -> cluster_apiserver::Builder {
    let services = services.clone();
    server.nodes(move |node| services.find(node)).pods(pods_of(network))
}

impl KubeletAccess {
    pub(crate) fn client(self, keys: &Keys, clock: &Clock, entropy: &Entropy) -> Result<KubeletClient, Fault> {
        let (certificate, key) = match self.identity {
            Some(identity) => identity,
            None => {
                let spec = CertificateSpec::client(USER, &[GROUP], VALIDITY);
                let issued = keys.clients.issue(&spec, clock, entropy).map_err(bug)?;
                (issued.certificate_pem(), issued.key_pem().expose_bytes())
            }
        };
        let own = keys.authority.certificate_pem();
        let authorities = match self.authorities {
            Some(given) => format!("{}\n{own}", given.trim_end()),
            None => own,
        };
        let preferred = match self.preferred.is_empty() {
            true => PREFERRED.map(str::to_owned).to_vec(),
            false => self.preferred,
        };
        let client = KubeletClient::new().authorities(&authorities).preferred(preferred);
        client
            .identity(&certificate, &key)
            .map_err(|status| Fault::user(status.message()).hint("give certificate and key as PEM"))
    }
}

/// Serves a node to API servers of other processes, on a free port of 127.0.0.1, until `stop`. `client` is the node's own.
pub(crate) async fn serve_node(
    name: &str,
    services: &NodeServices,
    client: Client,
    keys: &Keys,
    (clock, entropy): (&Clock, &Entropy),
    (tasks, stop): (&TaskTracker, &CancellationToken),
) -> Result<u16, Fault> {
    let guarded = services.guarded(name, client, &keys.clients.certificate_pem(), clock.clone())?;
    let local = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let spec = CertificateSpec::server(
        format!("system:node:{name}"),
        vec![name.to_owned()],
        vec![local],
        VALIDITY,
    );
    let issued = keys.authority.issue(&spec, clock, entropy).map_err(bug)?;
    let server = RegisteredServer::new(guarded, &issued.certificate_pem(), issued.key_pem().expose());
    let server = server.map_err(|error| Fault::bug(error.to_string()))?;
    let front = Front::new(clock.clone());
    let registration = front
        .register([ANY_NAME], server)
        .map_err(|error| Fault::bug(error.to_string()))?;
    let listener = TcpListener::bind((local, 0))
        .await
        .and_then(|listener| Ok((listener.local_addr()?.port(), listener)));
    let (port, listener) =
        listener.map_err(|error| Fault::user(format!("cannot listen on {local} for node {name}: {error}")))?;
    let stop = stop.clone();
    tasks.spawn(async move {
        front.serve(listener, stop).await;
        drop(registration);
    });
    Ok(port)
}

fn bug(error: base_secrets::SecretError) -> Fault {
    Fault::bug(error.to_string())
}
