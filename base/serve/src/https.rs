//! An HTTPS port: TLS 1.2 and later, HTTP/1.1, limits for everything a client may take, and an end that lets requests under way
//! finish. The service behind it decides what is answered.

use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base_client::{HttpService, ResponseBody, answer_apart};
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::client::Body;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::body::{self, text_response};
use crate::certificate::ServerCertificate;
use crate::limits::Limits;
use crate::plain::ACCEPT_PAUSE;
use crate::stalled::Stalled;

/// Least size of hyper's buffer.
const BUFFER_BYTES_MIN: usize = 8192;

/// A service behind HTTPS.
#[derive(Clone, Debug)]
pub struct HttpsServer {
    service: HttpService,
    certificate: ServerCertificate,
    limits: Limits,
}

impl HttpsServer {
    /// A service, and the certificate that is shown for it. The service gets each request with its whole body.
    #[must_use]
    pub fn new(service: HttpService, certificate: ServerCertificate) -> Self {
        Self {
            service,
            certificate,
            limits: Limits::default(),
        }
    }

    /// Other limits.
    #[must_use]
    pub fn limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// Serves until `stop`. From then on no connection is accepted, requests under way are answered, and what is left after the
    /// grace time is cut. Dropping the future cuts all connections.
    ///
    /// A pod's process lets its readiness fail and waits a moment before it stops its port: until the Service no longer leads
    /// to it, clients still come.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) {
        let limits = self.limits;
        let permits = Arc::new(Semaphore::new(limits.connections_max.clamp(1, Semaphore::MAX_PERMITS)));
        let connections = TaskTracker::new();
        let cut = CancellationToken::new();
        let cut_when_dropped = cut.clone().drop_guard();
        let port = Arc::new(Port {
            bodies: Arc::new(Semaphore::new(limits.bodies_bytes_max.min(u32::MAX as usize))),
            server: self,
            stop: stop.clone(),
            cut,
        });
        loop {
            let accepted = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                accepted = accept(&listener, &permits) => accepted,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let port = port.clone();
                    connections.spawn(async move {
                        port.connection(stream).await;
                        drop(permit);
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        drop(listener);
        connections.close();
        if timeout(limits.grace, connections.wait()).await.is_err() {
            tracing::warn!(
                left = connections.len(),
                "connections are cut: they did not end within {:?}",
                limits.grace
            );
        }
        drop(cut_when_dropped);
        connections.wait().await;
    }
}

async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// A port while it is served.
struct Port {
    server: HttpsServer,
    /// What the bodies of requests may still take, in bytes.
    bodies: Arc<Semaphore>,
    /// Connections finish their requests.
    stop: CancellationToken,
    /// Connections are cut.
    cut: CancellationToken,
}

impl Port {
    async fn connection(self: Arc<Self>, stream: TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "could not switch off delays of a connection");
        }
        let deadline = Instant::now() + self.server.limits.handshake;
        let encrypted = tokio::select! {
            biased;
            () = self.cut.cancelled() => return,
            encrypted = timeout_at(deadline, self.handshake(stream)) => encrypted,
        };
        match encrypted {
            Ok(Ok(stream)) => Box::pin(self.http(stream)).await,
            Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
            Err(_) => tracing::debug!("a TLS handshake took too long"),
        }
    }

    async fn handshake(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let config = self.server.certificate.config().await;
        let config = config.ok_or_else(|| io::Error::other("there is no certificate"))?;
        TlsAcceptor::from(config).accept(stream).await
    }

    async fn http(self: Arc<Self>, stream: TlsStream<TcpStream>) {
        let limits = &self.server.limits;
        let has_request = AtomicBool::new(false);
        let service = service_fn(|request| {
            has_request.store(true, Ordering::Relaxed);
            self.clone().answer(request)
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .max_header_size(limits.head_bytes_max)
            .max_buf_size(limits.head_bytes_max.max(BUFFER_BYTES_MIN))
            .header_read_timeout(limits.idle)
            .serve_connection(TokioIo::new(Stalled::new(stream, limits.stalled)), service);
        let first_request = tokio::time::sleep(limits.first_request);
        tokio::pin!(connection, first_request);
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                () = self.cut.cancelled() => return,
                () = self.stop.cancelled(), if !stopping => {
                    stopping = true;
                    connection.as_mut().graceful_shutdown();
                }
                () = first_request.as_mut(), if !first_request.is_elapsed() => {
                    if !has_request.load(Ordering::Relaxed) {
                        tracing::debug!("a connection has sent no request");
                        return;
                    }
                }
                ended = connection.as_mut() => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection broke off");
                    }
                    return;
                }
            }
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<ResponseBody>, Infallible> {
        let limits = &self.server.limits;
        let (parts, body) = request.into_parts();
        let held = match body::read(body, &self.bodies, limits.body_bytes_max, limits.body).await {
            Ok(held) => held,
            Err(refusal) => {
                tracing::debug!(?refusal, path = parts.uri.path(), "a request's body was refused");
                return Ok(refusal.response());
            }
        };
        let request = Request::from_parts(parts, Body::from(held.bytes));
        let answered = answer_apart(self.server.service.clone(), request).await;
        drop(held.permit);
        Ok(answered.unwrap_or_else(|no_answer| {
            tracing::error!(%no_answer, "the service of a port has panicked");
            text_response(StatusCode::INTERNAL_SERVER_ERROR, "the server failed over the request")
        }))
    }
}
