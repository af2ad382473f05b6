//! Upgrade requests (WebSocket, SPDY), and the bytes that are copied in both directions once the target has agreed.
//! (kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/util/proxy/upgradeaware.go, tryUpgrade)

use std::sync::Arc;
use std::time::Duration;

use base_client::{ResponseBody, Upgrade, Wire, answer_apart, empty_body};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use kube::client::Body;
use tokio::io::{AsyncWriteExt, copy, split};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use crate::connections::dial::upgraded;
use crate::relay::connection::open_to;
use crate::relay::proxy_target::{Place, Way};
use crate::state::server_state::ServerState;
use crate::wire::answer::Answer;
use crate::wire::guarded_body::held;
use crate::wire::status::Status;

/// How long it may take to close both sides after one has ended.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Forwards an upgrade request to a place.
pub(crate) async fn forward(
    server: &Arc<ServerState>,
    place: &Place,
    parts: &Parts,
    mut request: Request<Body>,
    permit: OwnedSemaphorePermit,
) -> Result<Answer, Status> {
    let upgrade = parts.extensions.get::<Upgrade>().cloned();
    if let Way::Here(service) = &place.way {
        // A service in this process takes over the client's connection itself.
        if let Some(upgrade) = upgrade {
            request.extensions_mut().insert(upgrade);
        }
        let answered = answer_apart(service.clone(), request).await;
        let response = answered.map_err(|_| Status::failed("EOF"))?;
        if let Some(why) = invalid(response.status()) {
            return Err(Status::failed(why));
        }
        return Ok(Answer::passed(response.map(|body| held(body, permit))));
    }
    let connection = open_to(server, place).await;
    let connection = connection.map_err(|why| Status::failed(format!("error dialing backend: {why}")))?;
    let response = upgraded(connection, request).await.map_err(Status::failed)?;
    spliced(server, response, upgrade, permit).map_err(Status::failed)
}

/// Why a response to an upgrade request is invalid.
pub(crate) fn invalid(code: StatusCode) -> Option<String> {
    let agreed = code == StatusCode::SWITCHING_PROTOCOLS;
    (!agreed && code.as_u16() < 400).then(|| format!("invalid upgrade response: status code {}", code.as_u16()))
}

/// The response for the client. If the target has agreed, bytes are then copied in both directions until one side ends or this
/// server stops, and `keep` is dropped. Errors: why there is no response.
pub(crate) fn spliced(
    server: &Arc<ServerState>,
    response: Response<Incoming>,
    upgrade: Option<Upgrade>,
    keep: impl Send + Unpin + 'static,
) -> Result<Answer, String> {
    if let Some(why) = invalid(response.status()) {
        return Err(why);
    }
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        let mut response = response.map(|body| held(body.map_err(Into::into).boxed_unsync(), keep));
        response
            .headers_mut()
            .insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Ok(Answer::passed(response));
    }
    let upgrade = upgrade.ok_or("request connection cannot be hijacked: it is not HTTP/1.1 of its own")?;
    let agreed = agreed(&response);
    let stop = server.stop.clone();
    server.tasks.spawn(stop.run_until_cancelled_owned(async move {
        let _keep = keep;
        let client = upgrade.accepted().await;
        let behind = hyper::upgrade::on(response).await;
        if let (Some(client), Ok(behind)) = (client, behind) {
            copy_both_ways(client, TokioIo::new(behind)).await;
        }
    }));
    Ok(Answer::passed(agreed))
}

fn agreed(response: &Response<Incoming>) -> Response<ResponseBody> {
    let mut agreed = Response::new(empty_body());
    *agreed.status_mut() = response.status();
    *agreed.headers_mut() = response.headers().clone();
    agreed
}

/// Copies bytes in both directions until one of them ends.
async fn copy_both_ways(one: impl Wire, other: impl Wire) {
    let ((mut from_one, mut to_one), (mut from_other, mut to_other)) = (split(one), split(other));
    let ended = tokio::select! {
        ended = copy(&mut from_one, &mut to_other) => ended,
        ended = copy(&mut from_other, &mut to_one) => ended,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "an upgraded connection broke off");
    }
    // Both are closed, and dropped if that takes too long.
    let close = async { tokio::join!(to_one.shutdown(), to_other.shutdown()) };
    let _ = timeout(CLOSE_TIMEOUT, close).await;
}
