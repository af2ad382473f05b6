//! Request lines and headers: the first line is method and target, each line behind it a header.

use cluster_apiserver::request::ParsedRequest;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

const VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "head",
    "post",
    "put",
    "options",
    "connect",
    "trace",
    "proxy",
    "",
];

/// How often a refusal may repeat the refused text, quoted and escaped: each of sixteen characters of a manager with the
/// whole name. And its length beyond that: 64 values of a selector, each in a sentence.
const REFUSAL_FACTOR: usize = 16 * 6;
const REFUSAL_BYTES_MAX: usize = 64 << 10;

pub(crate) fn check(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let Some((method, target)) = lines.next().and_then(request_line) else {
        return;
    };
    let mut headers = HeaderMap::new();
    for line in lines.take(64) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next().unwrap_or_default());
        let value = HeaderValue::from_bytes(parts.next().unwrap_or_default().trim_ascii());
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let request = match ParsedRequest::read(&method, &target, &headers) {
        Ok(request) => request,
        Err(status) => {
            let code = status.code().as_u16();
            assert!(matches!(code, 400 | 414 | 415 | 422 | 500 | 501), "{code}: {status}");
            assert!(
                status.to_json().len() <= REFUSAL_FACTOR * input.len() + REFUSAL_BYTES_MAX,
                "{status}"
            );
            return;
        }
    };
    assert!(VERBS.contains(&request.verb), "{}", request.verb);
    assert!(request.path.len() <= target.path().len());
    let Some(resource) = &request.resource else { return };
    let segments = [Some(&resource.group), Some(&resource.version), Some(&resource.resource)]
        .into_iter()
        .flatten()
        .chain(&resource.subresource)
        .chain(&resource.rest);
    for segment in segments {
        assert!(!segment.contains('/'), "{segment} is no segment");
    }
    if let Some(name) = &resource.name {
        let refused = name.contains(['/', '%']) || matches!(name.as_str(), "." | "..");
        assert!(!refused, "{name} is no name");
    }
    same_when_encoded(&request, &method, &target, &headers);
}

fn request_line(line: &[u8]) -> Option<(Method, Uri)> {
    let mut parts = line.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(parts.next()?).ok()?;
    let target = Uri::try_from(parts.next()?).ok()?;
    Some((method, target))
}

/// Another encoding of the path is the same request.
fn same_when_encoded(request: &ParsedRequest, method: &Method, target: &Uri, headers: &HeaderMap) {
    use std::fmt::Write;
    let mut path = String::new();
    for byte in request.path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'-' | b'.' | b'_');
        let _ = match plain {
            true => write!(path, "{}", char::from(byte)),
            false => write!(path, "%{byte:02X}"),
        };
    }
    if let Some(query) = target.query() {
        path = format!("{path}?{query}");
    }
    let Ok(encoded) = path.parse::<Uri>() else { return };
    match ParsedRequest::read(method, &encoded, headers) {
        Ok(again) => assert_eq!(&again, request, "{path}"),
        Err(status) => assert_eq!(status.code().as_u16(), 414, "{path}: {status}"),
    }
}
