//! Connections to registries, and one request with its answer. It never follows a redirect, never tries twice, and knows no
//! credentials but those in the request it is given.

use std::error::Error as _;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::header::PROXY_AUTHORIZATION;
use http::{Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::{AlertDescription, CertificateError, ClientConfig};
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::error::Kind;
use crate::proxy::{Proxies, Proxy, Refusal, bare};

/// A connection and its TLS: the longest that a registry at the other end of the world takes, three times over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From a request to its answer's head: registries that fetch from elsewhere first are slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two pieces of a body: whoever is silent for longer has gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long an idle connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Idle connections for a host: as many pulls as there are at once from one registry, now and then.
const IDLE_MAX: usize = 4;
/// Most bytes of an answer's head.
pub(crate) const HEAD_BYTES_MAX: usize = 64 << 10;

/// What carries bytes.
pub(crate) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// How a host is reached: over TCP, or in a test within the process.
pub(crate) trait Dial: Send + Sync {
    fn dial(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>>;
}

/// Over TCP.
pub(crate) struct Network;

impl Dial for Network {
    fn dial(&self, host: String, port: u16) -> BoxFuture<'static, io::Result<Box<dyn Stream>>> {
        async move {
            // An address of IPv6 has brackets in a URL alone.
            let stream = TcpStream::connect((bare(&host), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        }
        .boxed()
    }
}

/// Connections to hosts, reused for a while.
#[derive(Clone)]
pub(crate) struct Transport {
    client: legacy::Client<Connector, Full<Bytes>>,
    proxies: Arc<Proxies>,
}

impl Transport {
    pub(crate) fn new(tls: Arc<ClientConfig>, dial: Arc<dyn Dial>, proxies: Proxies) -> Self {
        let proxies = Arc::new(proxies);
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(Connector {
                tls,
                dial,
                proxies: Arc::clone(&proxies),
            });
        Self { client, proxies }
    }

    /// Sends a request and waits for the head of its answer, until then at most.
    pub(crate) async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        until: Instant,
    ) -> Result<Response<Incoming>, Kind> {
        // A proxy reads a plain HTTP request itself; for any other a tunnel has been requested before.
        let is_plain = request.uri().scheme_str() == Some("http");
        let proxy = self.proxies.of(request.uri());
        let proxy = proxy.map_err(|why| Kind::NoProxy(why.clone()))?.filter(|_| is_plain);
        if let Some(value) = proxy.and_then(|proxy| proxy.authorisation.clone()) {
            request.headers_mut().insert(PROXY_AUTHORIZATION, value);
        }
        let deadline = until.min(Instant::now() + ANSWER_TIMEOUT + CONNECT_TIMEOUT);
        let answer = match timeout_at(deadline, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| lost(&error))?,
            Err(_) => return Err(Kind::Unreachable("it does not answer".to_owned())),
        };
        match proxy {
            Some(proxy) if answer.status() == StatusCode::PROXY_AUTHENTICATION_REQUIRED => Err(Kind::Proxy {
                proxy: proxy.authority(),
                status: answer.status().as_u16(),
            }),
            _ => Ok(answer),
        }
    }
}

/// Reads a body of at most `bytes_max` bytes, and calls `see` with each piece.
pub(crate) async fn read_body(
    mut body: Incoming,
    bytes_max: u64,
    until: Instant,
    mut see: impl FnMut(&[u8]),
) -> Result<Vec<u8>, BodyError> {
    let broken = |why: String| BodyError::Broken(Kind::Unreachable(why));
    let mut bytes = Vec::new();
    loop {
        let deadline = until.min(Instant::now() + SILENCE_TIMEOUT);
        let frame = match timeout_at(deadline, body.frame()).await {
            Ok(None) => return Ok(bytes),
            Ok(Some(frame)) => frame.map_err(|error| broken(format!("the answer breaks off: {}", chain(&error))))?,
            Err(_) => return Err(broken("it has fallen silent in the middle of its answer".to_owned())),
        };
        if let Some(piece) = frame.data_ref() {
            if (bytes.len() + piece.len()) as u64 > bytes_max {
                return Err(BodyError::TooLarge);
            }
            see(piece);
            bytes.extend_from_slice(piece);
        }
    }
}

/// Why a body was not read to its end.
pub(crate) enum BodyError {
    TooLarge,
    Broken(Kind),
}

/// What a failed request means.
fn lost(error: &legacy::Error) -> Kind {
    let mut cause = error.source();
    while let Some(one) = cause {
        // Errors of I/O have those of TLS as their inner error, not as their source.
        let held = one.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        if let Some(kind) = held.and_then(|held| held.downcast_ref()).and_then(Refusal::kind) {
            return kind;
        }
        let tls = one
            .downcast_ref::<rustls::Error>()
            .or_else(|| held.and_then(|held| held.downcast_ref::<rustls::Error>()));
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => {
                return Kind::Untrusted {
                    whose: "the registry".to_owned(),
                    why: certificate_problem(why),
                };
            }
            Some(rustls::Error::AlertReceived(alert)) if is_about_certificate(*alert) => {
                return Kind::WantsCertificate(format!("{alert:?}"));
            }
            // What it has sent is no record of TLS: as a rule it is HTTP.
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => return Kind::NoTls,
            _ => {}
        }
        cause = one.source();
    }
    Kind::Unreachable(chain(error))
}

/// What is wrong with a host's certificate. The library's text is used only for what no registry should cause.
fn certificate_problem(why: &CertificateError) -> String {
    match why {
        CertificateError::UnknownIssuer => "no authority that is known here has issued it".to_owned(),
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "it has expired".to_owned(),
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "it is not valid yet".to_owned(),
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "it is for another host".to_owned()
        }
        // The certificate is an authority's, as self-signed ones often are.
        other if format!("{other:?}").contains("CaUsedAsEndEntity") => {
            "it is that of an authority, and no server's: it may be self-signed".to_owned()
        }
        other => other.to_string(),
    }
}

/// Whether the alert is about our certificate, or the lack of one (RFC 8446, 6.2).
fn is_about_certificate(alert: AlertDescription) -> bool {
    matches!(
        alert,
        AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied
            | AlertDescription::CertificateRequired
    )
}

/// The messages of an error and its causes, from the outer to the inner, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut messages = Vec::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = next {
        // The message of rustls is a link to its manual here.
        let is_end = one
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        let message = if is_end {
            "the connection has ended".to_owned()
        } else {
            one.to_string()
        };
        if messages.last() != Some(&message) {
            messages.push(message);
        }
        next = one.source();
    }
    // The outermost message of the library names no cause.
    if messages.len() > 1 && messages[0].starts_with("client error") {
        messages.remove(0);
    }
    messages.join(": ")
}

#[derive(Clone)]
struct Connector {
    tls: Arc<ClientConfig>,
    dial: Arc<dyn Dial>,
    proxies: Arc<Proxies>,
}

impl tower::Service<Uri> for Connector {
    type Response = Established;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Established>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        async move {
            let through = connector.proxies.of(&uri).ok().flatten().map(Proxy::authority);
            let through = through.map_or_else(String::new, |proxy| format!(" through the proxy {proxy}"));
            let late = |_| {
                let why = format!("no connection{through} within {CONNECT_TIMEOUT:?}");
                io::Error::new(io::ErrorKind::TimedOut, why)
            };
            tokio::time::timeout(CONNECT_TIMEOUT, connector.connect(&uri))
                .await
                .map_err(late)?
        }
        .boxed()
    }
}

impl Connector {
    async fn connect(&self, uri: &Uri) -> io::Result<Established> {
        let is_plain = uri.scheme_str() == Some("http");
        let Some(proxy) = self.proxies.of(uri).map_err(|why| io::Error::other(why.clone()))? else {
            return Ok(Established::new(self.reach(uri).await?, false));
        };
        let stream = self.reach(&proxy.uri).await.map_err(|error| proxy.unreached(&error))?;
        if is_plain {
            return Ok(Established::new(stream, true));
        }
        let (host, port) = place(uri);
        let stream = proxy.tunnel(stream, host, port).await?;
        Ok(Established::new(self.encrypt(host, stream).await?, false))
    }

    /// A connection to the host itself, with TLS if its scheme requires it.
    async fn reach(&self, uri: &Uri) -> io::Result<Box<dyn Stream>> {
        let (host, port) = place(uri);
        let stream = self.dial.dial(host.to_owned(), port).await?;
        match uri.scheme_str() {
            Some("http") => Ok(stream),
            _ => self.encrypt(host, stream).await,
        }
    }

    async fn encrypt(&self, host: &str, stream: Box<dyn Stream>) -> io::Result<Box<dyn Stream>> {
        let name = ServerName::try_from(bare(host).to_owned());
        let name = name.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let stream = TlsConnector::from(Arc::clone(&self.tls)).connect(name, stream).await?;
        Ok(Box::new(stream))
    }
}

/// Host and port of an address.
fn place(uri: &Uri) -> (&str, u16) {
    let usual_port = if uri.scheme_str() == Some("http") { 80 } else { 443 };
    (uri.host().unwrap_or_default(), uri.port_u16().unwrap_or(usual_port))
}

/// A connection as the client library requires it.
struct Established {
    stream: TokioIo<Box<dyn Stream>>,
    /// Whether a proxy reads the request, which then has the whole address in it
    is_proxied: bool,
}

impl Established {
    fn new(stream: Box<dyn Stream>, is_proxied: bool) -> Self {
        Self {
            stream: TokioIo::new(stream),
            is_proxied,
        }
    }
}

impl Connection for Established {
    fn connected(&self) -> Connected {
        Connected::new().proxy(self.is_proxied)
    }
}

impl hyper::rt::Read for Established {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Established {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
