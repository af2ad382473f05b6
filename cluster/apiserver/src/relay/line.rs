//! A connection to where a request is carried. What goes wrong is told as Go's client tells it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use base_client::{Connection, Dialer, ResponseBody};
use http::{Request, Response};
use http_body_util::BodyExt;
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::place::{Place, Scheme, Way, bracketed};
use crate::admission::client::{Trust, broken, distrusted, refused, tls};
use crate::server::Inner;

/// How long a connection may take to be there, TLS and all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);

/// What a connection leads to.
pub(crate) struct Line<'a> {
    pub(crate) host: &'a str,
    pub(crate) port: u16,
    /// How it is reached where it is not by address.
    pub(crate) dialer: Option<&'a Dialer>,
    /// How TLS is spoken, if it is.
    pub(crate) tls: Option<TlsConnector>,
}

/// A connection to a place that is not in this process. Errors: why there is none.
pub(super) async fn open_to(server: &Inner, place: &Place) -> Result<Connection, String> {
    let shown = place.port.as_deref().unwrap_or_default();
    let port = place.port().ok_or_else(|| format!("invalid port {shown:?}"))?;
    let tls = match (&place.way, place.scheme) {
        (Way::Here(_) | Way::Nowhere, _) => {
            return Err(format!("dial tcp {}: connect: connection refused", place.authority()));
        }
        (Way::Kubelet, _) => Some(server.kubelets.connector()),
        (Way::Address | Way::Dial(_), Scheme::Https) => Some(TlsConnector::from(Arc::new(tls(Trust::Anybody, None)?))),
        (Way::Address | Way::Dial(_), Scheme::Http) => None,
    };
    let dialer = match &place.way {
        Way::Dial(dialer) => Some(dialer),
        _ => None,
    };
    let host = place.host.as_str();
    open(Line {
        host,
        port,
        dialer,
        tls,
    })
    .await
}

/// A connection of its own. Errors: why there is none.
pub(crate) async fn open(line: Line<'_>) -> Result<Connection, String> {
    let host = line.host;
    let late = format!("dial tcp {}:{}: i/o timeout", bracketed(host), line.port);
    timeout(CONNECT_TIMEOUT, connect(line)).await.unwrap_or(Err(late))
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

async fn connect(line: Line<'_>) -> Result<Connection, String> {
    let Line {
        host,
        port,
        dialer,
        tls,
    } = line;
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

async fn by_address(host: &str, port: u16) -> io::Result<Connection> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small messages matter more than few packets.
    let _ = stream.set_nodelay(true);
    Ok(Box::new(stream))
}
