//! A client in process whose server is a program: one connection to it, over TLS and HTTP/2, made when it is first needed and
//! again when it has ended.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base_client::ResponseBody;
use http::uri::{Authority, Scheme};
use http::{Request, Response, Uri};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use kube::client::Body;
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower::BoxError;

use crate::cut::cut_with;
use crate::registry::{Front, Server};

/// How long a connection and its handshake may take, as of clients of a socket (`base-client`).
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How long an answer may take to begin: longer than kube-apiserver takes to answer 504 itself, as in `base-client`.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(70);
/// When a silent program is pinged, and how long it may take to answer.
const PING: Duration = Duration::from_secs(30);

/// The connection of one client.
pub(crate) struct OverTls {
    connector: TlsConnector,
    open: Mutex<Option<Open>>,
    /// Held while a connection is made, so that requests that come together share it.
    opening: tokio::sync::Mutex<()>,
}

/// An open connection.
#[derive(Clone)]
struct Open {
    server: Arc<Server>,
    sender: SendRequest<Body>,
}

impl OverTls {
    pub(crate) fn new(config: ClientConfig) -> Self {
        Self {
            connector: TlsConnector::from(Arc::new(config)),
            open: Mutex::default(),
            opening: tokio::sync::Mutex::default(),
        }
    }

    /// Sends a request to the program that is registered under a name.
    pub(crate) async fn call(
        &self,
        front: &Front,
        name: &str,
        mut request: Request<Body>,
    ) -> Result<Response<ResponseBody>, BoxError> {
        let Open { server, mut sender } = self.connected(front, name).await?;
        *request.uri_mut() = absolute(request.uri(), name)?;
        let open = server.open.token();
        let answered = tokio::select! {
            biased;
            () = server.cut.cancelled() => return Err(crate::cut::reset().into()),
            answered = timeout(ANSWER_TIMEOUT, sender.send_request(request)) => answered,
        };
        let answer =
            answered.map_err(|_| io::Error::new(io::ErrorKind::TimedOut, format!("no answer of {name}")))??;
        let body = |body: hyper::body::Incoming| body.map_err(Into::into).boxed_unsync();
        Ok(answer.map(|answered| cut_with(body(answered), server.cut.clone(), open)))
    }

    async fn connected(&self, front: &Front, name: &str) -> Result<Open, BoxError> {
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let _opening = self.opening.lock().await;
        if let Some(open) = self.current() {
            return Ok(open);
        }
        let late = |_| io::Error::new(io::ErrorKind::TimedOut, format!("{name} takes no connection"));
        let open = timeout(CONNECT_TIMEOUT, self.connect(front, name))
            .await
            .map_err(late)??;
        *self.open.lock().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
        Ok(open)
    }

    fn current(&self) -> Option<Open> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let is_open = |open: &&Open| !open.sender.is_closed() && !open.server.closing.is_cancelled();
        open.as_ref().filter(is_open).cloned()
    }

    async fn connect(&self, front: &Front, name: &str) -> Result<Open, BoxError> {
        let (server, connection) = front.dial(name).await?;
        let server_name = ServerName::try_from(name.to_owned())?;
        let stream = self.connector.connect(server_name, connection).await?;
        let (sender, driver) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PING)
            .handshake(TokioIo::new(stream))
            .await?;
        let (cut, open) = (server.cut.clone(), server.open.token());
        tokio::spawn(async move {
            let _open = open;
            tokio::select! {
                () = cut.cancelled() => {}
                ended = driver => {
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a connection to a program broke off");
                    }
                }
            }
        });
        Ok(Open { server, sender })
    }
}

/// HTTP/2 names the server in each request.
fn absolute(uri: &Uri, name: &str) -> Result<Uri, http::Error> {
    let mut parts = uri.clone().into_parts();
    parts.scheme = Some(Scheme::HTTPS);
    parts.authority = Some(Authority::try_from(name)?);
    if parts.path_and_query.is_none() {
        parts.path_and_query = Some("/".parse()?);
    }
    Ok(Uri::from_parts(parts)?)
}
