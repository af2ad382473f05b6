//! One API server of the landscape with its authorities: started, registered at the front, and the kubeconfigs of
//! those who may speak to it. It hands out identities; what an identity may do is RBAC's.
//!
//! At the front a garden or seed is `NAME.orangery.internal`, behind the Service `default/kubernetes` of its own cluster; a Shoot's
//! API server is registered by its pod as `kube-apiserver.SHOOT-NAMESPACE.svc`, as its Service in the seed is called.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec, Credential, Issued, KubeconfigSpec, SecretError};
use cluster_apiserver::{ApiServer, Authorities, Gatekeeper, Kind, Protection, TokenAuthority};
use cluster_bare::pods_of;
use cluster_front::{Front, RegisteredServer, Registration};
use cluster_node::{Network, NodeServices};
use ipnet::IpNet;
use kube::config::Kubeconfig;
use landscape_data_folder::server_data::{Keys, ServerData};

/// How long the certificates of the landscape's own parts are valid, and those in its kubeconfigs. The authorities that
/// sign them outlive the process; these do not: every start issues new ones, which also replaces those that have
/// expired.
const VALIDITY: Duration = Duration::from_secs(365 * 24 * 3600);
/// In-cluster names of every API server, so that pods may call it by its Service.
const SERVICE_NAMES: [&str; 4] = [
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];

/// What an API server of the landscape is started with.
pub(super) struct ApiSettings<'a> {
    pub(super) name: &'a str,
    pub(super) data: &'a ServerData,
    /// `https://127.0.0.1:6443`; all servers of a process have one.
    pub(super) url: &'a str,
    pub(super) kinds: Vec<Arc<dyn Kind>>,
    pub(super) services: Option<IpNet>,
    /// What is only deleted once it is confirmed.
    pub(super) protection: Option<Protection>,
    /// What decides before the access rules.
    pub(super) gatekeeper: Option<Arc<dyn Gatekeeper>>,
    pub(super) front: &'a Front,
    pub(super) clock: &'a Clock,
    pub(super) entropy: &'a Entropy,
    pub(super) audit_records: usize,
}

/// A running API server of the landscape.
pub struct Api {
    server: ApiServer,
    server_name: String,
    url: String,
    authority: Arc<Authority>,
    clients: Arc<Authority>,
    clock: Clock,
    entropy: Entropy,
    nodes: NodeServices,
    pods: Network,
    _registration: Registration,
}

impl Api {
    pub(super) async fn start(settings: ApiSettings<'_>) -> Result<Self, Fault> {
        let ApiSettings {
            name,
            data,
            url,
            kinds,
            services,
            protection,
            gatekeeper,
            front,
            clock,
            entropy,
            audit_records,
        } = settings;
        let server_name = format!("{name}.orangery.internal");
        let authorities = authorities(&data.keys, &server_name);
        let Keys { authority, clients, .. } = data.keys.clone();
        let nodes = NodeServices::default();
        let known_nodes = nodes.clone();
        let pods = Network::new();
        let mut builder = ApiServer::builder(name)
            .nodes(move |node| known_nodes.find(node))
            .pods(pods_of(&pods))
            .shared_store(data.store.clone())
            .kinds(kinds)
            .clock(clock.clone())
            .entropy(entropy.clone())
            .authorities(authorities)
            .audit_records(audit_records);
        if let Some(range) = services {
            builder = builder.service_range(range);
        }
        if let Some(protection) = protection {
            builder = builder.protect(protection);
        }
        if let Some(gatekeeper) = gatekeeper {
            builder = builder.gatekeeper(gatekeeper);
        }
        let server = builder
            .build()
            .await
            .map_err(|status| Fault::bug(format!("API server {name}: {status}")))?;
        // The Service `kubernetes` has the first address of the range; client-go dials that from inside a pod.
        let address = services.and_then(|range| range.hosts().next());
        let certificate = certificate(&server_name, address, &authority, clock, entropy)?;
        let registered = registered(&server, &certificate)?;
        let registration = front
            .register([server_name.clone()], registered)
            .map_err(|error| Fault::bug(error.to_string()))?;
        Ok(Self {
            _registration: registration,
            server,
            server_name,
            url: url.to_owned(),
            authority,
            clients,
            clock: clock.clone(),
            entropy: entropy.clone(),
            nodes,
            pods,
        })
    }

    /// The server itself: its audit record, its readiness.
    #[must_use]
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// Where its nodes put themselves, so that it can ask them for logs.
    #[must_use]
    pub fn nodes(&self) -> NodeServices {
        self.nodes.clone()
    }

    /// The network of its nodes' pods, so that requests to these are carried on.
    #[must_use]
    pub fn pods(&self) -> Network {
        self.pods.clone()
    }

    /// `https://127.0.0.1:PORT`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The authority of the server's own certificate, as PEM.
    #[must_use]
    pub fn authority_pem(&self) -> String {
        self.authority.certificate_pem()
    }

    /// The name that its certificate has, and that clients ask for.
    #[must_use]
    pub fn server_name(&self) -> &str {
        &self.server_name
    }

    /// The address of this server among those at its URL. The path keeps what kubectl has discovered of one server from
    /// another; the front takes it away.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{}/clusters/{}", self.url, self.server_name)
    }

    /// Who signs the certificates of clients.
    #[must_use]
    pub fn client_authority(&self) -> Arc<Authority> {
        self.clients.clone()
    }

    /// A kubeconfig for `user` in `groups`, with a certificate of its own.
    ///
    /// # Errors
    /// The certificate cannot be made, which is a bug.
    pub fn kubeconfig(&self, user: &str, groups: &[&str]) -> Result<Kubeconfig, Fault> {
        let spec = CertificateSpec::client(user, groups, VALIDITY);
        let issued = self.clients.issue(&spec, &self.clock, &self.entropy).map_err(bug)?;
        Ok(base_secrets::kubeconfig(&KubeconfigSpec {
            name: self.server.name().to_owned(),
            server: self.address(),
            tls_server_name: Some(self.server_name.clone()),
            authorities: self.authority_pem(),
            credential: Credential::Certificate(Box::new(issued)),
            namespace: None,
        }))
    }
}

/// Whom the server of this name believes: its own client certificates and the tokens that it signs itself.
fn authorities(keys: &Keys, server_name: &str) -> Authorities {
    let tokens = keys.tokens.clone();
    Authorities {
        client_authorities: keys.clients.certificate_pem(),
        service_accounts: Some(TokenAuthority {
            issuer: format!("https://{server_name}"),
            keys_url: None,
            audiences: Vec::new(),
            verifiers: vec![tokens.public()],
            signer: Some(tokens),
        }),
        bootstrap_tokens: false,
    }
}

/// A certificate for all names of a server, and for its Service's address.
fn certificate(
    name: &str,
    address: Option<IpAddr>,
    authority: &Authority,
    clock: &Clock,
    entropy: &Entropy,
) -> Result<Issued, Fault> {
    let names = std::iter::once(name).chain(SERVICE_NAMES).map(str::to_owned);
    let spec = CertificateSpec::server(name, names.collect(), address.into_iter().collect(), VALIDITY);
    authority.issue(&spec, clock, entropy).map_err(bug)
}

fn registered(server: &ApiServer, certificate: &Issued) -> Result<RegisteredServer, Fault> {
    let key = certificate.key_pem();
    RegisteredServer::new(server.service(), &certificate.certificate_pem(), key.expose())
        .map_err(|error| Fault::bug(error.to_string()))
}

fn bug(error: SecretError) -> Fault {
    Fault::bug(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_has_the_names_and_the_address_that_pods_dial() {
        let (clock, entropy) = (Clock::real(), Entropy::seeded(1));
        let authority = Authority::generate("ca", &clock, &entropy).unwrap();
        let range: IpNet = "10.2.0.0/16".parse().unwrap();
        let address = range.hosts().next();
        let issued = certificate("seed.orangery.internal", address, &authority, &clock, &entropy).unwrap();
        let issued = issued.certificate;
        assert_eq!(issued.ip_addresses(), [IpAddr::from([10, 2, 0, 1])]);
        for name in SERVICE_NAMES.into_iter().chain(["seed.orangery.internal"]) {
            assert!(issued.dns_names().iter().any(|own| own == name), "{name}");
        }
    }
}
