//! Bodies as the server reads them: the input is the body, read as each of the three encodings.

use cluster_apiserver::request::{ParsedObject, read_object};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, StatusCode};
use serde_json::Value;

/// How many times larger the JSON of a value may be than the JSON it was read from: `9e15` is sixteen digits.
const JSON_FACTOR: usize = 6;
/// The same for YAML, whose aliases repeat other values, and the bytes that any text may make beyond that.
const YAML_FACTOR: usize = 64;
const YAML_BYTES: usize = 1 << 20;
/// The same for protobuf: a byte may be an empty object with its name.
const PROTOBUF_FACTOR: usize = 128;

pub(crate) fn check(input: &[u8]) {
    if let Some(parsed) = read("application/json", input) {
        let printed = parsed.value.to_string();
        assert!(printed.len() <= JSON_FACTOR * input.len() + 16, "{printed}");
        let plainly: Result<Value, _> = serde_json::from_slice(input);
        let is_mended = std::str::from_utf8(input).is_err() || has_escape(input);
        assert!(
            plainly.is_ok() || is_mended,
            "accepted, and no JSON: {:?}",
            plainly.err()
        );
        again(&parsed.value, &printed);
    }
    if let Some(parsed) = read("application/yaml", input) {
        let printed = parsed.value.to_string();
        assert!(printed.len() <= YAML_FACTOR * input.len() + YAML_BYTES);
        again(&parsed.value, &printed);
    }
    if let Some(parsed) = read("application/vnd.kubernetes.protobuf", input) {
        let printed = parsed.value.to_string();
        assert!(printed.len() <= PROTOBUF_FACTOR * input.len() + 256, "{printed}");
        again(&parsed.value, &printed);
    }
}

fn read(media_type: &'static str, input: &[u8]) -> Option<ParsedObject> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    match read_object(&headers, input) {
        Ok(parsed) => Some(parsed),
        Err(status) => {
            let code = status.code();
            assert!(
                matches!(code, StatusCode::BAD_REQUEST | StatusCode::PAYLOAD_TOO_LARGE),
                "{code} for a body: {status}"
            );
            None
        }
    }
}

/// Whether there may be half a surrogate pair: like invalid UTF-8 it is read as in Go, and refused by JSON libraries of Rust.
fn has_escape(input: &[u8]) -> bool {
    input.windows(2).any(|pair| pair == br"\u")
}

/// The server can read its own output again, and there are no duplicate keys in it.
fn again(value: &Value, printed: &str) {
    let parsed = read("application/json", printed.as_bytes());
    assert!(parsed.is_some(), "what was printed cannot be read: {printed}");
    if let Some(parsed) = parsed {
        assert!(parsed.problems.is_empty(), "{:?}", parsed.problems);
        assert_eq!(value, &parsed.value);
    }
}
