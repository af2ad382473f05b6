//! Layers around a client: one that records every call, one that makes calls fail. They never change a request
//! or an answer otherwise.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base_clock::Clock;
use http::{Method, Request, Response, StatusCode, header};
use jiff::Timestamp;
use kube::client::Body;
use serde_json::json;

use crate::service::{ResponseBody, full_body};

/// What a request does, as RBAC names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// One object, or a path that is no resource.
    Get,
    /// A collection.
    List,
    /// A stream of changes.
    Watch,
    /// A new object, or a subresource's action.
    Create,
    /// A whole object replaced.
    Update,
    /// A part of an object changed.
    Patch,
    /// One object deleted.
    Delete,
    /// All objects of a collection deleted.
    DeleteCollection,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Update => "update",
            Self::Patch => "patch",
            Self::Delete => "delete",
            Self::DeleteCollection => "deletecollection",
        })
    }
}

/// One request, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub verb: Verb,
    /// The path without the query.
    pub path: String,
    /// The API group, empty for core and for paths that are no resource.
    pub group: String,
    /// The plural, empty for paths that are no resource.
    pub resource: String,
    /// `status`, `token`, ...
    pub subresource: Option<String>,
    /// The namespace of the object.
    pub namespace: Option<String>,
    /// The object's name; none for collections.
    pub name: Option<String>,
}

impl Call {
    /// Reads the head of a request.
    pub fn of<B>(request: &Request<B>) -> Self {
        Self::parse(
            request.method(),
            request.uri().path(),
            request.uri().query().unwrap_or_default(),
        )
    }

    fn parse(method: &Method, path: &str, query: &str) -> Self {
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let (group, rest) = match segments.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            _ => ("", &[][..]),
        };
        let (namespace, rest) = match rest {
            // The namespace object itself and its subresources are resources, not a scope.
            ["namespaces", _] | ["namespaces", _, "status" | "finalize"] => (None, rest),
            ["namespaces", namespace, rest @ ..] => (Some(*namespace), rest),
            rest => (None, rest),
        };
        let resource = rest.first().copied().unwrap_or_default();
        let name = rest.get(1).copied();
        let watches = query.split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH => Verb::Patch,
            Method::DELETE if name.is_none() => Verb::DeleteCollection,
            Method::DELETE => Verb::Delete,
            _ if watches => Verb::Watch,
            _ if name.is_none() && !resource.is_empty() => Verb::List,
            _ => Verb::Get,
        };
        Self {
            verb,
            path: path.to_owned(),
            group: group.to_owned(),
            resource: resource.to_owned(),
            subresource: (rest.len() > 2).then(|| rest[2..].join("/")),
            namespace: namespace.map(str::to_owned),
            name: name.map(str::to_owned),
        }
    }
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The server answered with this HTTP status.
    Answered(u16),
    /// No answer came, and why.
    Broken(String),
}

/// One call that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallRecord {
    /// The name given to [`record`], or the request's user agent when that is empty.
    pub who: String,
    /// The request.
    pub call: Call,
    /// When it was sent.
    pub at: Timestamp,
    /// How it ended: for a watch, whether it began.
    pub outcome: Outcome,
}

/// A client that does what `client` does and calls `sink` with every call once its answer has begun.
pub fn record(
    client: kube::Client,
    who: impl Into<String>,
    clock: Clock,
    sink: impl Fn(CallRecord) + Send + Sync + 'static,
) -> kube::Client {
    let who: Arc<str> = who.into().into();
    let sink = Arc::new(sink);
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, sink, at) = (client.clone(), sink.clone(), clock.now());
        let call = Call::of(&request);
        let agent = request
            .headers()
            .get(header::USER_AGENT)
            .and_then(|value| value.to_str().ok());
        let who = if who.is_empty() {
            agent.unwrap_or_default().to_owned()
        } else {
            who.to_string()
        };
        async move {
            let answer = client.send(request).await;
            let outcome = match &answer {
                Ok(response) => Outcome::Answered(response.status().as_u16()),
                Err(error) => Outcome::Broken(error.to_string()),
            };
            sink(CallRecord { who, call, at, outcome });
            answer
        }
    });
    kube::Client::new(service, namespace)
}

/// What happens to one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injected {
    /// Nothing: it goes through.
    Pass,
    /// It goes through after this long.
    Delay(Duration),
    /// It goes through at once, and its answer comes this much later.
    DelayAfter(Duration),
    /// The request is not sent to the server; this status is the answer.
    Answer(u16),
    /// The connection breaks before the server sees the request: it had no effect.
    DropBefore,
    /// The connection breaks after the server has answered: it had its effect, and the caller does not know.
    DropAfter,
}

/// The error of a connection that [`inject_faults`] broke.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by an injected fault")]
struct Reset;

/// A client that calls `decide` before every request.
pub fn inject_faults(client: kube::Client, decide: impl Fn(&Call) -> Injected + Send + Sync + 'static) -> kube::Client {
    let decide = Arc::new(decide);
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        let injected = decide(&Call::of(&request));
        async move {
            match injected {
                Injected::Pass => send(&client, request).await,
                Injected::Delay(delay) => {
                    tokio::time::sleep(delay).await;
                    send(&client, request).await
                }
                Injected::DelayAfter(delay) => {
                    let answer = send(&client, request).await;
                    tokio::time::sleep(delay).await;
                    answer
                }
                Injected::Answer(code) => Ok(injected_status(code)),
                Injected::DropBefore => Err(kube::Error::Service(Box::new(Reset))),
                Injected::DropAfter => {
                    send(&client, request).await?;
                    Err(kube::Error::Service(Box::new(Reset)))
                }
            }
        }
    });
    kube::Client::new(service, namespace)
}

async fn send(client: &kube::Client, request: Request<Body>) -> Result<Response<ResponseBody>, kube::Error> {
    use http_body_util::BodyExt;
    let response = client.send(request).await?;
    Ok(response.map(|body| body.map_err(Into::into).boxed_unsync()))
}

fn injected_status(code: u16) -> Response<ResponseBody> {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "InternalError",
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
        "message": "answered by an injected fault",
    });
    let mut response = Response::new(full_body(status.to_string()));
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/json"),
    );
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_named_as_rbac_names_them() {
        let check = |method: Method, path: &str, query: &str, expected: &str| {
            let call = Call::parse(&method, path, query);
            let described = format!(
                "{} {}/{} {}/{} {}",
                call.verb,
                call.group,
                call.resource,
                call.namespace.unwrap_or_default(),
                call.name.unwrap_or_default(),
                call.subresource.unwrap_or_default()
            );
            assert_eq!(described, expected);
        };
        check(
            Method::GET,
            "/api/v1/namespaces/watch/pods",
            "limit=500",
            "list /pods watch/ ",
        );
        check(
            Method::GET,
            "/api/v1/namespaces/watch/pods",
            "limit=500&watch=true",
            "watch /pods watch/ ",
        );
        check(Method::GET, "/api/v1/namespaces/pods", "", "get /namespaces /pods ");
        check(
            Method::PUT,
            "/api/v1/namespaces/pods/finalize",
            "",
            "update /namespaces /pods finalize",
        );
        check(
            Method::DELETE,
            "/apis/apps/v1/deployments",
            "",
            "deletecollection apps/deployments / ",
        );
        check(
            Method::PATCH,
            "/apis/extensions.gardener.cloud/v1alpha1/namespaces/a/workers/b/status",
            "",
            "patch extensions.gardener.cloud/workers a/b status",
        );
        check(Method::GET, "/openapi/v3", "", "get / / ");
    }
}
