//! An HTTP service as a value, and a `kube::Client` that calls one without a socket.
//! It never authenticates: the identity of a request is set by the `inject` of its client.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::request::Parts;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
use tokio_util::task::AbortOnDropHandle;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, ServiceExt};

/// What servers answer with: bytes at once or a stream of them. (`kube::client::Body` cannot be made from a
/// stream outside its crate.)
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// A server as a tower service: an API server in this process, a health endpoint of a pod.
pub type HttpService = BoxCloneSyncService<Request<Body>, Response<ResponseBody>, Infallible>;

/// A body with nothing in it.
pub fn empty_body() -> ResponseBody {
    Empty::new().map_err(|never| match never {}).boxed_unsync()
}

/// A body known as a whole.
pub fn full_body(bytes: impl Into<Bytes>) -> ResponseBody {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed_unsync()
}

/// A body that is still being written: a watch, a log.
pub fn stream_body<S, E>(chunks: S) -> ResponseBody
where
    S: Stream<Item = Result<Bytes, E>> + Send + 'static,
    E: Into<BoxError> + 'static,
{
    StreamBody::new(chunks.map_ok(Frame::data).map_err(Into::into)).boxed_unsync()
}

/// The server did not answer: it panicked over the request, or its runtime ended.
#[derive(Debug, thiserror::Error)]
#[error("connection reset by the server")]
pub struct NoAnswer;

/// Has a server answer in a task of its own, as it would behind a socket. A caller may not poll its request for long
/// while it does other things; what the server holds for the request, a lock or a place in a queue, does not wait for
/// that. A request whose caller is dropped is cancelled.
///
/// Errors: see [`NoAnswer`].
pub async fn answer_apart(service: HttpService, request: Request<Body>) -> Result<Response<ResponseBody>, NoAnswer> {
    let answering = AbortOnDropHandle::new(tokio::spawn(service.oneshot(request)));
    match answering.await {
        Ok(Ok(response)) => Ok(response),
        Ok(Err(never)) => match never {},
        Err(_) => Err(NoAnswer),
    }
}

/// A client that calls `service` directly. `inject` sees the head of every request before the service does and
/// puts the caller's identity there: a bearer token header, a request extension with its certificates.
///
/// Must be called within a tokio runtime; the client's queue is a task of it.
pub fn in_process(service: HttpService, inject: impl Fn(&mut Parts) + Clone + Send + Sync + 'static) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let service = service.clone();
        let (mut parts, body) = request.into_parts();
        inject(&mut parts);
        answer_apart(service, Request::from_parts(parts, body))
    });
    kube::Client::new(service, "default")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt;
    use tokio::sync::Mutex;

    use super::*;

    /// A server that serves one request after the other, each with a pause.
    fn one_by_one() -> HttpService {
        let turns = Arc::new(Mutex::new(()));
        HttpService::new(tower::service_fn(move |_: Request<Body>| {
            let turns = turns.clone();
            async move {
                let _turn = turns.lock().await;
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                Ok(Response::new(empty_body()))
            }
        }))
    }

    fn request() -> Request<Body> {
        Request::new(Body::empty())
    }

    #[tokio::test(start_paused = true)]
    async fn request_that_is_not_polled_does_not_block_other_requests() {
        let client = in_process(one_by_one(), |_| {});
        let mut not_polled = Box::pin(client.send(request()));
        for _ in 0..3 {
            assert!((&mut not_polled).now_or_never().is_none());
            tokio::task::yield_now().await;
        }
        assert_eq!(client.send(request()).await.unwrap().status(), 200);
        assert_eq!(not_polled.await.unwrap().status(), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn request_of_a_dropped_caller_is_cancelled() {
        let client = in_process(one_by_one(), |_| {});
        let begun = tokio::time::Instant::now();
        for _ in 0..9 {
            let mut given_up = Box::pin(client.send(request()));
            for _ in 0..3 {
                assert!((&mut given_up).now_or_never().is_none());
                tokio::task::yield_now().await;
            }
        }
        client.send(request()).await.unwrap();
        assert_eq!(begun.elapsed().as_secs(), 1);
    }

    #[tokio::test]
    async fn a_server_that_panics_resets_the_connection() {
        let panics = HttpService::new(tower::service_fn(|_: Request<Body>| async {
            assert!(std::hint::black_box(false), "a fault of the server");
            Ok(Response::new(empty_body()))
        }));
        let error = in_process(panics, |_| {}).send(request()).await.unwrap_err();
        assert!(format!("{error:?}").contains("NoAnswer"), "{error:?}");
    }
}
