//! The small HTTP(S) server of a process: health, readiness, metrics, and whatever routes its program adds.
//! It never serves an API of Kubernetes and never authenticates: what it says is for anyone who can reach it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use base_telemetry::{Metrics, OPENMETRICS_CONTENT_TYPE};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

/// Answers under way get this long to end when the server stops; probes and scrapes are short.
const STOP_GRACE: Duration = Duration::from_secs(5);
/// A client that does not finish its TLS handshake in this time is let go.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failed accept, which usually means that file descriptors have run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// `/healthz` (200 while the process runs), `/readyz` (200 once `ready` answers `Ok`, else 503 with its reason)
/// and `/metrics`.
pub fn health_routes(
    metrics: Metrics,
    ready: impl Fn() -> Result<(), String> + Clone + Send + Sync + 'static,
) -> Router {
    Router::new()
        .route("/healthz", get(|| async { "ok" }))
        .route(
            "/readyz",
            get(move || {
                let ready = ready();
                async move {
                    match ready {
                        Ok(()) => (StatusCode::OK, "ok".to_owned()),
                        Err(reason) => (StatusCode::SERVICE_UNAVAILABLE, reason),
                    }
                }
            }),
        )
        .route(
            "/metrics",
            get(move || async move { ([(header::CONTENT_TYPE, OPENMETRICS_CONTENT_TYPE)], metrics.encode()) }),
        )
}

/// Serves `routes` on `listener`, over TLS if `tls` is given, until `stop`; then lets answers under way end.
pub async fn serve(
    listener: TcpListener,
    tls: Option<Arc<rustls::ServerConfig>>,
    routes: Router,
    stop: CancellationToken,
) -> io::Result<()> {
    let acceptor = tls.map(TlsAcceptor::from);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stop.cancelled() => break,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!("connection not accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        tokio::spawn(connection(stream, acceptor.clone(), routes.clone(), graceful.watcher()));
    }
    if tokio::time::timeout(STOP_GRACE, graceful.shutdown()).await.is_err() {
        tracing::debug!("connections are cut off");
    }
    Ok(())
}

async fn connection(
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    routes: Router,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let service = TowerToHyperService::new(routes);
    let server = auto::Builder::new(TokioExecutor::new());
    // A client that goes away is its own affair.
    let ended = match acceptor {
        None => {
            let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
            watcher.watch(connection).await
        }
        Some(acceptor) => match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
            Ok(Ok(stream)) => {
                let connection = server.serve_connection(TokioIo::new(stream), service).into_owned();
                watcher.watch(connection).await
            }
            Ok(Err(error)) => return tracing::debug!("TLS handshake failed: {error}"),
            Err(_) => return tracing::debug!("TLS handshake timed out"),
        },
    };
    if let Err(error) = ended {
        tracing::debug!("connection ended: {error}");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn ask(address: std::net::SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn readiness_follows_its_judge_and_a_stop_ends_the_server() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (ready, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let judge = ready.clone();
        let routes = health_routes(Metrics::new(), move || {
            if judge.load(Ordering::SeqCst) {
                Ok(())
            } else {
                Err("caches are not filled".to_owned())
            }
        });
        let server = tokio::spawn(serve(listener, None, routes, stop.clone()));
        assert!(ask(address, "/healthz").await.starts_with("HTTP/1.1 200"));
        let not_ready = ask(address, "/readyz").await;
        assert!(
            not_ready.starts_with("HTTP/1.1 503") && not_ready.ends_with("caches are not filled"),
            "{not_ready}"
        );
        ready.store(true, Ordering::SeqCst);
        assert!(ask(address, "/readyz").await.starts_with("HTTP/1.1 200"));
        assert!(ask(address, "/metrics").await.ends_with("# EOF\n"));
        stop.cancel();
        server.await.unwrap().unwrap();
        assert!(TcpStream::connect(address).await.is_err());
    }
}
