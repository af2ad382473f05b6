//! What goes back to the client: code, media type, warnings, body. It never decides what is answered.

use base_client::{ResponseBody, full_body};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use serde_json::Value;

use crate::wire::guarded_body::held;
use crate::wire::negotiation::{JSON, Writing};
use crate::wire::printing;
use crate::wire::status::Status;

const TEXT: &str = "text/plain; charset=utf-8";
const YAML: &str = "application/yaml";
/// `Cache-Control` of answers that depend on the client and may change at any time.
const NOT_CACHED: &str = "no-cache, private";
/// The header with a request's id in the audit log.
const AUDIT_ID: &str = "audit-id";
/// Warnings per answer: kube-apiserver stops at a few kilobytes, which this many fit.
const WARNINGS_MAX: usize = 32;
/// Longest warning in bytes; longer ones are cut.
const WARNING_BYTES_MAX: usize = 1024;

enum Content {
    Whole(Bytes),
    Stream(ResponseBody),
    /// Another server's.
    Passed(Box<Response<ResponseBody>>),
}

/// An answer before it becomes an HTTP response.
pub(crate) struct Answer {
    pub(crate) code: StatusCode,
    /// Empty for none.
    media_type: &'static str,
    body: Content,
    warnings: Vec<String>,
    retry_after: Option<u32>,
    /// The value of `Cache-Control`.
    caching: &'static str,
    unsniffed: bool,
    /// The request's id in the audit log.
    audit_id: Option<HeaderValue>,
}

/// The outcome of a request with these warnings before its own: an answer and a refusal have them.
pub(crate) fn led_by_warnings(outcome: Result<Answer, Status>, warnings: Vec<String>) -> Result<Answer, Status> {
    match outcome {
        Ok(mut answer) => {
            let own = std::mem::take(&mut answer.warnings);
            Ok(answer.warn(warnings).warn(own))
        }
        Err(mut status) => {
            let own = status.take_warnings();
            Err(status.warned(warnings).warned(own))
        }
    }
}

impl Answer {
    pub(crate) fn json(code: StatusCode, bytes: impl Into<Bytes>) -> Self {
        Self::typed(code, JSON, bytes)
    }

    pub(crate) fn value(code: StatusCode, value: &Value) -> Self {
        Self::json(code, value.to_string())
    }

    pub(crate) fn text(code: StatusCode, text: String) -> Self {
        Self::typed(code, TEXT, text)
    }

    pub(crate) fn typed(code: StatusCode, media_type: &'static str, bytes: impl Into<Bytes>) -> Self {
        Self {
            code,
            media_type,
            body: Content::Whole(bytes.into()),
            warnings: Vec::new(),
            retry_after: None,
            caching: NOT_CACHED,
            unsniffed: false,
            audit_id: None,
        }
    }

    /// The answer of another server.
    pub(crate) fn passed(response: Response<ResponseBody>) -> Self {
        let code = response.status();
        Self {
            body: Content::Passed(Box::new(response)),
            ..Self::typed(code, JSON, Bytes::new())
        }
    }

    /// Adds `X-Content-Type-Options: nosniff`.
    #[must_use]
    pub(crate) fn unsniffed(self) -> Self {
        Self {
            unsniffed: true,
            ..self
        }
    }

    /// Sets `Cache-Control`, for an answer that is the same for every client.
    #[must_use]
    pub(crate) fn with_caching(self, caching: &'static str) -> Self {
        Self { caching, ..self }
    }

    /// The body, unless it is a stream.
    pub(crate) fn whole(&self) -> Option<&Bytes> {
        match &self.body {
            Content::Whole(bytes) => Some(bytes),
            Content::Stream(_) | Content::Passed(_) => None,
        }
    }

    /// Adds a header with the request's id in the audit log.
    #[must_use]
    pub(crate) fn with_audit_id(self, audit_id: &str) -> Self {
        Self {
            audit_id: HeaderValue::from_str(audit_id).ok(),
            ..self
        }
    }

    /// The same answer, which holds `value` until its stream has ended or is dropped. Without a stream, `value` is dropped
    /// at once.
    #[must_use]
    pub(crate) fn holding(self, value: impl Send + Unpin + 'static) -> Self {
        let body = match self.body {
            Content::Stream(body) => Content::Stream(held(body, value)),
            Content::Passed(response) => Content::Passed(Box::new(response.map(|body| held(body, value)))),
            whole @ Content::Whole(_) => whole,
        };
        Self { body, ..self }
    }

    pub(crate) fn stream(media_type: &'static str, body: ResponseBody) -> Self {
        Self {
            body: Content::Stream(body),
            ..Self::typed(StatusCode::OK, media_type, Bytes::new())
        }
    }

    pub(crate) fn failure(status: &Status) -> Self {
        let retry_after = Some(status.details().retry_after_seconds).filter(|seconds| *seconds > 0);
        if status.is_text() {
            return Self {
                retry_after,
                ..Self::text(status.code(), status.message().to_owned())
            };
        }
        let media_type = if status.is_bare() { TEXT } else { JSON };
        Self {
            retry_after,
            ..Self::typed(status.code(), media_type, status.to_json())
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

    pub(crate) fn into_response(mut self, head_only: bool, writing: Writing) -> Response<ResponseBody> {
        let (warnings, audit_id) = (std::mem::take(&mut self.warnings), self.audit_id.take());
        let mut response = self.into_plain_response(head_only, writing);
        let headers = response.headers_mut();
        add_warnings(headers, &warnings);
        if let Some(audit_id) = audit_id {
            headers.insert(AUDIT_ID, audit_id);
        }
        response
    }

    /// Without what every response has, that of another server too.
    fn into_plain_response(self, head_only: bool, writing: Writing) -> Response<ResponseBody> {
        let mut media_type = self.media_type;
        let body = match self.body {
            Content::Passed(response) => return *response,
            _ if head_only => base_client::empty_body(),
            Content::Whole(bytes) if media_type == JSON => match writing {
                Writing::Json => full_body(bytes),
                Writing::Pretty => full_body(printing::pretty(&bytes)),
                Writing::Yaml => {
                    media_type = YAML;
                    full_body(printing::yaml(&bytes).unwrap_or(bytes))
                }
            },
            Content::Whole(bytes) => full_body(bytes),
            Content::Stream(stream) => stream,
        };
        let mut response = Response::new(body);
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        if self.unsniffed {
            headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        }
        if self.code != StatusCode::NO_CONTENT && !media_type.is_empty() {
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        }
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(self.caching));
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    for warning in warnings {
        if let Ok(value) = HeaderValue::from_bytes(warning_header(warning).as_bytes()) {
            headers.append(header::WARNING, value);
        }
    }
}

/// `299 - "text"` with the text quoted as RFC 7234 requires; control characters are dropped.
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
    fn warnings_of_any_language_are_sent() {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &["größer als 1".to_owned()]);
        let sent = headers.get(header::WARNING).map(HeaderValue::as_bytes);
        assert_eq!(sent, Some("299 - \"größer als 1\"".as_bytes()));
    }

    #[test]
    fn warnings_are_quoted_and_hold_no_control_characters() {
        assert_eq!(
            warning_header("unknown field \"spec.\u{7}x\"\r\n"),
            r#"299 - "unknown field \"spec.x\"""#
        );
    }
}
