//! `metav1.Status` as an error: every refusal this server gives, with the words kube-apiserver uses.
//! It never decides what is refused, only how it is worded.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use cluster_fields::{FieldError, aggregate};
use http::StatusCode;
use serde::{Deserialize, Serialize};

/// A refusal with its HTTP code, reason, text and details. Texts are those of kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go, because clients and people match on them.
#[derive(Clone, Debug, PartialEq)]
pub struct Status(Box<Content>);

#[derive(Clone, Debug, PartialEq)]
struct Content {
    code: StatusCode,
    reason: Cow<'static, str>,
    message: String,
    details: Details,
    rendering: Rendering,
    warnings: Vec<String>,
}

/// How a refusal is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rendering {
    /// With details, when there are any.
    AsNeeded,
    /// With details even if they are empty: the request has not got to an object.
    WithDetails,
    /// As plain text: the path belongs to no API.
    AsText,
    /// JSON without `kind` and `apiVersion`, sent as plain text: a time-out.
    Bare,
}

/// What a [`Status`] is about.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name; empty when no single object is meant.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The API group of `kind`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    /// The resource (`pods`), for validation errors the kind (`Pod`).
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The object's uid, where that is what did not match.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    /// One entry per field at fault.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<Cause>,
    /// Seconds after which to try again; 0 for none.
    #[serde(skip_serializing_if = "is_zero")]
    pub retry_after_seconds: u32,
}

/// One cause of a [`Status`].
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Cause {
    /// Machine-readable, such as `FieldValueInvalid`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// For people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The field's path, such as `spec.provider.type`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub field: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde's skip_serializing_if passes references"
)]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

impl Status {
    /// Any refusal; `reason` is one of `metav1.StatusReason`.
    pub fn new(code: StatusCode, reason: impl Into<Cow<'static, str>>, message: impl Into<String>) -> Self {
        let content = Content {
            code,
            reason: reason.into(),
            message: message.into(),
            details: Details::default(),
            rendering: Rendering::AsNeeded,
            warnings: Vec::new(),
        };
        Self(Box::new(content))
    }

    /// A refusal by the router, before any resource is found.
    fn routed(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        let mut status = Self::new(code, reason, message);
        status.0.rendering = Rendering::WithDetails;
        status
    }

    /// The same refusal with more warnings.
    #[must_use]
    pub(crate) fn warned(mut self, warnings: impl IntoIterator<Item = String>) -> Self {
        self.0.warnings.extend(warnings);
        self
    }

    /// The same refusal with these warnings first, unless it begins with them already.
    #[must_use]
    pub(crate) fn warned_once(mut self, warnings: Vec<String>) -> Self {
        if !self.0.warnings.starts_with(&warnings) {
            self.0.warnings.splice(0..0, warnings);
        }
        self
    }

    /// The same refusal, with this before its message.
    #[must_use]
    pub(crate) fn led_by(mut self, words: &str) -> Self {
        self.0.message.insert_str(0, words);
        self
    }

    pub(crate) fn take_warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.0.warnings)
    }

    pub(crate) fn warnings(&self) -> &[String] {
        &self.0.warnings
    }

    /// Sets the object that it is about.
    #[must_use]
    pub fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        group.clone_into(&mut self.0.details.group);
        kind.clone_into(&mut self.0.details.kind);
        name.clone_into(&mut self.0.details.name);
        self.0.rendering = Rendering::WithDetails;
        self
    }

    /// The same without its type.
    #[must_use]
    pub(crate) fn bare(mut self) -> Self {
        self.0.rendering = Rendering::Bare;
        self
    }

    pub(crate) fn is_bare(&self) -> bool {
        self.0.rendering == Rendering::Bare
    }

    /// Replaces its details.
    #[must_use]
    pub(crate) fn detailed(mut self, details: Details) -> Self {
        self.0.details = details;
        self.0.rendering = Rendering::WithDetails;
        self
    }

    /// The same under another code and reason.
    #[must_use]
    pub(crate) fn under(mut self, code: StatusCode, reason: impl Into<Cow<'static, str>>) -> Self {
        self.0.code = code;
        self.0.reason = reason.into();
        self
    }

    /// Adds a cause.
    #[must_use]
    pub fn because(mut self, cause: Cause) -> Self {
        self.0.details.causes.push(cause);
        self
    }

    /// Asks the client to wait this many seconds.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.0.details.retry_after_seconds = seconds;
        self
    }

    /// 404: `shoots.core.gardener.cloud "x" not found`.
    pub fn not_found(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", qualified(group, resource));
        Self::new(StatusCode::NOT_FOUND, "NotFound", message).about(group, resource, name)
    }

    /// 404 for a path that leads nowhere.
    pub fn no_such_resource() -> Self {
        let message = "the server could not find the requested resource";
        Self::routed(StatusCode::NOT_FOUND, "NotFound", message)
    }

    /// 404 for a path that belongs to no API: a line of text.
    pub fn no_such_page() -> Self {
        let mut status = Self::new(StatusCode::NOT_FOUND, "NotFound", "404 page not found\n");
        status.0.rendering = Rendering::AsText;
        status
    }

    /// 406 where nothing this server offers is accepted. `offered` are media types.
    pub(crate) fn none_accepted(offered: &str) -> Self {
        let message = format!("406: Not Acceptable\n\nAvailable representations: {offered}");
        Self::routed(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// 415 for a patch type that the resource does not accept.
    pub(crate) fn unknown_patch() -> Self {
        let message = "415: Unsupported Media Type";
        Self::routed(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    /// 422 for a patch that makes sense, but not for this object. It does not say why: kube-apiserver does not.
    pub(crate) fn patch_refused() -> Self {
        let message = "the server rejected our request due to an error in our request";
        Self::routed(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message)
    }

    /// 500 with a text alone, as kube-apiserver answers what it has no better code for.
    pub(crate) fn failed(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// 409: the name is taken.
    pub fn already_exists(group: &str, resource: &str, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", qualified(group, resource));
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message).about(group, resource, name)
    }

    /// 409 with any reason.
    pub fn conflict(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            qualified(group, resource)
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message).about(group, resource, name)
    }

    /// 409: written from an old resourceVersion.
    pub fn modified(group: &str, resource: &str, name: &str) -> Self {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Self::conflict(group, resource, name, why)
    }

    /// 403. `name` may be empty.
    pub fn forbidden(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let message = match (resource, name) {
            ("", _) => format!("forbidden: {why}"),
            (_, "") => format!("{} is forbidden: {why}", qualified(group, resource)),
            _ => format!("{} \"{name}\" is forbidden: {why}", qualified(group, resource)),
        };
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).about(group, resource, name)
    }

    /// 422 with one cause per field.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Self {
        let message = format!(
            "{} \"{name}\" is invalid: {}",
            qualified(group, kind),
            aggregate(errors)
        );
        let mut status = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).about(group, kind, name);
        status.0.details.causes = errors
            .iter()
            .map(|error| Cause {
                reason: error.kind.reason().to_owned(),
                message: error.body(),
                field: error.path.clone(),
            })
            .collect();
        status
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// 405.
    pub fn method_not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::routed(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message)
    }

    /// 410: the requested version is no longer available.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    /// 413. The message names `limit_bytes`.
    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("Request entity too large: limit is {limit_bytes}");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// 429.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        Self::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message).retry_after(retry_after_seconds)
    }

    /// 429 before the request was looked at: a line of text, as kube-apiserver's queues write it.
    pub(crate) fn busy(retry_after_seconds: u32) -> Self {
        let message = "Too many requests, please try again later.\n";
        let mut status = Self::too_many_requests(message, retry_after_seconds);
        status.0.rendering = Rendering::AsText;
        status
    }

    /// 501: Kubernetes has it, this server does not yet.
    pub fn not_implemented(what: impl fmt::Display) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("{what} is not supported by this server"),
        )
    }

    /// 503.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
    }

    /// 500. The text goes to the client: nothing secret in it.
    pub fn internal(why: impl fmt::Display) -> Self {
        let message = format!("Internal error occurred: {why}");
        let cause = Cause {
            message: why.to_string(),
            ..Cause::default()
        };
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message).because(cause)
    }

    /// The HTTP code.
    pub fn code(&self) -> StatusCode {
        self.0.code
    }

    /// The machine-readable reason.
    pub fn reason(&self) -> &str {
        &self.0.reason
    }

    /// The text for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// What it is about.
    pub fn details(&self) -> &Details {
        &self.0.details
    }

    /// Whether it is answered as plain text.
    pub(crate) fn is_text(&self) -> bool {
        self.0.rendering == Rendering::AsText
    }

    /// As `metav1.Status` in JSON.
    pub fn to_json(&self) -> Bytes {
        let Content {
            code,
            reason,
            message,
            details,
            rendering,
            warnings: _,
        } = &*self.0;
        let typed = *rendering != Rendering::Bare;
        let shown = |details: &&Details| {
            matches!(rendering, Rendering::WithDetails | Rendering::Bare) || **details != Details::default()
        };
        let details = Some(details).filter(shown);
        let body = Body {
            kind: if typed { "Status" } else { "" },
            api_version: if typed { "v1" } else { "" },
            metadata: Empty {},
            status: "Failure",
            message,
            reason,
            details,
            code: code.as_u16(),
        };
        Bytes::from(serde_json::to_vec(&body).unwrap_or_default())
    }
}

/// `plural.group`, or the plural alone in the core group.
pub(crate) fn qualified(group: &str, resource: &str) -> String {
    if group.is_empty() {
        resource.to_owned()
    } else {
        format!("{resource}.{group}")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    kind: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    reason: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<&'a Details>,
    code: u16,
}

#[derive(Serialize)]
struct Empty {}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Status {}
