//! What goes back to the client: code, media type, warnings, body. It never decides what is answered.

use base_client::{ResponseBody, full_body};
use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::status::Status;

const JSON: &str = "application/json";
/// Warnings per answer: kube-apiserver stops at a few kilobytes, which this many fit.
const WARNINGS_MAX: usize = 32;
/// Longest warning in bytes; longer ones are cut.
const WARNING_BYTES_MAX: usize = 1024;

/// An answer before it becomes an HTTP response.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    media_type: &'static str,
    body: ResponseBody,
    warnings: Vec<String>,
    retry_after: Option<u32>,
    challenge: bool,
}

impl Answer {
    pub(crate) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Self {
        Self::typed(code, JSON, bytes)
    }

    pub(crate) fn value(code: StatusCode, value: &Value) -> Self {
        Self::json(code, value.to_string())
    }

    pub(crate) fn text(code: StatusCode, text: String) -> Self {
        Self::typed(code, "text/plain; charset=utf-8", text)
    }

    pub(crate) fn typed(code: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self {
            code,
            media_type,
            body: full_body(bytes),
            warnings: Vec::new(),
            retry_after: None,
            challenge: false,
        }
    }

    pub(crate) fn stream(media_type: &'static str, body: ResponseBody) -> Self {
        Self {
            body,
            ..Self::typed(StatusCode::OK, media_type, Bytes::new())
        }
    }

    pub(crate) fn failure(status: &Status) -> Self {
        let retry_after = Some(status.details().retry_after_seconds).filter(|seconds| *seconds > 0);
        let challenge = status.code() == StatusCode::UNAUTHORIZED;
        Self {
            retry_after,
            challenge,
            ..Self::json(status.code(), status.to_json())
        }
        .warn(status.warnings().iter().cloned())
    }

    #[must_use]
    pub(crate) fn warn(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        for warning in warnings {
            if self.warnings.len() < WARNINGS_MAX && !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        self
    }

    pub(crate) fn into_response(self, head_only: bool) -> Response<ResponseBody> {
        let body = if head_only {
            base_client::empty_body()
        } else {
            self.body
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(self.media_type));
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        for warning in &self.warnings {
            if let Ok(value) = HeaderValue::from_str(&warning_header(warning)) {
                headers.append(header::WARNING, value);
            }
        }
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.challenge {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// `299 - "text"` with the text quoted as RFC 7234 wants it; control characters vanish.
fn warning_header(text: &str) -> String {
    let mut quoted = String::from("299 - \"");
    for character in text.chars().filter(|c| !c.is_control()) {
        if quoted.len() >= WARNING_BYTES_MAX {
            break;
        }
        if matches!(character, '"' | '\\') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_are_quoted_and_hold_no_control_characters() {
        assert_eq!(
            warning_header("unknown field \"spec.\u{7}x\"\r\n"),
            r#"299 - "unknown field \"spec.x\"""#
        );
    }
}
