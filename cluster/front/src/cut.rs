//! A response body that breaks off when its server is cut off. It always breaks off with an error, so
//! that no watcher takes half an answer for a whole one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use base_client::ResponseBody;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;
use tower::BoxError;

/// Wraps a body; `open` counts it as open until it is dropped.
pub(crate) fn cut_with(body: ResponseBody, cut: CancellationToken, open: TaskTrackerToken) -> ResponseBody {
    CutBody {
        body,
        cut: Box::pin(cut.cancelled_owned()),
        _open: open,
    }
    .boxed_unsync()
}

/// What a client of a server that was cut off gets to see.
pub(crate) fn reset() -> io::Error {
    io::Error::new(
        io::ErrorKind::ConnectionReset,
        "connection reset: the API server was stopped",
    )
}

struct CutBody {
    body: ResponseBody,
    cut: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: TaskTrackerToken,
}

impl Body for CutBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.cut.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Some(Err(reset().into())));
        }
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
