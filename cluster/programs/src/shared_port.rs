//! The one port of this machine's loopback at which all API servers of this process answer. Kubeconfigs name it, those in
//! Secrets that programs read through the API among them: `https://127.0.0.1:PORT` and a server name. In a pod with a
//! network of its own, connections to it are proxied out of the pod, and the server name selects their destination: a
//! Service of the pod's cluster, whose policies hold then, or something outside of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use base_client::Connection;
use cluster_front::Begun;
use cluster_network_policy::Protocol;
use cluster_node::{PodNetwork, Resolved};
use cluster_sandbox::Pod;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::outgoing::{ApiServers, Reached, allowed, connect};
use crate::sandbox::MACHINE;

/// The port of API servers' Services, as Kubernetes and Gardener have them.
const HTTPS: u16 = 443;
/// How long a client may take to send its ClientHello: as at the API servers' own port.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a connection leads to the port: at the pod's own loopback or at the machine's.
pub(crate) fn is_destination(to: SocketAddrV4, servers: &dyn ApiServers) -> bool {
    servers.port() == Some(to.port()) && matches!(*to.ip(), Ipv4Addr::LOCALHOST | MACHINE)
}

/// The connection to the pod itself, if one of its programs listens on the port of its own loopback.
pub(crate) async fn own(to: SocketAddrV4, pod: &Pod) -> io::Result<Option<TcpStream>> {
    if !to.ip().is_loopback() {
        return Ok(None);
    }
    match pod.connect_loopback(to.port()).await {
        Ok(stream) => Ok(Some(stream)),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(None),
        Err(error) => Err(error),
    }
}

/// Where a connection leads, by the server name that it begins with; and what was read of it.
///
/// # Errors
/// Policies refuse it, it sends nothing in time, or there is no such server.
pub(crate) async fn reach(
    stream: &mut TcpStream,
    port: u16,
    network: &PodNetwork,
    servers: &dyn ApiServers,
) -> io::Result<(Reached, Vec<u8>)> {
    let begun = tokio::time::timeout(HELLO_TIMEOUT, Begun::read(stream)).await??;
    // What names no server, and what is no TLS, is for the server to answer.
    let reached = reach_named(begun.server_name.as_deref(), port, network, servers).await?;
    Ok((reached, begun.bytes))
}

async fn reach_named(
    server_name: Option<&str>,
    port: u16,
    network: &PodNetwork,
    servers: &dyn ApiServers,
) -> io::Result<Reached> {
    if let Some((namespace, name)) = servers.service_of(server_name) {
        return reach_service(namespace, name, network, servers).await;
    }
    // The garden, the domain of a Shoot, a server of another cluster: as addresses outside of the pod's cluster are.
    let named = format!("{}:{port}", server_name.unwrap_or("127.0.0.1"));
    let checked = network
        .check_as(&named, (IpAddr::V4(MACHINE), port), Protocol::Tcp)
        .await;
    checked.map_err(io::Error::other)?;
    let stream = connect(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
    Ok(Reached::There(Box::new(stream)))
}

/// The API server behind a Service. A Service that cannot be resolved is refused: were it an address outside of the cluster,
/// a pod that may reach those would get around the Service's policies.
async fn reach_service(
    namespace: String,
    name: String,
    network: &PodNetwork,
    servers: &dyn ApiServers,
) -> io::Result<Reached> {
    let resolved = network.resolve(&format!("{name}.{namespace}.svc")).await;
    let Resolved::Addresses(addresses) = resolved else {
        let why = format!("the cluster has no service {namespace}/{name}");
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why));
    };
    let Some(IpAddr::V4(address)) = addresses.first() else {
        let why = format!("the service {namespace}/{name} has no IPv4 address");
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why));
    };
    if !servers.has(&namespace, &name) {
        let why = format!("no API server is behind the service {namespace}/{name}");
        return Err(io::Error::new(io::ErrorKind::ConnectionRefused, why));
    }
    allowed(network, &namespace, &name, SocketAddrV4::new(*address, HTTPS)).await?;
    Ok(Reached::Server { namespace, name })
}

/// A connection whose beginning was read already.
pub(crate) fn replayed(stream: TcpStream, begun: Vec<u8>) -> Connection {
    if begun.is_empty() {
        return Box::new(stream);
    }
    let (reader, writer) = stream.into_split();
    Box::new(tokio::io::join(io::Cursor::new(begun).chain(reader), writer))
}
