//! Connections that others accepted: the name comes with the connection, not from its client.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base_client::{HttpService, Upgrade, empty_body, full_body};
use base_secrets::CertificateSpec;
use cluster_access::PeerAddress;
use cluster_front::{RegisteredServer, Timeouts};
use http::{Request, Response, StatusCode};
use kube::client::Body;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::{DAY, Landscape};

const NAME: &str = "garden.internal";
/// The address of a Service, for which a client sends no server name.
const SERVICE: &str = "10.96.0.1";
const WITHIN: Duration = Duration::from_secs(20);

impl Landscape {
    /// A server whose certificate has a Service's address.
    fn addressed(&self, service: HttpService) -> RegisteredServer {
        let spec = CertificateSpec::server(NAME, Vec::new(), vec![SERVICE.parse().unwrap()], DAY);
        let issued = self.authority.issue(&spec, &self.clock, &self.entropy).unwrap();
        RegisteredServer::new(service, &issued.certificate_pem(), issued.key_pem().expose()).unwrap()
    }

    async fn encrypted(&self, stream: DuplexStream) -> std::io::Result<TlsStream<DuplexStream>> {
        let mut roots = RootCertStore::empty();
        let authority = self.authority.certificate_pem();
        roots
            .add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let name = ServerName::try_from(SERVICE).unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    }
}

/// Answers with the address of its client; at `/echo` the connection becomes one that repeats what comes.
fn echo(seen: Arc<Mutex<Option<IpAddr>>>) -> HttpService {
    HttpService::new(tower::service_fn(move |request: Request<Body>| {
        *seen.lock().unwrap() = request.extensions().get::<PeerAddress>().map(|address| address.0);
        let mut answer = Response::new(full_body("hello"));
        if request.uri().path() == "/echo" {
            let upgrade = request.extensions().get::<Upgrade>().unwrap().clone();
            tokio::spawn(async move {
                let connection = upgrade.accepted().await.unwrap();
                let (mut read, mut write) = tokio::io::split(connection);
                let _ = tokio::io::copy(&mut read, &mut write).await;
            });
            answer = Response::new(empty_body());
            *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        }
        async move { Ok::<_, std::convert::Infallible>(answer) }
    }))
}

async fn head(stream: &mut TlsStream<DuplexStream>, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

#[tokio::test]
async fn forwarded_connection_reaches_the_named_server_without_a_server_name() {
    let landscape = Landscape::new().await;
    let seen = Arc::default();
    let registered = landscape.addressed(echo(Arc::clone(&seen)));
    let _garden = landscape.front.register([NAME], registered).unwrap();
    let (near, far) = duplex(1 << 16);
    let pod = IpAddr::from([10, 1, 0, 7]);
    let front = landscape.front.clone();
    let served = tokio::spawn(async move { front.serve_stream("Garden.Internal", far, Some(pod)).await });
    let mut client = landscape.encrypted(near).await.unwrap();
    assert!(head(&mut client, "/").await.starts_with("HTTP/1.1 200"));
    assert_eq!(*seen.lock().unwrap(), Some(pod));
    drop(client);
    tokio::time::timeout(WITHIN, served).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn forwarding_lasts_as_long_as_what_the_connection_became() {
    let landscape = Landscape::new().await;
    let registered = landscape.addressed(echo(Arc::default()));
    let _garden = landscape.front.register([NAME], registered).unwrap();
    let (near, far) = duplex(1 << 16);
    let front = landscape.front.clone();
    let served = tokio::spawn(async move { front.serve_stream(NAME, far, None).await });
    let mut client = landscape.encrypted(near).await.unwrap();
    assert!(head(&mut client, "/echo").await.starts_with("HTTP/1.1 101"));
    client.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!((&answer, served.is_finished()), (b"ping", false));
    // The forwarding task is dropped: the connection is cut.
    served.abort();
    let ended = tokio::time::timeout(WITHIN, client.read(&mut answer)).await.unwrap();
    assert!(!matches!(ended, Ok(1..)), "{ended:?}");
}

#[tokio::test]
async fn forwarded_connection_is_cut_with_its_server() {
    let landscape = Landscape::new().await;
    let registered = landscape.addressed(echo(Arc::default()));
    let garden = landscape.front.register([NAME], registered).unwrap();
    let (near, far) = duplex(1 << 16);
    let front = landscape.front.clone();
    let served = tokio::spawn(async move { front.serve_stream(NAME, far, None).await });
    let mut client = landscape.encrypted(near).await.unwrap();
    assert!(head(&mut client, "/").await.starts_with("HTTP/1.1 200"));
    drop(garden);
    tokio::time::timeout(WITHIN, served).await.unwrap().unwrap().unwrap();
}

#[tokio::test]
async fn forwarded_connection_to_an_unknown_server_is_reset() {
    let landscape = Landscape::new().await;
    assert!(!landscape.front.has(NAME));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    let (accepted, _) = listener.accept().await.unwrap();
    let refused = landscape.front.serve_stream(NAME, accepted, None).await.unwrap_err();
    assert!(refused.to_string().contains(NAME));
    let ended = client.read_u8().await.unwrap_err();
    assert_eq!(ended.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn forwarded_connection_that_sends_nothing_is_closed_in_time() {
    let timeouts = Timeouts {
        handshake: Duration::from_millis(50),
        ..Timeouts::default()
    };
    let landscape = Landscape::with(timeouts).await;
    let _garden = landscape
        .front
        .register([NAME], landscape.addressed(echo(Arc::default())))
        .unwrap();
    let (mut near, far) = duplex(1 << 10);
    let served = landscape.front.serve_stream(NAME, far, None);
    tokio::time::timeout(WITHIN, served).await.unwrap().unwrap();
    assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
}
