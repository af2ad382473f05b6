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
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tokio_rustls::TlsConnector;

use crate::error::Kind;

/// A connection and its TLS: the longest that a registry at the other end of the world takes, three times over.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// From a request to its answer's head: registries that fetch from elsewhere first are slow.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Between two pieces of a body: whoever is silent for longer has gone.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection is kept for the next request.
const IDLE_TIMEOUT: Duration = Duration::from_secs(20);
/// Connections kept for a host: as many as pull at once from one registry, now and then.
const IDLE_MAX: usize = 4;
/// Most bytes of an answer's head.
const HEAD_BYTES_MAX: usize = 64 << 10;

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
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        }
        .boxed()
    }
}

/// Connections to hosts, kept for a while.
#[derive(Clone)]
pub(crate) struct Transport {
    client: legacy::Client<Connector, Full<Bytes>>,
}

impl Transport {
    pub(crate) fn new(tls: Arc<ClientConfig>, dial: Arc<dyn Dial>) -> Self {
        let client = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(IDLE_MAX)
            .http1_max_buf_size(HEAD_BYTES_MAX)
            .build(Connector { tls, dial });
        Self { client }
    }

    /// Sends a request and waits for the head of its answer, until then at most.
    pub(crate) async fn send(&self, request: Request<Full<Bytes>>, until: Instant) -> Result<Response<Incoming>, Kind> {
        let patience = until.min(Instant::now() + ANSWER_TIMEOUT + CONNECT_TIMEOUT);
        match timeout_at(patience, self.client.request(request)).await {
            Ok(answer) => answer.map_err(|error| lost(&error)),
            Err(_) => Err(Kind::Unreachable("it does not answer".to_owned())),
        }
    }
}

/// Reads a body of at most `bytes_max` bytes, and shows each piece to `see`.
pub(crate) async fn read_body(
    mut body: Incoming,
    bytes_max: u64,
    until: Instant,
    mut see: impl FnMut(&[u8]),
) -> Result<Vec<u8>, BodyError> {
    let broken = |why: String| BodyError::Broken(Kind::Unreachable(why));
    let mut bytes = Vec::new();
    loop {
        let patience = until.min(Instant::now() + SILENCE_TIMEOUT);
        let frame = match timeout_at(patience, body.frame()).await {
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
        // Errors of I/O show those of TLS by what they hold, not as their source.
        let held = one.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let tls = one
            .downcast_ref::<rustls::Error>()
            .or_else(|| held.and_then(|held| held.downcast_ref::<rustls::Error>()));
        match tls {
            Some(rustls::Error::InvalidCertificate(why)) => return Kind::Untrusted(why.to_string()),
            // What it has sent is no record of TLS: as a rule it is HTTP.
            Some(rustls::Error::InvalidMessage(rustls::InvalidMessage::InvalidContentType)) => return Kind::NoTls,
            _ => {}
        }
        cause = one.source();
    }
    Kind::Unreachable(chain(error))
}

/// What an error says of its causes, from the outer to the inner, each once.
fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let mut told = Vec::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(one) = next {
        // What rustls says here is a link to its manual.
        let is_end = one
            .downcast_ref::<io::Error>()
            .is_some_and(|error| error.kind() == io::ErrorKind::UnexpectedEof);
        let said = if is_end {
            "the connection has ended".to_owned()
        } else {
            one.to_string()
        };
        if told.last() != Some(&said) {
            told.push(said);
        }
        next = one.source();
    }
    // The library's own first words name no cause.
    if told.len() > 1 && told[0].starts_with("client error") {
        told.remove(0);
    }
    told.join(": ")
}

#[derive(Clone)]
struct Connector {
    tls: Arc<ClientConfig>,
    dial: Arc<dyn Dial>,
}

impl tower::Service<Uri> for Connector {
    type Response = Established;
    type Error = io::Error;
    type Future = BoxFuture<'static, io::Result<Established>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (tls, dial) = (self.tls.clone(), self.dial.clone());
        async move {
            let late = |_| {
                io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("no connection within {CONNECT_TIMEOUT:?}"),
                )
            };
            tokio::time::timeout(CONNECT_TIMEOUT, connect(&uri, tls, dial.as_ref()))
                .await
                .map_err(late)?
        }
        .boxed()
    }
}

async fn connect(uri: &Uri, tls: Arc<ClientConfig>, dial: &dyn Dial) -> io::Result<Established> {
    let host = uri.host().unwrap_or_default().to_owned();
    let is_plain = uri.scheme_str() == Some("http");
    let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    let stream = dial.dial(host.clone(), port).await?;
    if is_plain {
        return Ok(Established(TokioIo::new(stream)));
    }
    let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let name = ServerName::try_from(name).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
    let stream = TlsConnector::from(tls).connect(name, stream).await?;
    Ok(Established(TokioIo::new(Box::new(stream))))
}

/// A connection as the client library wants it.
struct Established(TokioIo<Box<dyn Stream>>);

impl Connection for Established {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl hyper::rt::Read for Established {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl hyper::rt::Write for Established {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
