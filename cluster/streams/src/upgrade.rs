//! A request to upgrade to SPDY or WebSocket, and the answer that agrees. The caller chooses the protocol within.

use base_client::{ResponseBody, empty_body};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode, header};

use crate::websocket;

/// Where a client of SPDY lists the protocols that it speaks within.
const STREAM_PROTOCOL: HeaderName = HeaderName::from_static("x-stream-protocol-version");

/// The protocol to which a client requests an upgrade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// SPDY 3.1
    Spdy,
    /// WebSocket
    WebSocket,
}

impl Wanted {
    /// `None`: neither of the two.
    pub fn by(headers: &HeaderMap) -> Option<Self> {
        if lists(headers, &header::UPGRADE, "websocket") {
            return Some(Self::WebSocket);
        }
        lists(headers, &header::UPGRADE, "spdy/3.1").then_some(Self::Spdy)
    }
}

/// The protocols that a client of SPDY lists; none means the first version.
pub fn spdy_protocols(headers: &HeaderMap) -> Vec<&str> {
    texts(headers, &STREAM_PROTOCOL)
}

/// The protocols that a client of WebSocket lists.
pub fn websocket_protocols(headers: &HeaderMap) -> Vec<&str> {
    texts(headers, &header::SEC_WEBSOCKET_PROTOCOL)
}

/// The key of a WebSocket handshake. `None`: it is no handshake of version 13 (RFC 6455, 4.2.1).
pub fn websocket_key<'a>(method: &Method, headers: &'a HeaderMap) -> Option<&'a str> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let version = text(header::SEC_WEBSOCKET_VERSION);
    text(header::SEC_WEBSOCKET_KEY).filter(|_| method == Method::GET && version == Some("13"))
}

/// Agrees to SPDY with one of the protocols within.
pub fn to_spdy(protocol: &'static str) -> Response<ResponseBody> {
    let mut response = switching("SPDY/3.1");
    let protocol = HeaderValue::from_static(protocol);
    response.headers_mut().insert(STREAM_PROTOCOL, protocol);
    response
}

/// Agrees to WebSocket with one of the protocols within. `key`: see [`websocket_key`].
pub fn to_websocket(key: &str, protocol: &'static str) -> Response<ResponseBody> {
    let mut response = switching("websocket");
    let headers = response.headers_mut();
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(accepted) = HeaderValue::from_str(&websocket::accepted(key)) {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, accepted);
    }
    response
}

fn switching(to: &'static str) -> Response<ResponseBody> {
    let mut response = Response::new(empty_body());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static(to));
    response
}

/// Whether a header that lists names has one of them, compared without case.
fn lists(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    texts(headers, name)
        .iter()
        .any(|listed| listed.eq_ignore_ascii_case(wanted))
}

fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Vec<&'a str> {
    let values = headers.get_all(name).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(str::trim).collect()
}
