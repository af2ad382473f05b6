//! Connections by address or to a server of this process, and one request over them. What goes wrong is reported as Go's client
//! reports it. It keeps no connection.

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use base_client::{Connection, Dialer, HttpService, ResponseBody, Upgrade, answer_apart, empty_body};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1::handshake;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use crate::connections::addresses::bracketed;
use crate::connections::tls::{broken, distrusted, refused};

/// How long it may take to open a connection, with TLS.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest body of a request over a connection within this process: a review of the largest object and its old state, and more.
const BODY_BYTES_MAX: usize = 16 << 20;
/// The buffer of a connection within this process, in each direction.
const PIPE_BYTES_MAX: usize = 64 << 10;

/// What a connection leads to.
pub(crate) struct Destination<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// How it is reached where it is not by address.
    pub(crate) dialer: Option<&'a Dialer>,
    /// How TLS is spoken, if it is.
    pub(crate) tls: Option<TlsConnector>,
}

/// A connection of its own. Errors: why there is none.
pub(crate) async fn open(destination: Destination<'_>) -> Result<Connection, String> {
    let host = destination.host;
    let late = format!("dial tcp {}:{}: i/o timeout", bracketed(host), destination.port);
    timeout(CONNECT_TIMEOUT, connect(destination))
        .await
        .unwrap_or(Err(late))
}

/// Sends a request over a connection that nothing else uses, and waits for the head of the answer. Errors: why there is none.
pub(crate) async fn send(connection: Connection, request: Request<Body>) -> Result<Response<ResponseBody>, String> {
    let (mut sender, driver) = handshake(TokioIo::new(connection))
        .await
        .map_err(|error| broken(&error))?;
    // It ends with the answer or the other side.
    tokio::spawn(driver);
    let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

async fn connect(destination: Destination<'_>) -> Result<Connection, String> {
    let Destination {
        host,
        port,
        dialer,
        tls,
    } = destination;
    let stream = match dialer {
        Some(dialer) => dialer.connect().await,
        None => by_address(host, port).await,
    };
    let stream = stream.map_err(|error| refused(host, port, &error))?;
    let Some(tls) = tls else {
        return Ok(stream);
    };
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| format!("tls: {host:?} is no name of a server: {error}"))?;
    let stream = tls
        .connect(name, stream)
        .await
        .map_err(|error| distrusted(&error, host))?;
    Ok(Box::new(stream))
}

/// A connection to an address.
pub(crate) async fn by_address(host: &str, port: u16) -> io::Result<Connection> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small messages matter more than few packets.
    let _ = stream.set_nodelay(true);
    Ok(Box::new(stream))
}

/// A connection to a server of this process. It ends with the first answer, so that none leads to a server that is gone.
pub(crate) fn to_service(service: HttpService) -> Connection {
    let (near, far) = tokio::io::duplex(PIPE_BYTES_MAX);
    let serve = service_fn(move |request| answer(service.clone(), request));
    let connection = http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(far), serve)
        .with_upgrades();
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection within this process broke off");
        }
    });
    Box::new(near)
}

async fn answer(service: HttpService, mut request: Request<Incoming>) -> Result<Response<ResponseBody>, Infallible> {
    let offered = request.extensions_mut().remove::<OnUpgrade>().map(|upgraded| {
        let (sender, upgrade) = Upgrade::offer();
        request.extensions_mut().insert(upgrade);
        (upgraded, sender)
    });
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_BYTES_MAX).collect().await else {
        return Ok(empty(StatusCode::PAYLOAD_TOO_LARGE));
    };
    let request = Request::from_parts(head, Body::from(body.to_bytes()));
    let answered = answer_apart(service, request).await;
    let response = answered.unwrap_or_else(|_| empty(StatusCode::BAD_GATEWAY));
    if let (Some((upgraded, sender)), StatusCode::SWITCHING_PROTOCOLS) = (offered, response.status()) {
        tokio::spawn(async move {
            if let Ok(connection) = upgraded.await {
                // The task that answered 101 may be gone by now; then the connection ends here.
                let _ = sender.send(Box::new(TokioIo::new(connection)));
            }
        });
    }
    Ok(response)
}

fn empty(code: StatusCode) -> Response<ResponseBody> {
    let mut response = Response::new(empty_body());
    *response.status_mut() = code;
    response
}

/// Sends a request for an upgrade and waits for the head of the answer. Errors: why there is none.
pub(crate) async fn upgraded(connection: Connection, request: Request<Body>) -> Result<Response<Incoming>, String> {
    // Go's client reports this error otherwise for an upgrade.
    let broken = |error: hyper::Error| match broken(&error) {
        why if why == "EOF" => "unexpected EOF".to_owned(),
        why => why,
    };
    let (mut sender, driver) = handshake(TokioIo::new(connection)).await.map_err(broken)?;
    // It ends with the answer or the other side, or when the connection is upgraded.
    tokio::spawn(driver.with_upgrades());
    sender.send_request(request).await.map_err(broken)
}
