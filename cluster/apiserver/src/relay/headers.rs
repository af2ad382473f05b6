//! Headers of a forwarded request and of its response: removes those of one connection, and those that no other server may
//! see.

use cluster_access::PeerAddress;
use cluster_access::front_proxy::is_identity;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, header};

/// Hop-by-hop headers (RFC 9110, 7.6.1).
const HOP_BY_HOP: [HeaderName; 8] = [
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

/// The headers without those that this server has evaluated itself: credentials, identity and impersonation.
pub(crate) fn without_identity(parts: &Parts) -> HeaderMap {
    let mut headers = parts.headers.clone();
    let evaluated = |name: &HeaderName| {
        is_identity(name.as_str()) || name.as_str().starts_with("impersonate-") || *name == header::AUTHORIZATION
    };
    let removed: Vec<HeaderName> = headers.keys().filter(|name| evaluated(name)).cloned().collect();
    for name in removed {
        headers.remove(name);
    }
    headers
}

/// Adds the client's address to `X-Forwarded-For`.
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

/// The host by which the client addresses this server.
pub(crate) fn host(parts: &Parts) -> Option<HeaderValue> {
    let authority = || HeaderValue::from_str(parts.uri.authority()?.as_str()).ok();
    parts.headers.get(header::HOST).cloned().or_else(authority)
}

/// Removes the hop-by-hop headers, and those that the sender lists in `Connection`.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) {
    let trailers = headers.get_all(header::TE).iter().any(|value| value == "trailers");
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|names| names.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in named.iter().chain(&HOP_BY_HOP) {
        headers.remove(name);
    }
    headers.remove(header::UPGRADE);
    // The next server may send trailers, too.
    if trailers {
        headers.insert(header::TE, HeaderValue::from_static("trailers"));
    }
}
