//! The cloud as an HTTP server, for clients in other processes. It serves plain HTTP: there is nothing to steal.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::api::Answer;
use super::error::{CloudError, Reason};
use super::memory::{Cloud, Keys};
use super::path::call_of;

/// Bytes of one request: a little more than the user data of an instance.
const BODY_BYTES_MAX: usize = 256 * 1024;
/// Lists what the cloud holds, a line for each thing, without keys.
const HELD_PATH: &str = "/held";

/// Serves `cloud` until `stop`: its calls for clients with keys, and without keys at `/held` what it holds.
///
/// # Errors
/// The listener fails.
pub async fn serve(cloud: Cloud, listener: TcpListener, stop: CancellationToken) -> io::Result<()> {
    let connections = TaskTracker::new();
    let stopped = stop.clone();
    let accepting = async {
        loop {
            let (stream, _) = listener.accept().await?;
            let serving = connection(cloud.clone(), stream);
            let stop = stopped.clone();
            connections.spawn(async move { stop.run_until_cancelled(serving).await });
        }
    };
    let ended = stop.run_until_cancelled(accepting).await;
    connections.close();
    connections.wait().await;
    ended.unwrap_or(Ok(()))
}

async fn connection(cloud: Cloud, stream: TcpStream) {
    let service = service_fn(move |request| {
        let cloud = cloud.clone();
        async move { respond(&cloud, request).await }
    });
    let served = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended");
    }
}

/// The connection is to end without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer is lost")]
struct Lost;

async fn respond(cloud: &Cloud, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Lost> {
    let (parts, body) = request.into_parts();
    if parts.method == Method::GET && parts.uri.path() == HELD_PATH {
        return Ok(text(cloud.held().to_string()));
    }
    let called = async {
        let keys = keys_of(&parts.headers)?;
        let body = Limited::new(body, BODY_BYTES_MAX)
            .collect()
            .await
            .map_err(|error| CloudError::new(Reason::InvalidParameter, format!("the body cannot be read: {error}")))?;
        let query = parts.uri.query().unwrap_or_default();
        let (region, call) = call_of(&parts.method, parts.uri.path(), query, &body.to_bytes())?;
        cloud.answer(&keys, &region, call)
    };
    let response = match called.await {
        Ok(Answer::Item(item)) => json(StatusCode::OK, &item),
        Ok(Answer::Items(items)) => json(StatusCode::OK, &items),
        Ok(Answer::Done) => json(StatusCode::OK, &serde_json::json!({})),
        Err(error) if error.reason == Reason::Unanswered => return Err(Lost),
        Err(error) => json(error.reason.status(), &error),
    };
    Ok(response)
}

fn keys_of(headers: &HeaderMap) -> Result<Keys, CloudError> {
    let read = || {
        let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
        let decoded = STANDARD.decode(value.strip_prefix("Basic ")?).ok()?;
        let (id, secret) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
        Some(Keys {
            access_key_id: id.to_owned(),
            secret_access_key: secret.to_owned(),
        })
    };
    read().ok_or_else(|| {
        CloudError::new(
            Reason::AuthFailure,
            "the request has no keys: they go as user and password",
        )
    })
}

fn json(status: StatusCode, value: &impl serde::Serialize) -> Response<Full<Bytes>> {
    let body = serde_json::to_vec(value).expect("values of this module have text keys alone");
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

fn text(text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::from(text));
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}
