//! Requests as bytes on a TLS connection and answers as they come back. Never interprets either.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base_secrets::SecretText;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::Outcome;
use crate::pki::{Pki, SERVER_NAME};

/// Longer than any answer takes; a server that does not answer is a finding, not a reason to wait for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Real Kubernetes derives the name of a field's manager from it.
const USER_AGENT: &str = "conformance/1.0";

/// A server and how its administrator gets in.
#[derive(Clone)]
pub struct Endpoint {
    /// `real` or `ours`: how it is called in reports.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// For clients that want a file: `system:masters`.
    pub kubeconfig: SecretText,
    config: Arc<ClientConfig>,
}

/// A request in full.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; of a stream, all that came until it ended.
    pub body: Bytes,
}

impl Endpoint {
    pub(crate) fn new(name: &'static str, address: SocketAddr, pki: &Pki) -> Outcome<Self> {
        let broken = |error: &dyn std::fmt::Display| format!("the certificates of {name} cannot be used: {error}");
        let mut roots = RootCertStore::empty();
        let authority = pki.authority.certificate_pem();
        for certificate in CertificateDer::pem_slice_iter(authority.as_bytes()) {
            roots
                .add(certificate.map_err(|error| broken(&error))?)
                .map_err(|error| broken(&error))?;
        }
        let key = PrivateKeyDer::from_pem_slice(&pki.admin.key_pem().expose_bytes()).map_err(|error| broken(&error))?;
        let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| broken(&error))?
            .with_root_certificates(roots)
            .with_client_auth_cert(vec![pki.admin.certificate.der().to_vec().into()], key)
            .map_err(|error| broken(&error))?;
        Ok(Self {
            name,
            address,
            kubeconfig: pki.kubeconfig("admin", address.port(), pki.admin.clone())?,
            config: Arc::new(config),
        })
    }

    /// Opens a connection.
    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        let failed =
            |error: &dyn std::fmt::Display| format!("cannot connect to {} at {}: {error}", self.name, self.address);
        let stream = TcpStream::connect(self.address).await.map_err(|error| failed(&error))?;
        let name = ServerName::try_from(SERVER_NAME).map_err(|error| failed(&error))?;
        let stream = TlsConnector::from(self.config.clone())
            .connect(name, stream)
            .await
            .map_err(|error| failed(&error))?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| failed(&error))?;
        // Ends with the connection; what breaks it is seen by the request that needs it.
        tokio::spawn(connection);
        Ok(Connection {
            endpoint: self.clone(),
            sender,
        })
    }
}

/// An open connection; opened again when the server has closed it.
pub(crate) struct Connection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends one request and reads the whole answer.
    pub(crate) async fn send(&mut self, call: &Call) -> Outcome<Answer> {
        if self.sender.ready().await.is_err() {
            *self = self.endpoint.connect().await?;
        }
        let failed = |what: &str| format!("{} {what} on {} {}", self.endpoint.name, call.method, call.path);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(http::header::HOST, self.endpoint.address.to_string())
            .header(http::header::USER_AGENT, USER_AGENT)
            .body(Full::new(call.body.clone()))
            .map_err(|error| failed(&format!("could not be asked ({error})")))?;
        for (name, value) in &call.headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        let exchange = async {
            let response = self.sender.send_request(request).await?;
            let (parts, body) = response.into_parts();
            let body = body.collect().await?.to_bytes();
            Ok::<_, hyper::Error>(Answer {
                status: parts.status,
                headers: parts.headers,
                body,
            })
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, exchange).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(failed(&format!("broke off ({error})"))),
            Err(_) => Err(failed(&format!("did not answer within {ANSWER_TIMEOUT:?}"))),
        }
    }
}
