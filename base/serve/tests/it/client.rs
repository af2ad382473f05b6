//! An authority with its certificates, a port on loopback, and a client that writes HTTP by hand.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base_client::{HttpService, full_body};
use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use base_serve::{HttpsServer, Limits, ServerCertificate};
use http::Response;
use kube::client::Body;
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Longer than any test.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// Longer than any answer takes.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The name in all certificates.
pub(crate) const NAME: &str = "port.example.com";

/// Signs certificates of ports.
pub(crate) struct Signer(Authority);

impl Signer {
    pub(crate) fn new() -> Self {
        Self(Authority::generate("port", &Clock::real(), &Entropy::os()).unwrap())
    }

    /// Certificate and key, PEM.
    pub(crate) fn pair(&self) -> (String, String) {
        let spec = CertificateSpec::server("port", vec![NAME.to_owned()], Vec::new(), VALIDITY);
        let issued = self.0.issue(&spec, &Clock::real(), &Entropy::os()).unwrap();
        (issued.certificate_pem(), issued.key_pem().expose().to_owned())
    }

    pub(crate) fn certificate(&self) -> ServerCertificate {
        let (certificate, key) = self.pair();
        ServerCertificate::new(&certificate, &key).unwrap()
    }

    /// Trusts the servers that this authority has signed.
    pub(crate) fn connector(&self, versions: &[&'static SupportedProtocolVersion]) -> TlsConnector {
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(self.0.certificate_pem().as_bytes()).unwrap())
            .unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        TlsConnector::from(Arc::new(config))
    }

    pub(crate) async fn connect(&self, address: SocketAddr) -> std::io::Result<Client> {
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from(NAME).unwrap();
        let connecting = self.connector(rustls::ALL_VERSIONS).connect(name, stream);
        tokio::time::timeout(PATIENCE, connecting).await.unwrap().map(Client)
    }
}

/// An encrypted connection.
pub(crate) struct Client(pub(crate) TlsStream<TcpStream>);

impl Client {
    /// Posts and returns status code and body.
    pub(crate) async fn post(&mut self, path: &str, body: &[u8]) -> std::io::Result<(u16, String)> {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        self.send(head.as_bytes()).await?;
        self.send(body).await?;
        self.answer().await
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.write_all(bytes).await?;
        self.0.flush().await
    }

    pub(crate) async fn answer(&mut self) -> std::io::Result<(u16, String)> {
        tokio::time::timeout(PATIENCE, self.read_answer()).await.unwrap()
    }

    async fn read_answer(&mut self) -> std::io::Result<(u16, String)> {
        let (mut read, mut part) = (Vec::new(), [0; 4096]);
        loop {
            let text = String::from_utf8_lossy(&read);
            if let Some((head, body)) = text.split_once("\r\n\r\n") {
                let head = head.to_ascii_lowercase();
                let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
                if body.len() >= length.unwrap_or("0").parse().unwrap() {
                    return Ok((head[9..12].parse().unwrap(), body.to_owned()));
                }
            }
            match self.0.read(&mut part).await? {
                0 => return Err(std::io::ErrorKind::UnexpectedEof.into()),
                count => read.extend_from_slice(&part[..count]),
            }
        }
    }

    /// Waits until the server has closed the connection, whatever it sends before.
    pub(crate) async fn until_closed(mut self) {
        let mut rest = Vec::new();
        let read = tokio::time::timeout(PATIENCE, self.0.read_to_end(&mut rest));
        // Cut or closed in order, both are an end.
        let _ = read.await.unwrap();
    }
}

/// Answers with the length of the body that came.
pub(crate) fn lengths() -> HttpService {
    HttpService::new(tower::service_fn(|request: http::Request<Body>| async move {
        let body = request.into_body().collect_bytes().await.unwrap();
        Ok(Response::new(full_body(body.len().to_string())))
    }))
}

/// A port being served; it ends with this value.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) stop: CancellationToken,
    pub(crate) serving: AbortOnDropHandle<()>,
}

pub(crate) async fn serve(service: HttpService, certificate: ServerCertificate, limits: Limits) -> Served {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let stop = CancellationToken::new();
    let port = HttpsServer::new(service, certificate).limits(limits);
    let serving = tokio::spawn(port.serve(listener, stop.clone()));
    Served {
        address,
        stop,
        serving: AbortOnDropHandle::new(serving),
    }
}
