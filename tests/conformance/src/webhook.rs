//! A webhook that both servers reach over TLS on loopback. Its answer depends on the path alone, so that it makes no difference
//! which server calls first; see `cases/README.md`.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use base_clock::{Clock, Entropy};
use base_secrets::{Authority, CertificateSpec};
use base64::Engine as _;
use http::{Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::Outcome;
use crate::converting::{self, Converted};
use crate::printer::{self, Printed};

/// Longer than any run.
const VALIDITY: Duration = Duration::from_secs(24 * 3600);
/// Longer than the shortest time-out that a webhook may have.
const SLOW: Duration = Duration::from_secs(3);
/// Paths of requests that are no reviews, but for a server behind an APIService or for a kubelet.
const PRINTED: [&str; 6] = [
    "/apis/",
    "/openapi/",
    "/containerLogs/",
    "/exec/",
    "/attach/",
    "/portForward/",
];
/// Names of the Services through which it is reached as well.
const SERVICES: [&str; 2] = ["hook.default.svc", "printer.default.svc"];

/// The webhook, until it is dropped.
pub(crate) struct Webhook {
    port: u16,
    authority: String,
    serving: tokio::task::JoinHandle<()>,
}

impl Webhook {
    /// Starts it on a free port of all addresses: servers refuse to forward requests to loopback.
    pub(crate) async fn start() -> Outcome<Self> {
        let (clock, entropy) = (Clock::real(), Entropy::os());
        let wrong = |error: &dyn std::fmt::Display| format!("the webhook did not start: {error}");
        let authority = Authority::generate("webhook", &clock, &entropy).map_err(|error| wrong(&error))?;
        let names = ["localhost"].into_iter().chain(SERVICES).map(str::to_owned).collect();
        let spec = CertificateSpec::server("webhook", names, vec![IpAddr::V4(Ipv4Addr::LOCALHOST)], VALIDITY);
        let issued = authority
            .issue(&spec, &clock, &entropy)
            .map_err(|error| wrong(&error))?;
        let key = PrivateKeyDer::from_pem_slice(&issued.key_pem().expose_bytes()).map_err(|error| wrong(&error))?;
        let chain = issued.certificate_pem();
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| wrong(&error))?
            .with_no_client_auth()
            .with_single_cert(chain.map_err(|error| wrong(&error))?, key)
            .map_err(|error| wrong(&error))?;
        let listener = TcpListener::bind("0.0.0.0:0").await.map_err(|error| wrong(&error))?;
        let port = listener.local_addr().map_err(|error| wrong(&error))?.port();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        Ok(Self {
            port,
            authority: authority.certificate_pem(),
            serving: tokio::spawn(serve(listener, acceptor)),
        })
    }

    /// What cases refer to: `<webhook.url>`, `<webhook.port>`, `<webhook.ca>`, `<webhook.address>`.
    pub(crate) fn known(&self) -> Value {
        json!({
            "url": format!("https://127.0.0.1:{}", self.port),
            "port": self.port,
            "address": own_address(),
            "ca": base64(self.authority.as_bytes()),
        })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// An address of this machine that is not loopback; 127.0.0.1 if it has none. Nothing is sent.
fn own_address() -> String {
    let found = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        // An address for documentation, to which any default route leads.
        socket.connect((Ipv4Addr::new(198, 51, 100, 1), 9))?;
        socket.local_addr()
    });
    found.map_or_else(|_| "127.0.0.1".to_owned(), |address| address.ip().to_string())
}

async fn serve(listener: TcpListener, acceptor: TlsAcceptor) {
    // Dropping it closes all connections.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(converse(stream, acceptor.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn converse(stream: TcpStream, acceptor: TlsAcceptor) {
    if let Ok(stream) = acceptor.accept(stream).await {
        // An answer that is an error ends the connection.
        let _ = http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service_fn(answer))
            .await;
    }
}

async fn answer(request: Request<Incoming>) -> Outcome<Response<Printed>> {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    if PRINTED.iter().any(|start| path.starts_with(start)) {
        return printer::print(&head, &body).await;
    }
    let review: Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let parts: Vec<&str> = path.split('/').skip(1).collect();
    if let ["slow"] = parts.as_slice() {
        tokio::time::sleep(SLOW).await;
    }
    let of = |code: u16, text: String| {
        let mut response = Response::new(printer::whole(text));
        *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let media = if code == 200 { "application/json" } else { "text/plain" };
        response
            .headers_mut()
            .insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static(media));
        response
    };
    if let ["convert", ..] = parts.as_slice() {
        return match converting::convert(&review) {
            Converted::Review(answer) => Ok(of(200, answer.to_string())),
            Converted::Text(text) => Ok(of(200, text.to_owned())),
            Converted::Code(code) => Ok(of(code, "boom\n".to_owned())),
            Converted::Closed => Err("the connection is closed on purpose".to_owned()),
        };
    }
    match parts.as_slice() {
        ["close"] => Err("the connection is closed on purpose".to_owned()),
        ["code", code] => Ok(of(code.parse().unwrap_or(500), "boom\n".to_owned())),
        ["broken"] => Ok(of(200, "{\"kind\": nonsense".to_owned())),
        ["empty"] => Ok(of(200, String::new())),
        parts => Ok(of(200, reviewed(parts, &review).to_string())),
    }
}

/// The review with an answer.
fn reviewed(parts: &[&str], review: &Value) -> Value {
    let request = &review["request"];
    let mut answer = json!({
        "kind": "AdmissionReview", "apiVersion": review["apiVersion"],
        "response": {"uid": request["uid"], "allowed": true},
    });
    let patch = |operations: Value| json!(base64(operations.to_string().as_bytes()));
    let patched = |operations: Value| json!({"patch": patch(operations), "patchType": "JSONPatch"});
    let more = match parts {
        ["deny"] => json!({"allowed": false, "status": {"message": "not today"}}),
        ["deny", "silently"] => json!({"allowed": false}),
        ["deny", "reason"] => json!({"allowed": false, "status": {"reason": "NotToday"}}),
        ["deny", "success"] => {
            json!({"allowed": false, "status": {"status": "Success", "code": 200, "message": "well"}})
        }
        ["deny", "teapot"] => json!({"allowed": false, "status": {
            "code": 418, "reason": "Teapot", "message": "short and stout",
            "details": {"name": "pot", "kind": "pots", "retryAfterSeconds": 2, "causes": [{"reason": "Tea", "message": "hot", "field": "spec.tea"}]},
        }}),
        ["deny", "warning"] => json!({"allowed": false, "warnings": ["before no"]}),
        ["echo"] => {
            let mut causes = Vec::new();
            leaves(String::new(), request, &mut causes);
            json!({"allowed": false, "status": {"message": "told", "details": {"causes": causes}}})
        }
        ["warn"] => json!({"warnings": ["be careful", "\"twice\" as careful", "be careful"]}),
        ["label", key, value] => patched(json!([label(&request["object"], key, value)])),
        ["count", key] => patched(json!([label(&request["object"], key, &count(&request["object"], key))])),
        ["data", key, value] => patched(json!([{"op": "add", "path": format!("/data/{key}"), "value": value}])),
        ["rename", name] => patched(json!([{"op": "replace", "path": "/metadata/name", "value": name}])),
        ["set", pointer @ .., value] => {
            patched(json!([{"op": "add", "path": format!("/{}", pointer.join("/")), "value": value}]))
        }
        ["number", pointer @ .., value] => {
            let number = value.parse::<i64>().unwrap_or_default();
            patched(json!([{"op": "add", "path": format!("/{}", pointer.join("/")), "value": number}]))
        }
        ["nothing"] => patched(json!([])),
        ["unpatchable"] => patched(json!([{"op": "remove", "path": "/nowhere"}])),
        ["no-patch"] => json!({"patch": base64(b"nonsense"), "patchType": "JSONPatch"}),
        ["no-form"] => json!({"patch": patch(json!([]))}),
        ["form"] => json!({"patchType": "JSONPatch"}),
        ["other-form"] => {
            json!({"patch": patch(json!([{"op": "add", "path": "/a", "value": 1}])), "patchType": "Merge"})
        }
        ["uid"] => json!({"uid": "another"}),
        _ => json!({}),
    };
    if let (Some(response), Some(more)) = (answer["response"].as_object_mut(), more.as_object()) {
        response.extend(more.clone());
    }
    match parts {
        ["absent"] => drop(answer.as_object_mut().map(|fields| fields.remove("response"))),
        ["untyped"] => {
            for field in ["kind", "apiVersion"] {
                drop(answer.as_object_mut().map(|fields| fields.remove(field)));
            }
        }
        ["kind"] => answer["kind"] = json!("Other"),
        _ => {}
    }
    answer
}

/// All values of a review, as causes of a status, so that each is compared by itself.
fn leaves(place: String, value: &Value, causes: &mut Vec<Value>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (key, value) in fields {
                leaves(format!("{place}/{key}"), value, causes);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for (index, value) in items.iter().enumerate() {
                leaves(format!("{place}/{index}"), value, causes);
            }
        }
        Value::String(text) => causes.push(json!({"field": place, "message": text})),
        other => causes.push(json!({"field": place, "message": other.to_string()})),
    }
}

fn label(object: &Value, key: &str, value: &str) -> Value {
    match object["metadata"]["labels"].is_object() {
        true => json!({"op": "add", "path": format!("/metadata/labels/{key}"), "value": value}),
        false => json!({"op": "add", "path": "/metadata/labels", "value": {key: value}}),
    }
}

fn count(object: &Value, key: &str) -> String {
    let before = object["metadata"]["labels"][key]
        .as_str()
        .and_then(|text| text.parse::<u32>().ok());
    (before.unwrap_or_default() + 1).to_string()
}

fn base64(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
