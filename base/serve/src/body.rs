//! A request's body, read as a whole before the service sees the request: within its own limit, the limit of all bodies of a port,
//! and a time.

use std::sync::Arc;
use std::time::Duration;

use base_client::{ResponseBody, full_body};
use bytes::{Bytes, BytesMut};
use http::header::{CONNECTION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// A body, and the right to hold it in memory.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// Why a body was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// With the limit in bytes.
    TooLarge(usize),
    TooSlow(Duration),
    NoMemory,
    Broken(String),
}

/// Reads a body to its end; `left` is what all bodies of the port may still take, in bytes.
pub(crate) async fn read<B>(body: B, left: &Arc<Semaphore>, bytes_max: usize, time: Duration) -> Result<Held, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Refusal::TooLarge(bytes_max));
    }
    let read = timeout(time, to_end(body, left, bytes_max)).await;
    read.unwrap_or(Err(Refusal::TooSlow(time)))
}

async fn to_end<B>(mut body: B, left: &Arc<Semaphore>, bytes_max: usize) -> Result<Held, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    let mut bytes = BytesMut::new();
    let mut held: Option<OwnedSemaphorePermit> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Refusal::Broken(error.to_string()))?;
        let Ok(data) = frame.into_data() else { continue };
        if bytes.len() + data.len() > bytes_max {
            return Err(Refusal::TooLarge(bytes_max));
        }
        let size = u32::try_from(data.len()).map_err(|_| Refusal::NoMemory)?;
        let permit = left.clone().try_acquire_many_owned(size);
        let permit = permit.map_err(|_| Refusal::NoMemory)?;
        match &mut held {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        bytes.extend_from_slice(&data);
    }
    Ok(Held {
        bytes: bytes.freeze(),
        permit: held,
    })
}

impl Refusal {
    /// The answer. The connection ends with it, since the rest of the body is not read.
    pub(crate) fn response(&self) -> Response<ResponseBody> {
        let (code, text) = match self {
            Self::TooLarge(limit) => (
                StatusCode::PAYLOAD_TOO_LARGE,
                format!("the request's body has more than {limit} bytes"),
            ),
            Self::TooSlow(time) => (
                StatusCode::REQUEST_TIMEOUT,
                format!("the request's body did not end within {} s", time.as_secs()),
            ),
            Self::NoMemory => (
                StatusCode::SERVICE_UNAVAILABLE,
                "the requests under way take all memory that there is for them; try again".to_owned(),
            ),
            Self::Broken(why) => (
                StatusCode::BAD_REQUEST,
                format!("the request's body could not be read: {why}"),
            ),
        };
        let mut response = text_response(code, text);
        let headers = response.headers_mut();
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if *self == Self::NoMemory {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// An answer in plain text.
pub(crate) fn text_response(code: StatusCode, text: impl Into<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(full_body(text));
    *response.status_mut() = code;
    let content_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::{StreamExt, stream};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    const TIME: Duration = Duration::from_secs(30);

    /// A body of `count` KiB without a declared size; then its end, or nothing ever again.
    fn body(count: usize, ends: bool) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let chunks = stream::iter(0..count).map(|_| Ok(Frame::data(Bytes::from(vec![b'x'; 1024]))));
        let rest = if ends {
            stream::empty().boxed()
        } else {
            stream::pending().boxed()
        };
        StreamBody::new(chunks.chain(rest))
    }

    #[tokio::test]
    async fn a_body_counts_against_the_port_until_it_is_dropped() {
        let left = Arc::new(Semaphore::new(4096));
        let held = read(body(3, true), &left, 3072, TIME).await.unwrap();
        assert_eq!((held.bytes.len(), left.available_permits()), (3072, 1024));
        assert_eq!(
            read(body(2, true), &left, 3072, TIME).await.unwrap_err(),
            Refusal::NoMemory
        );
        drop(held);
        assert_eq!(left.available_permits(), 4096);
    }

    #[tokio::test(start_paused = true)]
    async fn bodies_beyond_size_or_time_are_refused_and_hold_nothing() {
        let left = Arc::new(Semaphore::new(4096));
        let cases = [
            (body(4, true), Refusal::TooLarge(3072)),
            (body(4, false), Refusal::TooLarge(3072)),
            (body(2, false), Refusal::TooSlow(TIME)),
        ];
        for (body, refusal) in cases {
            assert_eq!(read(body, &left, 3072, TIME).await.unwrap_err(), refusal);
            assert_eq!(left.available_permits(), 4096, "{refusal:?}");
        }
        let declared = http_body_util::Full::new(Bytes::from(vec![0; 3073]));
        assert_eq!(
            read(declared, &left, 3072, TIME).await.unwrap_err(),
            Refusal::TooLarge(3072)
        );
    }
}
