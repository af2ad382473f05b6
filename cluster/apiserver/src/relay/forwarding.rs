//! Forwards a request to what runs in the cluster, and its response back: unchanged, except that URLs which would lead past
//! this server are rewritten.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/util/proxy/{upgradeaware,transport}.go)

use std::sync::Arc;

use base_client::{ResponseBody, answer_apart, empty_body, requests_upgrade};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use kube::client::Body;

use crate::connections::dial;
use crate::relay::connection::open_to;
use crate::relay::forwarded_request::Forwarded;
use crate::relay::headers::{add_client, host, remove_hop_by_hop, without_identity};
use crate::relay::proxy_target::{Place, Way};
use crate::relay::rewriting::UrlRewriter;
use crate::relay::{html_links, upgrade};
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::guarded_body::held;
use crate::wire::percent::{encode_percent, is_unreserved};
use crate::wire::status::Status;

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");
/// Removed from responses: a server target_path this one does not decide which origins may read responses of this server.
const CORS_HEADERS: [HeaderName; 4] = [
    header::ACCESS_CONTROL_ALLOW_CREDENTIALS,
    header::ACCESS_CONTROL_ALLOW_HEADERS,
    header::ACCESS_CONTROL_ALLOW_METHODS,
    header::ACCESS_CONTROL_ALLOW_ORIGIN,
];

/// Forwards a request to a place, and its response back.
pub(crate) async fn forward(
    server: &Arc<ServerState>,
    place: &Place,
    forwarded: Forwarded<'_>,
    body: Body,
) -> Result<Answer, Status> {
    let shutting_down = || Status::unavailable("the server is shutting down").retry_after(1);
    let parts = forwarded.parts;
    let permit = server.relay_limit.acquire()?;
    if requests_upgrade(&parts.headers) {
        // As upstream, which drops the client's query here.
        let query = forwarded.query.filter(|_| forwarded.is_of_server);
        let request = request(place, Forwarded { query, ..forwarded }, for_upgrade(parts), body)?;
        let upgraded = upgrade::forward(server, place, parts, request, permit);
        return server
            .stop
            .run_until_cancelled(upgraded)
            .await
            .ok_or_else(shutting_down)?;
    }
    if forwarded.target_path.is_empty() && [Method::GET, Method::HEAD].contains(&parts.method) {
        return redirect_to_slash(forwarded);
    }
    let rewriter = UrlRewriter::new(place, forwarded);
    let mut headers = without_identity(parts);
    remove_hop_by_hop(&mut headers);
    add_client(&mut headers, parts);
    if let Ok(uri) = HeaderValue::from_bytes(rewriter.forwarded_uri(&encoded(forwarded.target_path)).as_bytes()) {
        headers.insert(FORWARDED_URI, uri);
    }
    let request = request(place, forwarded, headers, body)?;
    let sent = server.stop.run_until_cancelled(send(server, place, request));
    let response = sent.await.ok_or_else(shutting_down)?;
    let response = response.map_err(|why| Status::unavailable(format!("error trying to reach service: {why}")))?;
    let response = for_client(response, &rewriter).await?;
    Ok(Answer::passed(response.map(|body| held(body, permit))))
}

/// The headers of an upgrade request: those about the connection are meant for the target.
fn for_upgrade(parts: &Parts) -> HeaderMap {
    let mut headers = without_identity(parts);
    add_client(&mut headers, parts);
    headers
}

fn request(
    place: &Place,
    forwarded: Forwarded<'_>,
    mut headers: HeaderMap,
    body: Body,
) -> Result<Request<Body>, Status> {
    // As upstream, the target gets the host that the client has requested.
    let host = host(forwarded.parts).or_else(|| HeaderValue::from_str(&place.authority()).ok());
    if let Some(host) = host {
        headers.insert(header::HOST, host);
    }
    let path = match forwarded.target_path {
        "" => "/".to_owned(),
        path => encoded(path),
    };
    let target = match forwarded.query {
        None => path,
        Some(query) => format!("{path}?{query}"),
    };
    let target: Uri = target
        .parse()
        .map_err(|error| Status::bad_request(format!("the request's path: {error}")))?;
    let mut request = Request::new(body);
    *request.method_mut() = forwarded.parts.method.clone();
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Sends a request and waits for the head of the response. Errors: why there is none.
async fn send(server: &ServerState, place: &Place, request: Request<Body>) -> Result<Response<ResponseBody>, String> {
    if let Way::Here(service) = &place.way {
        let answered = answer_apart(service.clone(), request).await;
        return answered.map_err(|_| "EOF".to_owned());
    }
    dial::send(open_to(server, place).await?, request).await
}

/// Redirects to the same path with a slash at its end, on which relative links of pages depend.
fn redirect_to_slash(forwarded: Forwarded<'_>) -> Result<Answer, Status> {
    let query = forwarded.query.map(|query| format!("?{query}")).unwrap_or_default();
    let mut response = Response::new(empty_body());
    *response.status_mut() = StatusCode::MOVED_PERMANENTLY;
    let place = HeaderValue::from_bytes(format!("{}/{query}", forwarded.path).as_bytes());
    let place = place.map_err(|_| Status::bad_request("the request's path cannot stand in a header"))?;
    let headers = response.headers_mut();
    headers.insert(header::LOCATION, place);
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(Answer::passed(response))
}

/// The response as the client gets it.
async fn for_client(
    response: Response<ResponseBody>,
    rewriter: &UrlRewriter,
) -> Result<Response<ResponseBody>, Status> {
    let (mut parts, body) = response.into_parts();
    remove_hop_by_hop(&mut parts.headers);
    for name in CORS_HEADERS {
        parts.headers.remove(name);
    }
    let mut body = body;
    let place = parts
        .headers
        .get(header::LOCATION)
        .and_then(|place| place.to_str().ok());
    if let Some(place) = place.filter(|place| !place.is_empty()) {
        if let Ok(place) = HeaderValue::from_str(&rewriter.rewritten(place)) {
            parts.headers.insert(header::LOCATION, place);
        }
    } else if is_html(&parts.headers) {
        body = html_links::rewritten(&mut parts.headers, body, rewriter).await?;
    }
    parts
        .headers
        .append(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(Response::from_parts(parts, body))
}

fn is_html(headers: &HeaderMap) -> bool {
    let type_ = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    type_.is_some_and(|type_| type_.split(';').next().unwrap_or_default().trim() == "text/html")
}

/// A path as Go encodes it.
fn encoded(path: &str) -> String {
    encode_percent(path, |byte| is_unreserved(byte) || b"$&+,/:;=@".contains(&byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_encoded_as_go_does_it() {
        assert_eq!(encoded("/a b/ü?x=%&;:@!"), "/a%20b/%C3%BC%3Fx=%25&;:@%21");
    }
}
