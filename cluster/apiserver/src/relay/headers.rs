//! Headers of a request that is carried on, and of the answer to it: what belongs to one connection, and what no other server
//! may see.

use cluster_access::PeerAddress;
use cluster_access::front_proxy::is_identity;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// What belongs to one connection alone (RFC 9110, 7.6.1).
const OF_CONNECTION: [HeaderName; 8] = [
    header::CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRANSFER_ENCODING,
    header::TRAILER,
];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The headers without what this server has read itself: credentials, and who the client says to be.
pub(crate) fn for_who_answers(parts: &Parts) -> HeaderMap {
    let mut headers = parts.headers.clone();
    let ours = |name: &HeaderName| {
        is_identity(name.as_str()) || name.as_str().starts_with("impersonate-") || *name == header::AUTHORIZATION
    };
    let gone: Vec<HeaderName> = headers.keys().filter(|name| ours(name)).cloned().collect();
    for name in gone {
        headers.remove(name);
    }
    headers
}

/// Adds the client's address to those that the request has passed.
pub(crate) fn add_client(headers: &mut HeaderMap, parts: &Parts) {
    let Some(PeerAddress(ip)) = parts.extensions.get::<PeerAddress>() else {
        return;
    };
    let before = headers
        .get_all(FORWARDED_FOR)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let mut passed: Vec<String> = before.map(str::to_owned).collect();
    passed.push(ip.to_string());
    if let Ok(value) = HeaderValue::from_str(&passed.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

/// What the client calls this server.
pub(crate) fn host(parts: &Parts) -> Option<HeaderValue> {
    let authority = || HeaderValue::from_str(parts.uri.authority()?.as_str()).ok();
    parts.headers.get(header::HOST).cloned().or_else(authority)
}

/// Takes away what belongs to one connection, and what the sender says belongs to it.
pub(crate) fn without_connection(headers: &mut HeaderMap) {
    let trailers = headers.get_all(header::TE).iter().any(|value| value == "trailers");
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&OF_CONNECTION) {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
    // Whether trailers are understood is asked of whoever answers.
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}
