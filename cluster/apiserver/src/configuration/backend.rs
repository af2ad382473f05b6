//! A server behind this one: how it is reached, and a pool of connections to it. It knows nothing of users.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use base_client::Connection;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::client::conn::http1::SendRequest;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

use crate::connections::dial::upgraded;
use crate::connections::https_target::HttpsTarget;
use crate::connections::identity::ClientIdentity;
use crate::connections::network::Network;
use crate::connections::pool::{self, Pool};
use crate::connections::tls::{Trust, broken, tls};

/// How long it may take to open a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Largest document that this server reads for itself: discovery and OpenAPI.
const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// A server behind this one.
pub(crate) struct Backend {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) group_priority: i64,
    pub(crate) version_priority: i64,
    spec: Value,
    reach: Result<HttpsTarget, String>,
    /// The same server, whatever its certificate: used to check that it is there.
    check: Result<HttpsTarget, String>,
    pool: Pool<Body>,
    /// Its own documents: the resources of the version as in the aggregated document, and its entry in the index
    /// of OpenAPI.
    pub(crate) documents: Mutex<Documents>,
}

/// What a server publishes about itself.
#[derive(Clone, Default)]
pub(crate) struct Documents {
    pub(crate) resources: Option<Value>,
    pub(crate) openapi: Option<Value>,
}

impl Backend {
    /// The backend of an APIService that names a Service.
    pub(crate) fn of(object: &Value, identity: Option<&ClientIdentity>) -> Self {
        let spec = &object["spec"];
        let text = |field: &str| spec[field].as_str().unwrap_or_default().to_owned();
        let bundle = text("caBundle");
        let trust = match spec["insecureSkipTLSVerify"].as_bool() {
            Some(true) => Trust::AnyServer,
            _ => Trust::Bundle(&bundle),
        };
        let reach = |trust| tls(trust, identity).map(|tls| HttpsTarget::service(&spec["service"], tls));
        Self {
            group: text("group"),
            version: text("version"),
            group_priority: number(object, "groupPriorityMinimum"),
            version_priority: number(object, "versionPriority"),
            reach: reach(trust),
            check: reach(Trust::AnyServer),
            spec: spec.clone(),
            pool: Pool::default(),
            documents: Mutex::default(),
        }
    }

    pub(crate) fn is_of(&self, object: &Value) -> bool {
        self.spec == object["spec"]
    }

    /// The documents that it returned at the last check.
    pub(crate) fn documents(&self) -> Documents {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Where its version is served.
    pub(crate) fn root(&self) -> String {
        match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        }
    }

    /// `https://HOST:PORT` of the Service as it is now. Errors: the Service leads nowhere.
    pub(crate) async fn address(&self, network: &Network) -> Result<String, String> {
        let reach = self.reach.as_ref().map_err(Clone::clone)?;
        let (host, port) = reach.address(network).await?;
        Ok(match host.contains(':') {
            true => format!("https://[{host}]:{port}"),
            false => format!("https://{host}:{port}"),
        })
    }

    /// Forwards a request. Errors: why there is no answer.
    pub(crate) async fn send(
        self: &Arc<Self>,
        network: &Network,
        mut request: Request<Body>,
    ) -> Result<Response<Passed>, String> {
        let reach = self.reach.as_ref().map_err(Clone::clone)?;
        set_host(&mut request, reach);
        let mut sender = match self.pool.ready().await {
            Some(sender) => sender,
            None => open(network, reach).await?,
        };
        let response = match sender.try_send_request(request).await {
            Ok(response) => response,
            // A pooled connection may have been closed just now; what was not sent on it goes to a new one.
            Err(mut error) => match error.take_message() {
                None => return Err(broken(error.error())),
                Some(request) => {
                    sender = open(network, reach).await?;
                    sender.send_request(request).await.map_err(|error| broken(&error))?
                }
            },
        };
        let (parts, body) = response.into_parts();
        let borrowed = Some((self.clone(), sender));
        Ok(Response::from_parts(parts, Passed { body, borrowed }))
    }

    /// Forwards a request for an upgrade over a connection of its own. Errors: why there is no answer.
    pub(crate) async fn upgrade(
        &self,
        network: &Network,
        mut request: Request<Body>,
    ) -> Result<Response<Incoming>, String> {
        let reach = self.reach.as_ref().map_err(Clone::clone)?;
        set_host(&mut request, reach);
        let connection = connect(network, reach).await;
        let connection = connection.map_err(|why| format!("error dialing backend: {why}"))?;
        upgraded(connection, request).await
    }

    /// Requests a document, from any server that answers. Errors: why there is none.
    pub(crate) async fn fetch(
        &self,
        network: &Network,
        mut request: Request<Body>,
    ) -> Result<(http::StatusCode, Bytes), String> {
        let reach = self.check.as_ref().map_err(Clone::clone)?;
        set_host(&mut request, reach);
        let mut sender = open(network, reach).await?;
        let response = sender.send_request(request).await.map_err(|error| broken(&error))?;
        let code = response.status();
        Ok((code, pool::read(response.into_body(), DOCUMENT_BYTES_MAX).await?))
    }
}

fn set_host(request: &mut Request<Body>, reach: &HttpsTarget) {
    if let Ok(host) = HeaderValue::from_str(reach.name()) {
        request.headers_mut().insert(header::HOST, host);
    }
}

async fn connect(network: &Network, reach: &HttpsTarget) -> Result<Connection, String> {
    let late = |_| "dial tcp: i/o timeout".to_owned();
    timeout(CONNECT_TIMEOUT, reach.connect(network)).await.map_err(late)?
}

async fn open(network: &Network, reach: &HttpsTarget) -> Result<SendRequest<Body>, String> {
    pool::open(connect(network, reach).await?).await
}

/// The body of a forwarded answer; its connection goes back to the pool once all of it has passed.
pub(crate) struct Passed {
    body: Incoming,
    borrowed: Option<(Arc<Backend>, SendRequest<Body>)>,
}

impl Passed {
    fn return_connection(&mut self) {
        if let Some((backend, sender)) = self.borrowed.take() {
            backend.pool.put_back(sender);
        }
    }
}

impl Drop for Passed {
    /// A server that knows the length of a body reads no further than that.
    fn drop(&mut self) {
        if hyper::body::Body::is_end_stream(&self.body) {
            self.return_connection();
        }
    }
}

impl hyper::body::Body for Passed {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if matches!(next, Poll::Ready(None)) {
            self.return_connection();
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Whether the condition `Available` is true.
pub(crate) fn is_available(object: &Value) -> bool {
    condition(object).is_some_and(|condition| condition["status"] == "True")
}

pub(crate) fn condition(object: &Value) -> Option<&Value> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    conditions.iter().find(|condition| condition["type"] == "Available")
}

/// A number of the specification.
fn number(object: &Value, field: &str) -> i64 {
    object["spec"][field].as_i64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::client::conn::http1::handshake;
    use hyper_util::rt::TokioIo;
    use serde_json::json;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// An answer with these bytes, and the backend that it is from.
    async fn answer(bytes: &'static [u8]) -> (Arc<Backend>, Passed) {
        let (client, mut server) = tokio::io::duplex(1 << 16);
        let (mut sender, connection) = handshake(TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        tokio::spawn(async move {
            let mut request = [0; 1024];
            assert!(server.read(&mut request).await.unwrap() > 0);
            server.write_all(bytes).await.unwrap();
            // The connection stays open.
            let _ = server.read(&mut request).await;
        });
        let response = sender.send_request(Request::new(Body::empty())).await.unwrap();
        let backend = Arc::new(Backend::of(&json!({"spec": {}}), None));
        let borrowed = Some((backend.clone(), sender));
        let body = response.into_body();
        (backend, Passed { body, borrowed })
    }

    /// Reads a body as hyper's server does: until it knows that nothing follows.
    async fn read(mut body: Passed) {
        while !hyper::body::Body::is_end_stream(&body) && body.frame().await.is_some() {}
    }

    #[tokio::test]
    async fn a_connection_is_pooled_after_each_kind_of_body_end() {
        for bytes in [
            &b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"[..],
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
        ] {
            let (backend, body) = answer(bytes).await;
            read(body).await;
            assert!(backend.pool.ready().await.is_some());
        }
    }

    #[tokio::test]
    async fn a_connection_with_an_unread_answer_is_not_pooled() {
        let (backend, body) = answer(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{}").await;
        drop(body);
        assert!(backend.pool.ready().await.is_none());
    }
}
