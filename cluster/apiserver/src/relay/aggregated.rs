//! Sends a request on to a server behind this one, and its response back. This server names the user: identity headers and
//! credentials of the client are not sent on.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go,
//! apimachinery v0.35 pkg/util/proxy)

use std::sync::Arc;
use std::time::Duration;

use base_client::{Upgrade, requests_upgrade};
use cluster_access::User;
use cluster_access::front_proxy::identity_headers;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use kube::client::Body;
use tokio::time::timeout;

use crate::configuration::aggregation::Route;
use crate::relay::headers::{remove_hop_by_hop, without_identity};
use crate::relay::upgrade::spliced;
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::percent::decode_percent;
use crate::wire::query::encoded;
use crate::wire::status::Status;

/// How long the head of a response may take, except for watches.
const HEAD_TIMEOUT: Duration = Duration::from_secs(60);
/// The user of requests for OpenAPI documents.
const OPENAPI_USER: &str = "system:aggregator";
const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// Sends a request on to the server of its group and version.
pub(crate) async fn pass(
    server: &Arc<ServerState>,
    route: &Route,
    user: &User,
    watch: bool,
    parts: &Parts,
    body: Body,
) -> Result<Answer, Status> {
    if !route.available {
        return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "service unavailable"));
    }
    if route.backend.address(&server.network).await.is_err() {
        return Ok(refusal(StatusCode::SERVICE_UNAVAILABLE, "service unavailable"));
    }
    let openapi_user = User::new(OPENAPI_USER, &[]);
    // OpenAPI documents are the same for all users.
    let user = match parts.uri.path().starts_with("/openapi/") {
        true => &openapi_user,
        false => user,
    };
    let upgrade = requests_upgrade(&parts.headers);
    let headers = if upgrade {
        for_upgrade(parts, user)
    } else {
        headers(parts, user)
    };
    let mut request = Request::new(body);
    *request.method_mut() = parts.method.clone();
    *request.uri_mut() = target(parts).parse().map_err(Status::internal)?;
    *request.headers_mut() = match headers {
        Ok(headers) => headers,
        // Without them the request would run as this server.
        Err(name) => return Ok(unnameable(&name)),
    };
    if upgrade {
        return pass_upgrade(server, route, parts, request).await;
    }
    let sent = route.backend.send(&server.network, request);
    let response = tokio::select! {
        biased;
        () = server.stop.cancelled() => return Err(Status::unavailable("the server is shutting down").retry_after(1)),
        response = async {
            match watch {
                true => sent.await,
                false => timeout(HEAD_TIMEOUT, sent).await.unwrap_or_else(|_| Err("context deadline exceeded".to_owned())),
            }
        } => response,
    };
    Ok(match response {
        Err(why) => refusal(
            StatusCode::SERVICE_UNAVAILABLE,
            &format!("error trying to reach service: {why}"),
        ),
        Ok(response) if response.status().is_redirection() && response.headers().contains_key(header::LOCATION) => {
            Answer::text(
                StatusCode::BAD_GATEWAY,
                "the backend attempted to redirect this request, which is not permitted".to_owned(),
            )
        }
        Ok(response) => {
            let (mut parts, body) = response.into_parts();
            remove_hop_by_hop(&mut parts.headers);
            let uncached = HeaderValue::from_static("no-cache, private");
            parts.headers.append(header::CACHE_CONTROL, uncached);
            Answer::passed(Response::from_parts(parts, body.map_err(Into::into).boxed_unsync()))
        }
    })
}

/// Sends an upgrade request on. If the other server agrees, bytes are then copied in both directions.
async fn pass_upgrade(
    server: &Arc<ServerState>,
    route: &Route,
    parts: &Parts,
    request: Request<Body>,
) -> Result<Answer, Status> {
    let permit = server.relay_limit.acquire()?;
    let sent = async { timeout(HEAD_TIMEOUT, route.backend.upgrade(&server.network, request)).await };
    let Some(sent) = server.stop.run_until_cancelled(sent).await else {
        return Err(Status::unavailable("the server is shutting down").retry_after(1));
    };
    let response = sent.unwrap_or_else(|_| Err("context deadline exceeded".to_owned()));
    let upgrade = parts.extensions.get::<Upgrade>().cloned();
    let answer = response.and_then(|response| spliced(server, response, upgrade, permit));
    Ok(answer.unwrap_or_else(|why| refusal(StatusCode::SERVICE_UNAVAILABLE, &why)))
}

/// The headers of an upgrade request: those about the connection are meant for the other server.
fn for_upgrade(parts: &Parts, user: &User) -> Result<HeaderMap, String> {
    let mut headers = without_identity(parts);
    headers.remove(header::HOST);
    name_user(&mut headers, user)?;
    Ok(headers)
}

fn unnameable(header: &str) -> Answer {
    let why = format!("error trying to reach service: net/http: invalid header field value for {header:?}");
    refusal(StatusCode::SERVICE_UNAVAILABLE, &why)
}

/// A refusal as a line of text, as Go's servers write it.
fn refusal(code: StatusCode, why: &str) -> Answer {
    Answer::text(code, format!("{why}\n")).unsniffed()
}

/// The headers of a request that is sent on. Errors: the header that cannot hold the name of the user or a group.
fn headers(parts: &Parts, user: &User) -> Result<HeaderMap, String> {
    let mut headers = without_identity(parts);
    remove_hop_by_hop(&mut headers);
    headers.remove(header::HOST);
    name_user(&mut headers, user)?;
    let host = parts.headers.get(header::HOST).cloned();
    let uri = HeaderValue::from_str(parts.uri.path()).ok();
    let forwarded = [
        (FORWARDED_URI, uri),
        (FORWARDED_HOST, host),
        (FORWARDED_PROTO, Some(HeaderValue::from_static("https"))),
    ];
    for (name, value) in forwarded {
        if let Some(value) = value {
            headers.insert(name, value);
        }
    }
    Ok(headers)
}

/// Adds the headers that name the user. Errors: the header that cannot hold its value.
fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), String> {
    for (name, value) in identity_headers(user) {
        match (
            HeaderName::from_bytes(name.as_bytes()),
            HeaderValue::from_bytes(value.as_bytes()),
        ) {
            (Ok(name), Ok(value)) => drop(headers.append(name, value)),
            _ => return Err(name),
        }
    }
    Ok(())
}

/// Path and query as they are sent on.
fn target(parts: &Parts) -> String {
    match parts.uri.query() {
        None => parts.uri.path().to_owned(),
        Some(query) => format!("{}?{}", parts.uri.path(), in_order(query)),
    }
}

/// A query as Go encodes it: sorted by key.
fn in_order(query: &str) -> String {
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty() && !pair.contains(';'))
        .filter_map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            let key = decode_percent(key, true).ok()?;
            decode_percent(value, true).ok().map(|value| (key, value))
        })
        .collect();
    pairs.sort_by(|(one, _), (other, _)| one.cmp(other));
    let pairs: Vec<String> = pairs
        .iter()
        .map(|(key, value)| format!("{}={}", encoded(key), encoded(value)))
        .collect();
    pairs.join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_headers_of_a_client_are_removed() {
        let (mut parts, ()) = Request::get("/apis/x.example.com/v1/things?watch=1")
            .body(())
            .unwrap()
            .into_parts();
        for (name, value) in [
            ("x-remote-user", "root"),
            ("x-remote-group", "system:masters"),
            ("x-remote-uid", "0"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "root"),
            ("authorization", "Bearer secret"),
            ("connection", "x-secret, keep-alive"),
            ("x-secret", "hop"),
            ("te", "trailers"),
            ("host", "client.example.com"),
            ("x-own", "stays"),
        ] {
            parts.headers.append(name, HeaderValue::from_static(value));
        }
        let mut user = User::new("jane", &["devs", "system:authenticated"]);
        user.extra.insert("example.com/a b".to_owned(), vec!["one".to_owned()]);
        let headers = headers(&parts, &user).unwrap();
        let mut shown: Vec<String> = headers
            .iter()
            .map(|(name, value)| format!("{name}: {}", value.to_str().unwrap()))
            .collect();
        shown.sort();
        assert_eq!(
            shown,
            [
                "te: trailers",
                "x-forwarded-host: client.example.com",
                "x-forwarded-proto: https",
                "x-forwarded-uri: /apis/x.example.com/v1/things",
                "x-own: stays",
                "x-remote-extra-example.com%2fa%20b: one",
                "x-remote-group: devs",
                "x-remote-group: system:authenticated",
                "x-remote-user: jane",
            ]
        );
    }

    #[test]
    fn a_user_that_no_header_can_name_is_not_relayed_as_another() {
        let (parts, ()) = Request::get("/apis/x.example.com/v1").body(()).unwrap().into_parts();
        let named = headers(&parts, &User::new("Zoë", &["ops"])).unwrap();
        assert_eq!(named["x-remote-user"].as_bytes(), "Zoë".as_bytes());
        let split = User::new("jane\r\nX-Remote-Group: system:masters", &[]);
        assert_eq!(headers(&parts, &split).unwrap_err(), "x-remote-user");
        let group = User::new("jane", &["a\nb"]);
        assert_eq!(headers(&parts, &group).unwrap_err(), "x-remote-group");
    }
}
