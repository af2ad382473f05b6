//! A body with a guard, which is dropped when the body has ended or is dropped.

use std::pin::Pin;
use std::task::{Context, Poll};

use base_client::ResponseBody;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tower::BoxError;

/// The same body, with a guard.
pub(crate) fn held(body: ResponseBody, guard: impl Send + Unpin + 'static) -> ResponseBody {
    Guarded {
        body,
        guard: Some(guard),
    }
    .boxed_unsync()
}

struct Guarded<G> {
    body: ResponseBody,
    guard: Option<G>,
}

impl<G: Unpin> Body for Guarded<G> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if matches!(next, Poll::Ready(None)) {
            self.guard = None;
        }
        next
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
