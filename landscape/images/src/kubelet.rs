//! Kubelets of machines: a machine's address is one of a network that is numbers, so that no packet gets there. API servers that are
//! programs of the machine's namespace are led to its kubelet, which speaks TLS and asks the machine's cluster who may do what.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use api_meta::Fault;
use base_client::{Connection, Dialer};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use cluster_front::{ANY_NAME, Front, RegisteredServer, Registration};
use cluster_node::NodeServices;
use kube::Client;

/// The port of kubelets (kubernetes/kubernetes v1.35 pkg/cluster/ports/ports.go).
pub(crate) const PORT: u16 = 10_250;
/// The certificate of a kubelet, which is made again with each start of its machine.
const VALIDITY: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
/// What a connection between two parts of this process holds in each direction.
const BUFFER_BYTES: usize = 64 << 10;

/// The kubelets of a cluster's machines, by the namespace of the machine and the address. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Machines(Arc<Mutex<Kubelets>>);

type Kubelets = BTreeMap<(String, SocketAddr), Dialer>;

impl Machines {
    /// What answers at an address for the pods of a namespace. Networks of different namespaces may overlap.
    pub(crate) fn find(&self, namespace: &str, at: SocketAddr) -> Option<Dialer> {
        let kubelets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kubelets.get(&(namespace.to_owned(), at)).cloned()
    }

    fn add(&self, namespace: &str, at: SocketAddr, dialer: Dialer) -> Reachable {
        let key = (namespace.to_owned(), at);
        let mut kubelets = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kubelets.insert(key.clone(), dialer);
        Reachable {
            machines: self.clone(),
            key,
        }
    }
}

/// A kubelet that is reached, until this is dropped.
struct Reachable {
    machines: Machines,
    key: (String, SocketAddr),
}

impl Drop for Reachable {
    fn drop(&mut self) {
        let mut kubelets = self.machines.0.lock().unwrap_or_else(PoisonError::into_inner);
        kubelets.remove(&self.key);
    }
}

/// A kubelet's server, until it is dropped.
pub(crate) struct Kubelet {
    /// Where its node puts what it answers.
    pub(crate) services: NodeServices,
    _reachable: Reachable,
    _registration: Registration,
}

/// What a kubelet serves by.
pub(crate) struct Settings<'a> {
    /// Its node.
    pub(crate) node: &'a str,
    /// The namespace of its machine.
    pub(crate) namespace: &'a str,
    /// Its machine's address.
    pub(crate) address: IpAddr,
    /// Its own client, by which it asks who a caller is and what they may do.
    pub(crate) client: Client,
    /// The authorities of callers' certificates, as PEM.
    pub(crate) client_authorities: &'a str,
    pub(crate) clock: &'a Clock,
    pub(crate) entropy: &'a Entropy,
}

impl Kubelet {
    /// Serves a node's kubelet at its machine's address.
    ///
    /// # Errors
    /// The authorities cannot be read.
    pub(crate) fn serve(machines: &Machines, settings: Settings<'_>) -> Result<Self, Fault> {
        let Settings {
            node,
            namespace,
            address,
            client,
            client_authorities,
            clock,
            entropy,
        } = settings;
        let services = NodeServices::default();
        let guarded = services.guarded(node, client, client_authorities, clock.clone())?;
        // As a kubelet's own certificate before its cluster has signed one: kube-apiserver verifies none.
        let authority = Authority::generate(node, clock, entropy).map_err(Fault::bug)?;
        let spec = CertificateSpec::server(node, vec![node.to_owned()], vec![address], VALIDITY);
        let issued = authority.issue(&spec, clock, entropy).map_err(Fault::bug)?;
        let server = RegisteredServer::new(guarded, &issued.certificate_pem(), issued.key_pem().expose());
        let front = Front::new(clock.clone());
        let registration = front.register([ANY_NAME], server.map_err(Fault::bug)?);
        let registration = registration.map_err(Fault::bug)?;
        let dialer = Dialer::new(move || {
            let front = front.clone();
            Box::pin(async move {
                let (near, far) = tokio::io::duplex(BUFFER_BYTES);
                tokio::spawn(async move {
                    if let Err(error) = front.serve_stream(ANY_NAME, far, None).await {
                        tracing::debug!(%error, "a kubelet has ended");
                    }
                });
                Ok(Box::new(near) as Connection)
            })
        });
        Ok(Self {
            services,
            _reachable: machines.add(namespace, SocketAddr::new(address, PORT), dialer),
            _registration: registration,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_is_found_from_its_own_namespace_and_until_it_ends() {
        let machines = Machines::default();
        let at: SocketAddr = "10.250.0.2:10250".parse().unwrap();
        let nowhere = || Dialer::new(|| Box::pin(async { Err(std::io::ErrorKind::ConnectionRefused.into()) }));
        let reachable = machines.add("shoot--a--b", at, nowhere());
        assert!(machines.find("shoot--a--b", at).is_some());
        assert!(machines.find("shoot--a--c", at).is_none());
        drop(reachable);
        assert!(machines.find("shoot--a--b", at).is_none());
    }
}
