//! What HTTP/1.1 requires of a request's head and hyper leaves to its user. Refusals have the codes of Go's server
//! (go1.25 `net/http/server.go`). It never looks at a path or a body.

use base_client::{ResponseBody, full_body};
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, HOST, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version};

/// The refusal of a request whose head is ambiguous or not supported; none for any other.
pub(crate) fn refuse(parts: &Parts) -> Option<Response<ResponseBody>> {
    if parts.version != Version::HTTP_11 {
        return None;
    }
    let refused = |code, why: &str| Some(refusal(code, why));
    match parts.headers.get_all(HOST).iter().count() {
        0 => return refused(StatusCode::BAD_REQUEST, "missing required Host header"),
        1 => {}
        _ => return refused(StatusCode::BAD_REQUEST, "too many Host headers"),
    }
    if !all_are(&parts.headers, EXPECT, "100-continue") {
        return refused(StatusCode::EXPECTATION_FAILED, "the only expectation is 100-continue");
    }
    if !all_are(&parts.headers, TRANSFER_ENCODING, "chunked") {
        // No server behind this one would decode another encoding of a body.
        return refused(StatusCode::NOT_IMPLEMENTED, "the only transfer encoding is chunked");
    }
    None
}

fn all_are(headers: &HeaderMap, name: HeaderName, value: &str) -> bool {
    let mut all = headers.get_all(name).iter();
    all.all(|found| found.as_bytes().trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
}

fn refusal(code: StatusCode, why: &str) -> Response<ResponseBody> {
    let reason = code.canonical_reason().unwrap_or_default();
    let mut response = Response::new(full_body(format!("{} {reason}: {why}", code.as_u16())));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    #[test]
    fn ambiguous_or_unsupported_head_is_refused() {
        let code = |headers: &[(&str, &str)]| {
            let request = headers.iter().fold(Request::get("/"), |request, (name, value)| {
                request.header(*name, *value)
            });
            let (parts, ()) = request.body(()).unwrap().into_parts();
            refuse(&parts).map(|response| response.status().as_u16())
        };
        let host = ("host", "a");
        assert_eq!(code(&[host]), None);
        assert_eq!(code(&[]), Some(400));
        assert_eq!(code(&[host, ("host", "a")]), Some(400));
        assert_eq!(code(&[host, ("expect", "100-Continue")]), None);
        assert_eq!(code(&[host, ("expect", "tea")]), Some(417));
        assert_eq!(code(&[host, ("transfer-encoding", "chunked")]), None);
        assert_eq!(code(&[host, ("transfer-encoding", "gzip, chunked")]), Some(501));
        assert_eq!(
            code(&[host, ("transfer-encoding", "gzip"), ("transfer-encoding", "chunked")]),
            Some(501)
        );
    }
}
