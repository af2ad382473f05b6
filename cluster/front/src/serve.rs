//! The TLS port, and single connections that others accepted. Never reads a request before the server it is for is known.

use std::any::Any;
use std::convert::Infallible;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base_client::{HttpService, ResponseBody, Wire};
use cluster_access::{PeerAddress, PeerCertificates};
use http::{Request, Response, StatusCode, Uri};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::Body;
use rustls_pki_types::CertificateDer;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, MissedTickBehavior, timeout_at};
use tokio_rustls::StartHandshake;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use crate::body::Limits;
use crate::hello::{Begun, Hello};
use crate::registry::{Front, Here, NotRegistered, Server, Serves};
use crate::takeover::{Place, Takeover, taken_over};
use crate::timeouts::Timeouts;
use crate::tls::HTTP2;
use crate::traffic::{Pieces, Traffic, Watched};
use crate::{body, head};

/// Open connections at once. Each node, controller and person holds a few; beyond this new ones wait in the
/// listener's queue instead of taking the process' last file descriptors.
pub const CONNECTIONS_MAX: usize = 4096;
/// Requests at once on one HTTP/2 connection, as kube-apiserver allows (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/server/secure_serving.go).
pub const STREAMS_PER_CONNECTION_MAX: u32 = 100;
/// Headers of an HTTP/1 request, by number: each group of an impersonated user is one. HTTP/2 bounds bytes alone.
const HEADERS_MAX: usize = 512;
/// Headers of a request, in bytes: tokens and the groups of an impersonated user fit many times. HTTP/1 may read twice as
/// many before it notices.
pub const HEADER_BYTES_MAX: u32 = 128 * 1024;
/// The path before the server's name in URLs that distinguish servers.
const CLUSTERS: &str = "/clusters/";
/// Pause after the listener failed, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

impl Front {
    /// Serves all registered servers on `listener` until `stop`; then cuts all connections it accepted.
    pub async fn serve(&self, listener: TcpListener, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        let connections = TaskTracker::new();
        loop {
            let accepted = tokio::select! {
                () = stop.cancelled() => break,
                accepted = accept(&listener, &permits) => accepted,
            };
            match accepted {
                Ok((stream, permit)) => {
                    let (front, stop) = (self.clone(), stop.clone());
                    let place = Arc::new(Place {
                        stop: stop.clone(),
                        _permit: permit,
                        _open: connections.token(),
                    });
                    let from = stream.peer_addr().ok().map(|address| address.ip());
                    connections.spawn(async move {
                        tokio::select! {
                            () = stop.cancelled() => {}
                            () = front.connection(stream, from, place) => {}
                        }
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        connections.close();
        connections.wait().await;
    }

    /// Serves one connection that another listener accepted, as a connection to the server registered as `name`, whatever name
    /// its client asks for in the TLS handshake, if any. `from` is the client's address, if it is known. It ends with the
    /// connection, whatever protocol that changes to; dropping it cuts the connection. Time-outs and limits are those of the
    /// port, but the connections are counted apart: clients of one do not keep those of the other waiting.
    ///
    /// # Errors
    /// No server is registered as `name`. The stream is closed then, with a reset if it is a [`TcpStream`].
    pub async fn serve_stream<S: Wire + 'static>(
        &self,
        name: &str,
        stream: S,
        from: Option<IpAddr>,
    ) -> Result<(), NotRegistered> {
        let deadline = Instant::now() + self.timeouts.handshake;
        let Ok(Ok(permit)) = timeout_at(deadline, self.streams.clone().acquire_owned()).await else {
            tracing::warn!(
                name,
                "a forwarded connection is closed: {CONNECTIONS_MAX} are open already"
            );
            return Ok(());
        };
        let Some(server) = self.find(name) else {
            reset(&stream);
            return Err(NotRegistered(name.to_owned()));
        };
        let (stop, connections) = (CancellationToken::new(), TaskTracker::new());
        let _cut_when_dropped = stop.clone().drop_guard();
        let place = Arc::new(Place {
            stop,
            _permit: permit,
            _open: connections.token(),
        });
        // On the heap, because it is large and callers hold many.
        Box::pin(self.forwarded(stream, (name, &server), (deadline, from), place)).await;
        // It may have become something else than HTTP.
        connections.close();
        connections.wait().await;
        Ok(())
    }

    async fn forwarded<S: Wire + 'static>(
        &self,
        mut stream: S,
        (name, server): (&str, &Arc<Server>),
        (deadline, from): (Instant, Option<IpAddr>),
        place: Arc<Place>,
    ) {
        undelayed(&stream);
        if let Some(begun) = begin(&mut stream, deadline).await {
            self.hand_on((stream, begun), (name, server), (deadline, from), place)
                .await;
        }
    }

    async fn connection(&self, mut stream: TcpStream, from: Option<IpAddr>, place: Arc<Place>) {
        undelayed(&stream);
        let deadline = Instant::now() + self.timeouts.handshake;
        let Some(begun) = begin(&mut stream, deadline).await else {
            return;
        };
        let name = begun.server_name.clone().unwrap_or_default();
        let Some(server) = self.find(&name) else {
            tracing::debug!(name, "no API server is registered under the requested name");
            reset(&stream);
            return;
        };
        self.hand_on((stream, begun), (&name, &server), (deadline, from), place)
            .await;
    }

    /// Gives a connection that has begun to the server that it is for.
    async fn hand_on<S: Wire + 'static>(
        &self,
        (mut stream, begun): (S, Begun),
        (name, server): (&str, &Arc<Server>),
        (deadline, from): (Instant, Option<IpAddr>),
        place: Arc<Place>,
    ) {
        let here = match &server.serves {
            Serves::Here(here) => here,
            Serves::Program(_) => {
                // The place is held as long as the connection lives.
                if let Err(error) = self.proxy(name, &mut stream, begun.bytes, deadline).await {
                    tracing::debug!(name, %error, "no program takes a connection");
                    reset(&stream);
                }
                return drop(place);
            }
        };
        if let Hello::Whole(accepted) = begun.hello {
            let start = StartHandshake::from_parts(*accepted, stream);
            self.encrypted(start, (server, here), (deadline, from), place).await;
        }
    }

    /// Goes on with a handshake for a server, and serves it.
    async fn encrypted<S: Wire + 'static>(
        &self,
        start: StartHandshake<S>,
        (server, here): (&Arc<Server>, &Here),
        (deadline, from): (Instant, Option<IpAddr>),
        place: Arc<Place>,
    ) {
        let open = server.open.token();
        let handshake = timeout_at(deadline, start.into_stream(here.shown().config.clone()));
        tokio::select! {
            biased;
            () = server.cut.cancelled() => {}
            done = handshake => match done {
                Ok(Ok(stream)) => self.serve_http((server, here), stream, from, place).await,
                Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                Err(_) => tracing::debug!("a TLS handshake took too long"),
            },
        }
        drop(open);
    }

    async fn serve_http<S: Wire + 'static>(
        &self,
        (server, here): (&Arc<Server>, &Here),
        stream: TlsStream<S>,
        from: Option<IpAddr>,
        place: Arc<Place>,
    ) {
        let (_, tls) = stream.get_ref();
        let chain = tls.peer_certificates().map(<[_]>::to_vec);
        let owned = |chain: Vec<CertificateDer<'_>>| chain.into_iter().map(CertificateDer::into_owned).collect();
        let session = Session {
            server: server.clone(),
            service: here.service.clone(),
            bodies: self.bodies.clone(),
            limits: Limits {
                bytes: here.body_bytes_max,
                patience: self.timeouts.body,
            },
            timeouts: self.timeouts,
            traffic: Traffic::new(),
            place,
            peer: chain.map(|chain| PeerCertificates::new(owned(chain))),
            address: from.map(PeerAddress),
            is_http2: tls.alpn_protocol() == Some(HTTP2),
            has_request: AtomicBool::new(false),
        };
        session.serve(stream).await;
    }
}

/// Reads how a connection begins. One that does not begin with TLS is refused by an alert, one that takes too long is dropped.
async fn begin<S: Wire>(stream: &mut S, deadline: Instant) -> Option<Begun> {
    let begun = match timeout_at(deadline, Begun::read(stream)).await {
        Ok(Ok(begun)) => begun,
        Ok(Err(error)) => {
            tracing::debug!(%error, "a connection broke off before it began");
            return None;
        }
        Err(_) => return None,
    };
    let Hello::Broken { why, alert } = &begun.hello else {
        return Some(begun);
    };
    tracing::debug!(why, "a connection did not begin with TLS");
    // Its client may be gone.
    let _ = timeout_at(deadline, stream.write_all(alert)).await;
    None
}

async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> io::Result<(TcpStream, OwnedSemaphorePermit)> {
    let permit = permits.clone().acquire_owned().await.map_err(io::Error::other)?;
    let (stream, _) = listener.accept().await?;
    Ok((stream, permit))
}

/// Closing with nothing left to linger for sends RST instead of FIN. What is not a socket just ends.
pub(crate) fn reset<S: 'static>(stream: &S) {
    if let Some(socket) = socket(stream)
        && let Err(error) = socket.set_zero_linger()
    {
        tracing::debug!(%error, "could not reset a connection");
    }
}

/// Latency of small messages matters more than few packets.
fn undelayed<S: 'static>(stream: &S) {
    if let Some(socket) = socket(stream)
        && let Err(error) = socket.set_nodelay(true)
    {
        tracing::debug!(%error, "could not switch off delays of a connection");
    }
}

fn socket<S: 'static>(stream: &S) -> Option<&TcpStream> {
    (stream as &dyn Any).downcast_ref()
}

fn http1(timeouts: &Timeouts) -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .timer(TokioTimer::new())
        .max_buf_size(HEADER_BYTES_MAX as usize)
        .max_headers(HEADERS_MAX)
        .header_read_timeout(timeouts.headers);
    builder
}

fn http2(timeouts: &Timeouts) -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .keep_alive_interval(timeouts.ping_every)
        .keep_alive_timeout(timeouts.ping_answer)
        .max_header_list_size(HEADER_BYTES_MAX)
        .max_concurrent_streams(STREAMS_PER_CONNECTION_MAX);
    builder
}

/// One encrypted connection.
struct Session {
    server: Arc<Server>,
    service: HttpService,
    bodies: Arc<Semaphore>,
    limits: Limits,
    timeouts: Timeouts,
    traffic: Arc<Traffic>,
    place: Arc<Place>,
    peer: Option<PeerCertificates>,
    address: Option<PeerAddress>,
    is_http2: bool,
    has_request: AtomicBool,
}

impl Session {
    async fn serve<S: Wire + 'static>(self, stream: TlsStream<S>) {
        let service = service_fn(|request: Request<Incoming>| {
            self.has_request.store(true, Ordering::Relaxed);
            self.answer(request)
        });
        let io = TokioIo::new(Watched::new(stream, self.traffic.clone()));
        // The handshake has chosen the protocol. Detecting it from what is read would wait for a silent client for ever, and
        // accept a protocol that was not agreed.
        if self.is_http2 {
            let connection = http2(&self.timeouts).serve_connection(io, service);
            self.drive(connection, |connection| connection.graceful_shutdown())
                .await;
        } else {
            let connection = http1(&self.timeouts).serve_connection(io, service);
            self.drive(connection.with_upgrades(), |connection| connection.graceful_shutdown())
                .await;
        }
    }

    /// Serves the requests of a connection until it ends; `close` has it take nothing new.
    async fn drive<C>(&self, connection: C, close: impl Fn(Pin<&mut C>))
    where
        C: Future<Output = hyper::Result<()>>,
    {
        let first_request = tokio::time::sleep(self.timeouts.headers);
        let mut check = tokio::time::interval(self.timeouts.check_every());
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        tokio::pin!(connection, first_request);
        let mut closing = false;
        loop {
            tokio::select! {
                biased;
                () = self.server.cut.cancelled() => return,
                () = self.server.closing.cancelled(), if !closing => {
                    closing = true;
                    close(connection.as_mut());
                }
                () = first_request.as_mut(), if !first_request.is_elapsed() => {
                    if !self.has_request.load(Ordering::Relaxed) {
                        tracing::debug!("a connection sent no request");
                        return;
                    }
                }
                _ = check.tick() => match self.check() {
                    ConnectionState::Fine => {}
                    ConnectionState::Idle => {
                        closing = true;
                        close(connection.as_mut());
                    }
                    ConnectionState::End => return self.traffic.give_up(),
                },
                done = connection.as_mut() => {
                    if let Err(error) = done {
                        tracing::debug!(%error, "a connection broke off");
                    }
                    return;
                }
            }
        }
    }

    /// Whether the connection may stay open. An idle one of HTTP/1 ends by the time-out of its next headers.
    fn check(&self) -> ConnectionState {
        if self.traffic.is_stalled(&self.timeouts) {
            tracing::debug!("a client did not read its answer");
            return ConnectionState::End;
        }
        let idle = self.traffic.idle();
        match self.is_http2 {
            true if idle > 2 * self.timeouts.idle => ConnectionState::End,
            true if idle > self.timeouts.idle => ConnectionState::Idle,
            _ => ConnectionState::Fine,
        }
    }

    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Result<Response<Pieces>, Infallible>> + use<> {
        let (service, bodies, limits) = (self.service.clone(), self.bodies.clone(), self.limits);
        let (peer, address, open) = (self.peer.clone(), self.address, self.traffic.open());
        let taken = taken_over(request, &self.server, &self.place);
        async move {
            let answer = answer(service, bodies, limits, (peer, address), taken).await?;
            Ok(answer.map(|body| Pieces::new(body, open)))
        }
    }
}

/// What a connection is doing, as far as it decides on its end.
enum ConnectionState {
    Fine,
    /// It takes nothing new.
    Idle,
    End,
}

async fn answer(
    service: HttpService,
    bodies: Arc<Semaphore>,
    limits: Limits,
    (peer, address): (Option<PeerCertificates>, Option<PeerAddress>),
    (request, takeover): (Request<Incoming>, Option<Takeover>),
) -> Result<Response<ResponseBody>, Infallible> {
    let (mut parts, body) = request.into_parts();
    if let Some(refusal) = head::refuse(&parts) {
        return Ok(refusal);
    }
    parts.uri = without_prefix(&parts.uri);
    parts.extensions.remove::<PeerCertificates>();
    if let Some(peer) = peer {
        parts.extensions.insert(peer);
    }
    if let Some(address) = address {
        parts.extensions.insert(address);
    }
    let held = match body::read(body, &bodies, limits).await {
        Ok(held) => held,
        Err(refusal) => {
            tracing::debug!(?refusal, path = parts.uri.path(), "a request's body was refused");
            return Ok(refusal.response());
        }
    };
    let answer = service
        .oneshot(Request::from_parts(parts, Body::from(held.bytes)))
        .await;
    drop(held.permit);
    if let (Ok(answer), Some(takeover)) = (&answer, takeover)
        && answer.status() == StatusCode::SWITCHING_PROTOCOLS
    {
        takeover.begin();
    }
    answer
}

/// kubectl caches discovery by the URL of a server, and the TLS server name is no part of that. So the URL in
/// a kubeconfig may end in `/clusters/NAME`, which only distinguishes servers: the handshake has chosen the server already.
fn without_prefix(uri: &Uri) -> Uri {
    let shortened = || {
        let (_, rest) = uri.path_and_query()?.as_str().strip_prefix(CLUSTERS)?.split_once('/')?;
        format!("/{rest}").parse().ok()
    };
    shortened().unwrap_or_else(|| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::without_prefix;

    #[test]
    fn path_prefix_that_separates_servers_is_removed() {
        for (requested, wanted) in [
            ("/clusters/garden.internal/api/v1/pods?watch=1", "/api/v1/pods?watch=1"),
            ("/api/v1/namespaces/clusters/pods", "/api/v1/namespaces/clusters/pods"),
            ("/clusters/garden.internal", "/clusters/garden.internal"),
            ("/readyz", "/readyz"),
        ] {
            assert_eq!(without_prefix(&requested.parse().unwrap()).to_string(), wanted);
        }
    }
}
