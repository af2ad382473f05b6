//! Connections that the programs of a pod open, proxied to their destinations: pods and Services by the pod network, API servers
//! of this process by [`ApiServers`], all else by the machine's network. The pod network evaluates policies.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use base_client::{Connection, Dialer};
use cluster_network_policy::Protocol;
use cluster_node::{ContainerContext, Endpoint, PodNetwork, Refused};
use cluster_sandbox::Pod;
use futures::future::BoxFuture;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::sandbox::MACHINE;
use crate::shared_port;

/// Connections of one pod at once; a program that opens more waits.
const CONNECTIONS_MAX: usize = 4096;
/// How long a connection to the machine's network may take: it would hold its place as long as Linux itself tries.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The pause after a connection could not be accepted: this process has no more files.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// A connection that a program made to a Service.
pub struct ToService {
    /// The Service's namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What was dialled.
    pub port: u16,
    /// The pod's address.
    pub from: IpAddr,
    /// The connection.
    pub stream: Connection,
}

/// The API servers of this process that are reached behind Services. They answer in TLS, under their own certificates.
pub trait ApiServers: Send + Sync {
    /// Whether an API server of this process is behind a Service. `default/kubernetes` is the cluster's own.
    fn has(&self, namespace: &str, service: &str) -> bool;

    /// Serves a connection to one of them, to its end.
    fn serve(&self, connection: ToService) -> BoxFuture<'static, ()>;

    /// The port of this machine's 127.0.0.1 at which all of them answer, each to its own server name.
    fn port(&self) -> Option<u16>;

    /// The namespace and the name of the Service whose API server answers at that port to a server name, or to clients that
    /// send none. `None`: there is no Service before it in the pods' cluster.
    fn service_of(&self, server_name: Option<&str>) -> Option<(String, String)>;

    /// What this process serves, for the pods of a namespace alone, at an address outside of their cluster: a kubelet of a
    /// machine that the namespace's control plane manages, where no tunnel leads there. Policies of the pods' cluster are
    /// not evaluated: they name no address outside of it.
    fn outside(&self, _namespace: &str, _to: SocketAddr) -> Option<Dialer> {
        None
    }

    /// What this process serves at an address of the pods' cluster that is no pod's: a kubelet of one of its nodes. Policies
    /// are evaluated before.
    fn node_at(&self, _to: SocketAddr) -> Option<Dialer> {
        None
    }

    /// A container's program has started; what is returned is held until it has ended. A program that is an API server itself
    /// becomes one of those that are reached here.
    fn started(&self, _context: &ContainerContext) -> Option<Box<dyn Send + Sync>> {
        None
    }
}

/// The Service of every cluster's own API server.
const OWN: (&str, &str) = ("default", "kubernetes");

/// The API server of the cluster alone, at an address of this machine where it answers to clients that name no server.
#[derive(Clone, Copy, Debug)]
pub struct AtAddress(pub SocketAddr);

impl ApiServers for AtAddress {
    fn has(&self, namespace: &str, service: &str) -> bool {
        (namespace, service) == OWN
    }

    fn serve(&self, connection: ToService) -> BoxFuture<'static, ()> {
        let address = self.0;
        Box::pin(async move {
            let proxied = async {
                let server = connect(address).await?;
                splice(connection.stream, Box::new(server)).await
            };
            if let Err(error) = proxied.await {
                tracing::debug!(%address, %error, "a connection to the API server broke");
            }
        })
    }

    fn port(&self) -> Option<u16> {
        (self.0.ip() == Ipv4Addr::LOCALHOST).then_some(self.0.port())
    }

    fn service_of(&self, _server_name: Option<&str>) -> Option<(String, String)> {
        Some((OWN.0.to_owned(), OWN.1.to_owned()))
    }
}

/// Proxies the connections of a pod until it is dropped.
pub(crate) async fn proxy(pod: Arc<Pod>, network: PodNetwork, servers: Arc<dyn ApiServers>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = pod.accept(), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((stream, to)) => {
                    let one = one(stream, to, pod.clone(), network.clone(), servers.clone());
                    connections.spawn(async move {
                        if let Err(error) = one.await {
                            tracing::debug!(%to, %error, "a connection of a program was not proxied");
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "a connection of a program was not accepted");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                }
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn one(
    mut stream: TcpStream,
    to: SocketAddrV4,
    pod: Arc<Pod>,
    network: PodNetwork,
    servers: Arc<dyn ApiServers>,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let reached = match shared_port::is_destination(to, servers.as_ref()) {
        true => match shared_port::own(to, &pod).await {
            Ok(Some(own)) => Ok((Reached::There(Box::new(own)), Vec::new())),
            Ok(None) => shared_port::reach(&mut stream, to.port(), &network, servers.as_ref()).await,
            Err(error) => Err(error),
        },
        false => reach(to, &network, servers.as_ref())
            .await
            .map(|reached| (reached, Vec::new())),
    };
    match reached {
        Ok((Reached::There(connection), begun)) => splice(shared_port::replayed(stream, begun), connection).await,
        Ok((Reached::Server { namespace, name }, begun)) => {
            let (port, from) = (to.port(), network.pod_ip());
            let connection = ToService {
                namespace,
                name,
                port,
                from,
                stream: shared_port::replayed(stream, begun),
            };
            servers.serve(connection).await;
            Ok(())
        }
        Err(error) => {
            // As from an address where nothing listens.
            let _ = stream.set_zero_linger();
            Err(error)
        }
    }
}

/// Where a connection leads.
pub(crate) enum Reached {
    There(Connection),
    Server { namespace: String, name: String },
}

async fn reach(to: SocketAddrV4, network: &PodNetwork, servers: &dyn ApiServers) -> io::Result<Reached> {
    let (ip, port) = (IpAddr::V4(*to.ip()), to.port());
    if let Some((namespace, name)) = network.service_at(ip).await {
        if servers.has(&namespace, &name) {
            allowed(network, &namespace, &name, to).await?;
            return Ok(Reached::Server { namespace, name });
        }
        let endpoint = network.dial(&format!("{name}.{namespace}:{port}")).await;
        return bytes(endpoint.map_err(io::Error::other)?).await;
    }
    if network.is_pod(ip) {
        let endpoint = network.dial(&to.to_string()).await;
        return bytes(endpoint.map_err(io::Error::other)?).await;
    }
    // A real control plane reaches these addresses through a tunnel, so that its cluster's policies never see them.
    if let Some(dialer) = servers.outside(network.namespace(), SocketAddr::from(to)) {
        return dialer.connect().await.map(Reached::There);
    }
    network.check(ip, port, Protocol::Tcp).await.map_err(io::Error::other)?;
    if let Some(dialer) = servers.node_at(SocketAddr::from(to)) {
        return dialer.connect().await.map(Reached::There);
    }
    let address = match *to.ip() {
        MACHINE => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
        ip => SocketAddr::from((ip, port)),
    };
    Ok(Reached::There(Box::new(connect(address).await?)))
}

/// A connection to an address of the machine's network.
pub(crate) async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let stream = tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await??;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Whether policies let the pod reach an API server behind a Service: at its pod, or at its address where it has none.
pub(crate) async fn allowed(network: &PodNetwork, namespace: &str, name: &str, to: SocketAddrV4) -> io::Result<()> {
    match network.dial(&format!("{name}.{namespace}:{}", to.port())).await {
        Ok(_) => Ok(()),
        Err(refused @ (Refused::Policy { .. } | Refused::PoliciesUnknown(_))) => Err(io::Error::other(refused)),
        Err(_) => {
            let checked = network.check(IpAddr::V4(*to.ip()), to.port(), Protocol::Tcp).await;
            checked.map_err(io::Error::other)
        }
    }
}

async fn bytes(endpoint: Endpoint) -> io::Result<Reached> {
    match endpoint {
        Endpoint::Bytes(dialer) => dialer.connect().await.map(Reached::There),
        Endpoint::Http(_) | Endpoint::Store(_) => Err(io::Error::new(
            io::ErrorKind::ConnectionRefused,
            "what listens there answers in this process alone",
        )),
    }
}

async fn splice(mut stream: Connection, mut connection: Connection) -> io::Result<()> {
    tokio::io::copy_bidirectional(&mut stream, &mut connection)
        .await
        .map(drop)
}
