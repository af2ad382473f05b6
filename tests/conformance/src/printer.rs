//! A server behind an APIService that prints the requests that reach it. Its answer depends on the path alone, so that it makes
//! no difference which server calls first.

use std::convert::Infallible;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Response, StatusCode, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Map, Value, json};

use crate::Outcome;

/// A body, which may end with an error before its end.
pub(crate) type Printed = UnsyncBoxBody<Bytes, String>;
/// Headers that differ between the two servers.
const OMITTED: [&str; 9] = [
    "host",
    "user-agent",
    "accept-encoding",
    "audit-id",
    "x-forwarded-host",
    "x-forwarded-for",
    "traceparent",
    "content-length",
    "transfer-encoding",
];
/// More headers than any client reads.
const MANY: usize = 5000;
/// Longer than a server waits for discovery of one behind it.
const NEVER: Duration = Duration::from_secs(3600);

/// A page with links of all sorts, and with text that only looks like links.
const PAGE: &str = r#"<!DOCTYPE html><!-- <a href="/comment"> -->
<HTML manifest=/m><head><base href='/'><link rel=stylesheet href="/a.css?x=1&amp;y=2">
<script src="/a.js">document.write('<a href="/script">');</script><style>a { background: url(/style) }</style>
<title><a href="/title"></title></head><body background="/b">
<A HREF="/abs">1 < 2 &amp; 3</A><a href="rel" title='/it"s'>x</a><a href="https://elsewhere.example.com/x">y</a><a href=>z</a>
<img src=/i.png alt="/alt" /><form action="/f/"><input disabled formaction=/g></form><br/><p data-src="/no">
</body></html>"#;

pub(crate) fn whole(text: impl Into<Bytes>) -> Printed {
    Full::new(text.into())
        .map_err(|never: Infallible| match never {})
        .boxed_unsync()
}

/// Answers a request that an API server has forwarded. An error closes the connection.
pub(crate) async fn print(parts: &Parts, body: &Bytes) -> Outcome<Response<Printed>> {
    let path: Vec<&str> = parts.uri.path().split('/').skip(1).collect();
    let group = path.get(1).copied().unwrap_or_default();
    let way = group.split('.').next().unwrap_or_default();
    let rest = path.get(3..).unwrap_or_default();
    match (way, rest) {
        ("broken", _) => return Ok(of(500, whole("broken\n"))),
        ("moved", []) => return Ok(moved()),
        (_, []) => return Ok(listed(group, path.get(2).copied().unwrap_or_default())),
        _ => {}
    }
    match rest.first().copied().unwrap_or_default() {
        "code" => {
            let code = rest.get(1).and_then(|code| code.parse().ok()).unwrap_or(500);
            Ok(of(code, whole(format!("code {code}\n"))))
        }
        "moved" => Ok(moved()),
        "moved-here" => Ok(moved_here()),
        "page" => Ok(page()),
        "refused" => {
            let mut response = json_of(&received(parts, body));
            *response.status_mut() = StatusCode::IM_A_TEAPOT;
            Ok(response)
        }
        "close" => Err("the connection is closed on purpose".to_owned()),
        "half" => {
            let chunks = [
                Ok(Frame::data(Bytes::from_static(b"{\"half\":"))),
                Err("cut".to_owned()),
            ];
            let mut response = of(200, StreamBody::new(futures::stream::iter(chunks)).boxed_unsync());
            let length = HeaderValue::from_static("100");
            response.headers_mut().insert(header::CONTENT_LENGTH, length);
            Ok(response)
        }
        "headers" => {
            let mut response = of(200, whole("many\n"));
            for number in 0..MANY {
                let name = HeaderName::from_bytes(format!("x-many-{number}").as_bytes());
                let name = name.map_err(|error| error.to_string())?;
                response.headers_mut().insert(name, HeaderValue::from_static("x"));
            }
            Ok(response)
        }
        "stream" => {
            let lines = futures::stream::iter(0..3).then(|number| async move {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Frame::data(Bytes::from(format!("{{\"line\":{number}}}\n"))))
            });
            Ok(of(200, StreamBody::new(lines).boxed_unsync()))
        }
        "never" => {
            tokio::time::sleep(NEVER).await;
            Err("late".to_owned())
        }
        _ => Ok(json_of(&received(parts, body))),
    }
}

/// The request as it reached the server.
fn received(parts: &Parts, body: &Bytes) -> Value {
    let mut headers: Map<String, Value> = Map::new();
    for (name, value) in &parts.headers {
        let name = name.as_str();
        if !OMITTED.contains(&name) {
            let values = headers.entry(name).or_insert_with(|| json!([]));
            if let Some(values) = values.as_array_mut() {
                values.push(json!(String::from_utf8_lossy(value.as_bytes())));
            }
        }
    }
    json!({
        "kind": "Printed", "apiVersion": "printer.example.com/v1", "method": parts.method.as_str(),
        "path": parts.uri.path(), "query": parts.uri.query(), "headers": headers, "body": String::from_utf8_lossy(body),
    })
}

fn listed(group: &str, version: &str) -> Response<Printed> {
    json_of(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{group}/{version}"),
        "resources": [
            {"name": "prints", "singularName": "print", "namespaced": true, "kind": "Print", "verbs": ["get", "list"], "shortNames": ["pr"], "categories": ["all"]},
            {"name": "prints/status", "singularName": "", "namespaced": true, "kind": "Print", "verbs": ["get"]},
            {"name": "sheets", "singularName": "sheet", "namespaced": false, "kind": "Sheet", "verbs": ["create"]},
        ],
    }))
}

fn moved() -> Response<Printed> {
    let mut response = of(302, whole("elsewhere\n"));
    let place = HeaderValue::from_static("https://elsewhere.example.com/x");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

fn moved_here() -> Response<Printed> {
    let mut response = of(302, whole("here\n"));
    let place = HeaderValue::from_static("/x/y/?z=1#end");
    response.headers_mut().insert(header::LOCATION, place);
    response
}

fn page() -> Response<Printed> {
    let mut response = of(200, whole(PAGE));
    let headers = response.headers_mut();
    let media = HeaderValue::from_static("text/html; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, media);
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    response
}

fn json_of(value: &Value) -> Response<Printed> {
    let mut response = of(200, whole(value.to_string()));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert("x-printed", HeaderValue::from_static("yes"));
    response
}

fn of(code: u16, body: Printed) -> Response<Printed> {
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let media = HeaderValue::from_static("text/plain");
    response.headers_mut().insert(header::CONTENT_TYPE, media);
    response
}
