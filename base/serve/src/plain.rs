//! Plain HTTP ports of a process: `/healthz` and `/readyz` on one, `/metrics` on another, or all on one where both are the same.
//! It reads the path of a request and nothing else of it.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use api_meta::Fault;
use base_telemetry::OPENMETRICS_CONTENT_TYPE;
use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::stalled::Stalled;

/// Connections of one port at a time: probes and scrapers are few.
const CONNECTIONS_MAX: usize = 64;
/// How long a client may take to send its request's head, and to keep a connection without one.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a client may leave bytes of an answer unread.
const STALLED: Duration = Duration::from_secs(30);
/// Pause after the listener failed, so that a lack of file descriptors does not become a busy loop.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a path answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The status code.
    pub code: StatusCode,
    /// The body.
    pub text: String,
    /// The media type of the body.
    pub content_type: &'static str,
}

impl Answer {
    /// A health check: 200 with `ok`, or 500 with the reason.
    #[must_use]
    pub fn check(outcome: Result<(), String>) -> Self {
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

    /// Metrics in the text format of OpenMetrics.
    #[must_use]
    pub fn metrics(text: String) -> Self {
        Self {
            code: StatusCode::OK,
            text,
            content_type: OPENMETRICS_CONTENT_TYPE,
        }
    }
}

/// Answers a path; `None` is a 404. It is called from the task of a connection and must not block.
pub type Paths = Arc<dyn Fn(&str) -> Option<Answer> + Send + Sync>;

/// Opens a port. Without an address it listens on all addresses of the machine, of both families where the machine has both.
/// Port 0 takes a free one. `setting` names where the port is set, as in "server.metrics.port of the configuration".
///
/// # Errors
/// The port is taken, or the address is not one of this machine. The hint names `setting`.
pub async fn open(address: Option<IpAddr>, port: u16, setting: &str) -> Result<TcpListener, Fault> {
    let addresses = match address {
        Some(address) => vec![address],
        // The first takes connections of both families where the machine has both.
        None => vec![IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpAddr::V4(Ipv4Addr::UNSPECIFIED)],
    };
    let addresses: Vec<SocketAddr> = addresses
        .into_iter()
        .map(|address| SocketAddr::new(address, port))
        .collect();
    TcpListener::bind(addresses.as_slice()).await.map_err(|error| {
        let at = addresses.last().map(ToString::to_string).unwrap_or_default();
        Fault::user(format!("cannot listen at {at}: {error}"))
            .hint(format!("end what listens there, or name another port in {setting}"))
    })
}

/// Serves a port for as long as it is polled.
pub async fn serve(listener: TcpListener, paths: Paths) -> Infallible {
    serve_within(listener, paths, CONNECTIONS_MAX, STALLED).await
}

async fn serve_within(listener: TcpListener, paths: Paths, connections_max: usize, stalled: Duration) -> Infallible {
    let permits = Arc::new(Semaphore::new(connections_max));
    loop {
        let permit = permits.clone().acquire_owned().await;
        match listener.accept().await {
            Ok((stream, _)) => {
                let paths = paths.clone();
                tokio::spawn(async move {
                    connection(Stalled::new(stream, stalled), paths).await;
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

async fn connection(stream: Stalled<TcpStream>, paths: Paths) {
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn paths_answer_with_code_and_type_and_others_with_404() {
        let listener = open(Some(Ipv4Addr::LOCALHOST.into()), 0, "a test").await.unwrap();
        let address = listener.local_addr().unwrap();
        let paths: Paths = Arc::new(|path| match path {
            "/healthz" => Some(Answer::check(Ok(()))),
            "/readyz" => Some(Answer::check(Err("no certificate yet".to_owned()))),
            "/metrics" => Some(Answer::metrics("# EOF\n".to_owned())),
            _ => None,
        });
        let serving = tokio::spawn(serve(listener, paths));
        for (path, beginning, end) in [
            ("/healthz", "HTTP/1.1 200", "ok"),
            ("/readyz", "HTTP/1.1 500", "no certificate yet"),
            ("/metrics", "HTTP/1.1 200", "# EOF\n"),
            ("/other", "HTTP/1.1 404", "404 page not found\n"),
        ] {
            let answer = get(address, path).await;
            assert!(
                answer.starts_with(beginning) && answer.ends_with(end),
                "{path}: {answer}"
            );
        }
        assert!(get(address, "/metrics").await.contains("application/openmetrics-text"));
        serving.abort();
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_of_its_answer_gives_its_place_to_another() {
        let listener = open(Some(Ipv4Addr::LOCALHOST.into()), 0, "a test").await.unwrap();
        let address = listener.local_addr().unwrap();
        // More than the buffers of both ends of a connection.
        let large = "x".repeat(64 << 20);
        let paths: Paths = Arc::new(move |path| {
            Some(match path {
                "/metrics" => Answer::metrics(large.clone()),
                _ => Answer::check(Ok(())),
            })
        });
        let serving = tokio::spawn(serve_within(listener, paths, 1, Duration::from_millis(50)));
        let mut idle = TcpStream::connect(address).await.unwrap();
        idle.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
            .await
            .unwrap();
        let answer = tokio::time::timeout(Duration::from_secs(60), get(address, "/healthz")).await;
        assert!(answer.expect("the only place is free").ends_with("ok"));
        serving.abort();
    }

    #[tokio::test]
    async fn a_taken_port_is_refused_with_the_setting_that_names_it() {
        let first = open(Some(Ipv4Addr::LOCALHOST.into()), 0, "a").await.unwrap();
        let port = first.local_addr().unwrap().port();
        let fault = open(Some(Ipv4Addr::LOCALHOST.into()), port, "--health-bind-address")
            .await
            .unwrap_err();
        assert!(
            fault
                .to_string()
                .starts_with(&format!("cannot listen at 127.0.0.1:{port}: "))
        );
        assert!(
            fault.hint.ends_with("another port in --health-bind-address"),
            "{}",
            fault.hint
        );
    }
}
