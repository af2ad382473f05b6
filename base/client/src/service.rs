//! An HTTP service as a value, and a `kube::Client` that calls one without a socket.
//! It never authenticates: what identity a request carries is put there by its maker.

use std::convert::Infallible;

use bytes::Bytes;
use futures::{Stream, TryStreamExt};
use http::request::Parts;
use http::{Request, Response};
use http_body::Frame;
use http_body_util::{BodyExt, Empty, Full, StreamBody, combinators::UnsyncBoxBody};
use kube::client::Body;
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

/// A client that calls `service` directly. `inject` sees the head of every request before the service does and
/// puts the caller's identity there: a bearer token header, a request extension with its certificates.
///
/// Must be called within a tokio runtime; the client's queue is a task of it.
pub fn in_process(service: HttpService, inject: impl Fn(&mut Parts) + Clone + Send + Sync + 'static) -> kube::Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let service = service.clone();
        let (mut parts, body) = request.into_parts();
        inject(&mut parts);
        service.oneshot(Request::from_parts(parts, body))
    });
    kube::Client::new(service, "default")
}
