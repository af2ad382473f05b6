//! Requests on a TLS connection, and their answers. It interprets neither.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use base_secrets::{Issued, SecretText};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::Outcome;

/// Longer than any answer takes; a server that does not answer is a finding, not a reason to wait for ever.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Real Kubernetes derives the default field manager from it.
pub(crate) const USER_AGENT: &str = "conformance/1.0";

/// A server, and the credentials of its administrator.
#[derive(Clone)]
pub struct Endpoint {
    /// Its name in reports.
    pub name: &'static str,
    /// Where it listens.
    pub address: SocketAddr,
    /// For clients that need a file: a member of `system:masters`.
    pub kubeconfig: SecretText,
    /// The authority of its certificate as a front proxy, in PEM.
    pub front_authority: String,
    server_name: ServerName<'static>,
    roots: Arc<RootCertStore>,
    config: Arc<ClientConfig>,
}

/// A request in full.
#[derive(Clone, Debug)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub path: String,
    /// Headers beside those that every request has.
    pub headers: HeaderMap,
    /// What is sent.
    pub body: Bytes,
}

impl Call {
    /// A request without a body.
    pub fn new(method: Method, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
    }

    /// The same with a body of that media type.
    #[must_use]
    pub fn with_body(mut self, media: &'static str, body: impl Into<Bytes>) -> Self {
        self.headers
            .insert(http::header::CONTENT_TYPE, HeaderValue::from_static(media));
        self.body = body.into();
        self
    }
}

/// A response, read to its end.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body; of a stream, all until its end.
    pub body: Bytes,
}

/// The only cluster or user of a kubeconfig, as far as a client by certificate needs it.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    certificate_authority_data: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate_data: String,
    client_key_data: String,
}

#[derive(Deserialize)]
struct NamedCluster {
    cluster: Cluster,
}

#[derive(Deserialize)]
struct NamedUser {
    user: User,
}

#[derive(Deserialize)]
struct Kubeconfig {
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
}

impl Endpoint {
    /// The server that the first cluster of a kubeconfig names, as its first user, who has a certificate.
    ///
    /// # Errors
    /// When it is no kubeconfig, or has other credentials than a certificate.
    pub fn new(name: &'static str, kubeconfig: SecretText) -> Outcome<Self> {
        let broken = |error: &dyn std::fmt::Display| format!("the kubeconfig of {name} cannot be used: {error}");
        let parsed: Kubeconfig = base_yaml::read_strict(kubeconfig.expose()).map_err(|error| broken(&error))?;
        let (Some(NamedCluster { cluster }), Some(NamedUser { user })) =
            (parsed.clusters.first(), parsed.users.first())
        else {
            return Err(broken(&"it has no cluster or no user"));
        };
        let uri: Uri = cluster.server.parse().map_err(|error| broken(&error))?;
        let host = uri.host().unwrap_or_default();
        let ip = host.parse::<IpAddr>().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST));
        let pem = |text: &str| STANDARD.decode(text).map_err(|error| broken(&error));
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&pem(&cluster.certificate_authority_data)?) {
            roots
                .add(certificate.map_err(|error| broken(&error))?)
                .map_err(|error| broken(&error))?;
        }
        let roots = Arc::new(roots);
        let config = client_config(
            &roots,
            Some((&pem(&user.client_certificate_data)?, &pem(&user.client_key_data)?)),
        );
        let config = config.map_err(|error| broken(&error))?;
        let server_name = cluster.tls_server_name.clone().unwrap_or_else(|| host.to_owned());
        Ok(Self {
            name,
            address: SocketAddr::new(ip, uri.port_u16().unwrap_or(443)),
            server_name: ServerName::try_from(server_name).map_err(|error| broken(&error))?,
            kubeconfig,
            front_authority: String::new(),
            roots,
            config: Arc::new(config),
        })
    }

    /// The same server, for a client with this certificate, or with none.
    ///
    /// # Errors
    /// When it cannot be used.
    pub(crate) fn with_certificate(&self, issued: Option<&Issued>) -> Outcome<Self> {
        let identity = issued.map(|issued| (issued.certificate_pem(), issued.key_pem()));
        let identity = identity
            .as_ref()
            .map(|(chain, key)| (chain.as_bytes(), key.expose().as_bytes()));
        Ok(Self {
            config: Arc::new(client_config(&self.roots, identity)?),
            ..self.clone()
        })
    }

    /// The same server by HTTP/2, for a caller that writes its own frames.
    pub(crate) fn by_http2(&self) -> Self {
        let mut config = (*self.config).clone();
        config.alpn_protocols = vec![b"h2".to_vec()];
        Self {
            config: Arc::new(config),
            ..self.clone()
        }
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// When there is no listener, or the two do not trust each other.
    pub async fn connect(&self) -> Outcome<Connection> {
        let stream = self.encrypted().await?;
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|error| self.unreachable(&error))?;
        // Ends with the connection; its errors also reach the request that is being sent.
        tokio::spawn(connection);
        Ok(Connection {
            endpoint: self.clone(),
            sender,
        })
    }

    /// A TLS connection on which nothing has been sent.
    pub(crate) async fn encrypted(&self) -> Outcome<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await;
        let stream = stream.map_err(|error| self.unreachable(&error))?;
        TlsConnector::from(self.config.clone())
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(|error| self.unreachable(&error))
    }

    fn unreachable(&self, error: &dyn std::fmt::Display) -> String {
        format!("cannot connect to {} at {}: {error}", self.name, self.address)
    }
}

/// A client's configuration: the authorities that it trusts, and its certificate chain and key in PEM.
fn client_config(roots: &Arc<RootCertStore>, identity: Option<(&[u8], &[u8])>) -> Outcome<ClientConfig> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| text(&error))?
        .with_root_certificates(roots.clone());
    let Some((chain, key)) = identity else {
        return Ok(builder.with_no_client_auth());
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain).collect();
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| text(&error))?;
    let config = builder.with_client_auth_cert(chain.map_err(|error| text(&error))?, key);
    config.map_err(|error| text(&error))
}

/// An open connection; opened again when the server has closed it.
pub struct Connection {
    endpoint: Endpoint,
    sender: SendRequest<Full<Bytes>>,
}

impl Connection {
    /// Sends one request and reads the whole answer.
    ///
    /// # Errors
    /// When no answer comes, or not the whole of it.
    pub async fn send(&mut self, call: &Call) -> Outcome<Answer> {
        let failed = |what: &str| format!("{} {what} on {} {}", self.endpoint.name, call.method, call.path);
        let (broke_off, silent) = (failed("broke off"), failed("did not answer in time"));
        let exchange = async {
            let (parts, body) = self.open(call).await?.into_parts();
            let body = body.collect().await.map_err(|error| format!("{broke_off} ({error})"))?;
            Ok(Answer {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        tokio::time::timeout(ANSWER_TIMEOUT, exchange)
            .await
            .unwrap_or(Err(silent))
    }

    /// Sends one request; the body of the answer is read by the caller, as long as it comes.
    ///
    /// # Errors
    /// When no answer begins.
    pub async fn open(&mut self, call: &Call) -> Outcome<Response<Incoming>> {
        if self.sender.ready().await.is_err() {
            *self = self.endpoint.connect().await?;
        }
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            format!(
                "{} {what} on {} {} ({error})",
                self.endpoint.name, call.method, call.path
            )
        };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(&call.path)
            .header(http::header::HOST, self.endpoint.address.to_string())
            .header(http::header::USER_AGENT, USER_AGENT)
            .body(Full::new(call.body.clone()))
            .map_err(|error| failed("could not be sent a request", &error))?;
        for (name, value) in &call.headers {
            request.headers_mut().append(name.clone(), value.clone());
        }
        let response = self.sender.send_request(request).await;
        response.map_err(|error| failed("broke off", &error))
    }
}
