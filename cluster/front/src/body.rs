//! A request's body, read as a whole before the request is handled: only answers stream. It bounds each body, all bodies
//! of a process together, and the time that each may take.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use base_client::{ResponseBody, full_body};
use bytes::{Bytes, BytesMut};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};
use http_body::Body;
use http_body_util::BodyExt;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Size of a request's body unless its server takes larger ones: kube-apiserver's limit (kubernetes/kubernetes v1.35
/// staging/src/k8s.io/apiserver/pkg/server/config.go, MaxRequestBodyBytes).
pub const REQUEST_BODY_BYTES_MAX: usize = 3 << 20;
/// Bodies that are held at once: no client is authenticated yet, so no number of connections may take more memory.
pub const REQUEST_BODIES_BYTES_MAX: usize = 512 << 20;
/// What is read beyond the limit and discarded: a client that is still sending does not see the answer otherwise.
const DISCARDED_BYTES_MAX: usize = 16 << 20;

/// A body, and its permit for memory.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    pub(crate) permit: Option<OwnedSemaphorePermit>,
}

/// What one body may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Its size.
    pub(crate) bytes: usize,
    /// The time until its end.
    pub(crate) patience: Duration,
}

/// Why a body was not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// With the limit in bytes, and the size if the client declared it.
    TooLarge(usize, Option<u64>),
    /// It did not end within this time.
    TooSlow(Duration),
    NoMemory,
    Broken(String),
}

/// Reads a body to its end; `left` is what all bodies may still take, in bytes.
pub(crate) async fn read<B>(body: B, left: &Arc<Semaphore>, limits: Limits) -> Result<Held, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    timeout(limits.patience, Reading::new(left, limits.bytes).run(body))
        .await
        .unwrap_or(Err(Refusal::TooSlow(limits.patience)))
}

struct Reading<'a> {
    left: &'a Arc<Semaphore>,
    bytes_max: usize,
    bytes: BytesMut,
    permit: Option<OwnedSemaphorePermit>,
    discarded: usize,
    too_large: bool,
}

impl<'a> Reading<'a> {
    fn new(left: &'a Arc<Semaphore>, bytes_max: usize) -> Self {
        Self {
            left,
            bytes_max,
            bytes: BytesMut::new(),
            permit: None,
            discarded: 0,
            too_large: false,
        }
    }

    async fn run<B>(mut self, mut body: B) -> Result<Held, Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::fmt::Display,
    {
        let declared = Pin::new(&mut body).size_hint().exact();
        self.too_large = declared.is_some_and(|size| size > self.bytes_max as u64);
        let bytes_max = self.bytes_max;
        let refuse = || Err(Refusal::TooLarge(bytes_max, declared));
        while let Some(frame) = body.frame().await {
            let frame = match frame {
                Ok(frame) => frame,
                Err(_) if self.too_large => return refuse(),
                Err(error) => return Err(Refusal::Broken(error.to_string())),
            };
            let Ok(data) = frame.into_data() else { continue };
            self.too_large |= self.bytes.len() + data.len() > self.bytes_max;
            if self.too_large {
                self.bytes = BytesMut::new();
                self.permit = None;
                self.discarded += data.len();
                if self.discarded > DISCARDED_BYTES_MAX {
                    return refuse();
                }
            } else {
                self.append(&data)?;
            }
        }
        if self.too_large {
            return refuse();
        }
        Ok(Held {
            bytes: self.bytes.freeze(),
            permit: self.permit,
        })
    }

    fn append(&mut self, data: &Bytes) -> Result<(), Refusal> {
        let size = u32::try_from(data.len()).map_err(|_| Refusal::NoMemory)?;
        let permit = self.left.clone().try_acquire_many_owned(size);
        let permit = permit.map_err(|_| Refusal::NoMemory)?;
        match &mut self.permit {
            Some(held) => held.merge(permit),
            none => *none = Some(permit),
        }
        self.bytes.extend_from_slice(data);
        Ok(())
    }
}

impl Refusal {
    /// The answer: a `Status` in JSON, which all clients of Kubernetes read, whatever else they accept. Texts and codes
    /// are those of kubernetes/kubernetes v1.35 staging/src/k8s.io/apimachinery/pkg/api/errors/errors.go.
    pub(crate) fn response(&self) -> Response<ResponseBody> {
        let (code, reason, message) = match self {
            Self::TooLarge(limit, size) => {
                let size = size.map(|size| format!(", the request has {size}")).unwrap_or_default();
                (
                    StatusCode::PAYLOAD_TOO_LARGE,
                    "RequestEntityTooLarge",
                    format!("Request entity too large: limit is {limit}{size}"),
                )
            }
            Self::TooSlow(patience) => (
                StatusCode::GATEWAY_TIMEOUT,
                "Timeout",
                format!(
                    "Timeout: the request's body did not end within {} s",
                    patience.as_secs()
                ),
            ),
            Self::NoMemory => (
                StatusCode::TOO_MANY_REQUESTS,
                "TooManyRequests",
                format!(
                    "the bodies of all requests under way have {REQUEST_BODIES_BYTES_MAX} bytes, please try again later"
                ),
            ),
            Self::Broken(why) => (
                StatusCode::BAD_REQUEST,
                "BadRequest",
                format!("the request's body could not be read: {why}"),
            ),
        };
        let mut status = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "code": code.as_u16(),
        });
        if *self == Self::NoMemory {
            status["details"] = json!({"retryAfterSeconds": 1});
        }
        let mut response = Response::new(full_body(status.to_string()));
        *response.status_mut() = code;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        if *self == Self::NoMemory {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::StreamExt;
    use futures::stream;
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);
    const LIMITS: Limits = Limits {
        bytes: REQUEST_BODY_BYTES_MAX,
        patience: PATIENCE,
    };

    /// A body without a declared size, of `count` times 64 KiB; then nothing, or nothing ever again.
    fn body(count: usize, ends: bool) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let chunks = stream::iter(0..count).map(|_| Ok(Frame::data(Bytes::from(vec![b'x'; 64 << 10]))));
        let rest = if ends {
            stream::empty().boxed()
        } else {
            stream::pending().boxed()
        };
        StreamBody::new(chunks.chain(rest))
    }

    fn budget(bytes: usize) -> Arc<Semaphore> {
        Arc::new(Semaphore::new(bytes))
    }

    #[tokio::test]
    async fn a_body_within_the_limit_is_accepted_and_counts_until_dropped() {
        let left = budget(REQUEST_BODY_BYTES_MAX);
        let held = read(body(48, true), &left, LIMITS).await.unwrap();
        assert_eq!(
            (held.bytes.len(), left.available_permits()),
            (REQUEST_BODY_BYTES_MAX, 0)
        );
        assert_eq!(read(body(1, true), &left, LIMITS).await.unwrap_err(), Refusal::NoMemory);
        drop(held);
        assert_eq!(left.available_permits(), REQUEST_BODY_BYTES_MAX);
        assert_eq!(
            read(body(49, true), &left, LIMITS).await.unwrap_err(),
            Refusal::TooLarge(REQUEST_BODY_BYTES_MAX, None)
        );
        assert_eq!(left.available_permits(), REQUEST_BODY_BYTES_MAX);
        let larger = Limits {
            bytes: REQUEST_BODY_BYTES_MAX + (64 << 10),
            ..LIMITS
        };
        let left = budget(REQUEST_BODIES_BYTES_MAX);
        assert!(read(body(49, true), &left, larger).await.is_ok());
        assert_eq!(
            read(body(50, true), &left, larger).await.unwrap_err(),
            Refusal::TooLarge(larger.bytes, None)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn body_that_stops_or_never_ends_is_refused() {
        let left = budget(REQUEST_BODIES_BYTES_MAX);
        assert_eq!(
            read(body(3, false), &left, LIMITS).await.unwrap_err(),
            Refusal::TooSlow(PATIENCE)
        );
        assert_eq!(left.available_permits(), REQUEST_BODIES_BYTES_MAX);
        assert_eq!(
            read(body(1000, false), &left, LIMITS).await.unwrap_err(),
            Refusal::TooLarge(REQUEST_BODY_BYTES_MAX, None)
        );
        assert_eq!(left.available_permits(), REQUEST_BODIES_BYTES_MAX);
    }
}
