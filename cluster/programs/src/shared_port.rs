//! The one port of this machine's loopback at which all API servers of this process answer. Kubeconfigs name it, those in Secrets that
//! programs read through the API among them: `https://127.0.0.1:PORT` and a server name. In a pod with a network of its own,
//! connections to it are carried out of the pod, and the server name tells what they lead to: to a Service of the pod's cluster,
//! whose policies hold then, or to something outside of it.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

use base_client::Connection;
use cluster_network_policy::Protocol;
use cluster_node::{PodNetwork, Resolved};
use cluster_sandbox::Pod;
use rustls::server::Acceptor;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::net::TcpStream;

use crate::outgoing::{ApiServers, Reached, allowed, connect};
use crate::sandbox::MACHINE;

/// The port of API servers' Services, as Kubernetes and Gardener have them.
const HTTPS: u16 = 443;
/// The longest beginning of a TLS connection that is read for its server name: some times that of any client.
const HELLO_BYTES_MAX: usize = 64 << 10;
/// How long a client may take to send it: as long as the API servers' own port lets it.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether a connection leads to the port: at the pod's own loopback or at the machine's.
pub(crate) fn is_meant(to: SocketAddrV4, servers: &dyn ApiServers) -> bool {
    servers.port() == Some(to.port()) && matches!(*to.ip(), Ipv4Addr::LOCALHOST | MACHINE)
}

/// The connection of the pod itself, if one of its programs listens on the port of its own loopback: that one is meant then.
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
/// Policies refuse it, it says nothing in time, or there is no such server.
pub(crate) async fn reach(
    stream: &mut TcpStream,
    port: u16,
    network: &PodNetwork,
    servers: &dyn ApiServers,
) -> io::Result<(Reached, Vec<u8>)> {
    let (name, begun) = tokio::time::timeout(HELLO_TIMEOUT, server_name(stream)).await??;
    let reached = reach_named(name.as_deref(), port, network, servers).await?;
    Ok((reached, begun))
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

/// The API server behind a Service. A Service that cannot be resolved is refused: were it an address outside of the cluster, a pod that
/// may reach those would get around the Service's policies.
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

/// The server name that a connection begins with, if it begins as TLS and names one; and all bytes that were read.
async fn server_name(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<(Option<String>, Vec<u8>)> {
    let mut acceptor = Acceptor::default();
    let mut begun = Vec::new();
    while begun.len() < HELLO_BYTES_MAX {
        let before = begun.len();
        if stream.read_buf(&mut begun).await? == 0 {
            break;
        }
        let mut unread = &begun[before..];
        while !unread.is_empty() {
            if acceptor.read_tls(&mut unread).is_err() {
                return Ok((None, begun));
            }
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok((accepted.client_hello().server_name().map(str::to_owned), begun)),
                Ok(None) => {}
                // It is for the server to answer what is no TLS.
                Err(_) => return Ok((None, begun)),
            }
        }
    }
    Ok((None, begun))
}

/// A connection whose beginning was read already.
pub(crate) fn replayed(stream: TcpStream, begun: Vec<u8>) -> Connection {
    if begun.is_empty() {
        return Box::new(stream);
    }
    let (reader, writer) = stream.into_split();
    Box::new(tokio::io::join(io::Cursor::new(begun).chain(reader), writer))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, ClientConnection, RootCertStore};
    use tokio::io::AsyncWriteExt;

    use super::*;

    /// What a client sends first.
    fn hello(server: &str) -> Vec<u8> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(RootCertStore::empty())
            .with_no_client_auth();
        let name = ServerName::try_from(server.to_owned()).unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        bytes
    }

    /// Reads what arrives in pieces.
    async fn read(bytes: &[u8], pieces: usize) -> (Option<String>, Vec<u8>) {
        let (mut near, mut far) = tokio::io::duplex(pieces);
        let reading = async move {
            let read = server_name(&mut far).await;
            // Once the name is known, or known not to come, nothing is read any more, and the writer must not wait.
            drop(far);
            read
        };
        let writing = async move {
            let written = near.write_all(bytes).await;
            drop(near);
            written
        };
        let (read, _) = tokio::join!(reading, writing);
        read.unwrap()
    }

    #[tokio::test]
    async fn the_server_name_is_read_from_pieces_and_every_byte_is_returned() {
        for pieces in [1, 7, 100_000] {
            let bytes = hello("kube-apiserver.ns.svc");
            let (name, begun) = read(&bytes, pieces).await;
            assert_eq!((name.as_deref(), &begun), (Some("kube-apiserver.ns.svc"), &bytes));
        }
    }

    #[tokio::test]
    async fn what_names_no_server_is_returned_as_it_is() {
        for bytes in [
            hello("127.0.0.1"),
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            Vec::new(),
            vec![22; 9],
        ] {
            let (name, begun) = read(&bytes, 100_000).await;
            assert_eq!((name, &begun), (None, &bytes));
        }
        let (name, begun) = read(&vec![22; HELLO_BYTES_MAX * 2], 1000).await;
        assert!(name.is_none() && begun.len() <= HELLO_BYTES_MAX + 1000);
    }
}
