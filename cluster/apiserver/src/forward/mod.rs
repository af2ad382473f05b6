//! `portforward` of pods on nodes of this process: SPDY as kubelets speak it, and the same within WebSocket messages, as kubectl
//! asks for it since 1.31. Bytes go to what listens on the pod and back; what they say is not looked at.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kubelet/pkg/cri/streaming/portforward,
//! staging/src/k8s.io/apiserver/pkg/util/proxy/streamtunnel.go)

mod headers;
mod session;
mod spdy;
mod websocket;

use std::net::IpAddr;
use std::sync::Arc;

use base_client::{Connection, Upgrade, empty_body};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};
use tokio::sync::OwnedSemaphorePermit;

use crate::answer::Answer;
use crate::relay::{PodPort, to_service};
use crate::server::Inner;
use crate::status::Status;

/// How the protocol is called, in SPDY and within WebSocket messages.
const PROTOCOL: &str = "portforward.k8s.io";
const TUNNELLED: &str = "SPDY/3.1+portforward.k8s.io";
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The pod whose ports are forwarded.
#[derive(Clone)]
pub(crate) struct Pod {
    pub(crate) server: Arc<Inner>,
    /// As errors name it.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) ip: IpAddr,
}

impl Pod {
    /// A connection to one of its ports. Errors: why there is none.
    async fn dial(&self, port: u16) -> Result<Connection, String> {
        let refused = |why: &str| Err(format!("dial tcp {}:{port}: connect: {why}", self.ip));
        let Some(pods) = &self.server.pods else {
            return refused("no route to host");
        };
        match pods(self.ip, port) {
            PodPort::Http(service) => Ok(to_service(service)),
            PodPort::Bytes(dialer) => dialer.connect().await.or_else(|error| match error.kind() {
                std::io::ErrorKind::ConnectionRefused => refused("connection refused"),
                _ => refused(&error.to_string()),
            }),
            PodPort::Closed => refused("connection refused"),
            PodPort::Elsewhere => refused("no route to host"),
        }
    }
}

/// Answers a request to forward ports, and forwards them until its client ends or the server stops.
pub(crate) fn answer(pod: Pod, parts: &Parts, permit: OwnedSemaphorePermit) -> Result<Answer, Status> {
    let agreed = Agreed::with(parts)?;
    let upgrade = parts.extensions.get::<Upgrade>().cloned();
    let upgrade = upgrade.ok_or_else(|| {
        Status::internal("request connection cannot be hijacked: it is not HTTP/1.1 of its own".to_owned())
    })?;
    let response = agreed.response();
    let (tasks, stop) = (pod.server.tasks.clone(), pod.server.stop.clone());
    tasks.spawn(stop.run_until_cancelled_owned(async move {
        let _permit = permit;
        let Some(connection) = upgrade.accepted().await else {
            return;
        };
        let connection = match agreed {
            Agreed::Spdy => connection,
            Agreed::WebSocket(_) => websocket::unwrapped(connection),
        };
        session::run(connection, pod).await;
    }));
    Ok(Answer::passed(response))
}

/// What both sides speak.
enum Agreed {
    Spdy,
    /// With the answer to the client's key.
    WebSocket(String),
}

impl Agreed {
    fn with(parts: &Parts) -> Result<Self, Status> {
        let headers = &parts.headers;
        if names(headers, &header::UPGRADE, "websocket") {
            return Self::with_websocket(parts);
        }
        if !names(headers, &header::UPGRADE, "spdy/3.1") {
            return Err(Status::bad_request("Upgrade request required"));
        }
        let offers = headers.get_all(&STREAM_PROTOCOL);
        let mut offers = offers.iter().peekable();
        // A client that names none means the first there was.
        if offers.peek().is_some() && !offers.any(|offer| offer.as_bytes() == PROTOCOL.as_bytes()) {
            return Err(Status::bad_request(format!(
                "unable to negotiate protocol: the server supports [{PROTOCOL}]"
            )));
        }
        Ok(Self::Spdy)
    }

    fn with_websocket(parts: &Parts) -> Result<Self, Status> {
        let headers = &parts.headers;
        let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
        let version = text(header::SEC_WEBSOCKET_VERSION);
        let key = text(header::SEC_WEBSOCKET_KEY).filter(|_| parts.method == Method::GET && version == Some("13"));
        let key = key.ok_or_else(|| Status::bad_request("not a WebSocket handshake of version 13"))?;
        if !names(headers, &header::SEC_WEBSOCKET_PROTOCOL, TUNNELLED) {
            return Err(Status::bad_request(format!(
                "unable to negotiate protocol: the server supports {TUNNELLED} over WebSocket"
            )));
        }
        Ok(Self::WebSocket(websocket::accepted(key)))
    }

    fn response(&self) -> Response<base_client::ResponseBody> {
        let mut response = Response::new(empty_body());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        match self {
            Self::Spdy => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
                headers.insert(STREAM_PROTOCOL, HeaderValue::from_static(PROTOCOL));
            }
            Self::WebSocket(accepted) => {
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(TUNNELLED));
                if let Ok(accepted) = HeaderValue::from_str(accepted) {
                    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
                }
            }
        }
        response
    }
}

/// Whether a header that lists names has one of them, compared without case.
fn names(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let values = headers
        .get_all(name)
        .into_iter()
        .filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|listed| listed.trim().eq_ignore_ascii_case(wanted))
}
