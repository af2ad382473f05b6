//! The plain HTTP ports of a process: `/healthz` and `/readyz` on one, `/metrics` on the other, all on one where both are the
//! same.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api_config::Server;
use api_meta::Fault;
use base_telemetry::OPENMETRICS_CONTENT_TYPE;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// Connections of one port at a time: probes and scrapers are few.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send its request's head, and to keep a connection without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// Pause after the listener failed, so that a lack of file descriptors does not become a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a path answers.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    pub(crate) text: String,
    pub(crate) content_type: &'static str,
}

impl Answer {
    /// A check of health: `ok`, or why not.
    pub(crate) fn check(outcome: Result<(), String>) -> Self {
        let (code, text) = match outcome {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(why) => (StatusCode::INTERNAL_SERVER_ERROR, why),
        };
        Self {
            code,
            text,
            content_type: "text/plain; charset=utf-8",
        }
    }

    pub(crate) fn metrics(text: String) -> Self {
        Self {
            code: StatusCode::OK,
            text,
            content_type: OPENMETRICS_CONTENT_TYPE,
        }
    }
}

/// Answers a path; none where there is nothing.
pub(crate) type Paths = Arc<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

/// Opens a port. `field`: where the configuration names it.
///
/// # Errors
/// It is taken, or the address is not of this machine.
pub(crate) async fn open(server: &Server, field: &str) -> Result<TcpListener, Fault> {
    let addresses = match server.address {
        Some(address) => vec![address],
        // The first takes connections of both families where the machine has both.
        None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    let addresses: Vec<SocketAddr> = addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, server.port))
        .collect();
    TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
        let at = addresses.last().map(ToString::to_string).unwrap_or_default();
        Fault::user(format!("cannot listen at {at}: {error}")).hint(format!(
            "end what listens there, or name another port in {field} of the configuration"
        ))
    })
}

/// Serves a port for as long as it is polled.
pub(crate) async fn serve(listener: TcpListener, paths: Paths) -> Infallible {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let permit = permits.clone().acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let paths = paths.clone();
                tokio::spawn(async move {
                    connection(stream, paths).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "could not accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn connection(stream: TcpStream, paths: Paths) {
    let service = service_fn(move |request: Request<Incoming>| {
        let response = respond(paths(request.uri().path()));
        async move { Ok::<_, Infallible>(response) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

fn respond(answer: Option<Answer>) -> Response<Full<Bytes>> {
    let Answer {
        code,
        text,
        content_type,
    } = answer.unwrap_or_else(|| Answer {
        code: StatusCode::NOT_FOUND,
        text: "404 page not found\n".to_owned(),
        content_type: "text/plain; charset=utf-8",
    });
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = code;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, header::HeaderValue::from_static(content_type));
    response
}
