//! A body that keeps something until it has ended or no one reads it any more.

use std::pin::Pin;
use std::task::{Context, Poll};

use base_client::ResponseBody;
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, SizeHint};
use tower::BoxError;

/// The same body, with what it keeps.
pub(crate) fn held(body: ResponseBody, keep: impl Send + Unpin + 'static) -> ResponseBody {
    Held { body, keep: Some(keep) }.boxed_unsync()
}

struct Held<K> {
    body: ResponseBody,
    keep: Option<K>,
}

impl<K: Unpin> Body for Held<K> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = Pin::new(&mut self.body).poll_frame(context);
        if matches!(next, Poll::Ready(None)) {
            self.keep = None;
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
