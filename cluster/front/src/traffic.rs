//! Whether a connection has requests, and whether its client reads the answers. Answers are handed out in pieces: what the
//! client does not read is not copied into the buffers of the protocol, and is noticed. It ends nothing itself.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;

use base_client::{ResponseBody, Wire};
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;
use tokio_rustls::server::TlsStream;
use tower::BoxError;

use crate::timeouts::Timeouts;

/// What is handed to the protocol at once. It buffers one such piece per request beyond what its client lets it send.
const PIECE_BYTES_MAX: usize = 32 << 10;

/// What happens on one connection.
pub(crate) struct Traffic {
    begun: Instant,
    /// Requests whose answer has not been handed out to its end.
    open: AtomicUsize,
    /// When that became none.
    idle: Since,
    /// Answers of which the client has not read all.
    handed_out: Mutex<Vec<Weak<HandedOut>>>,
    /// The connection takes no bytes.
    stuck: Since,
    /// Nothing that is still to be sent is worth waiting for.
    given_up: AtomicBool,
}

/// An answer of which the client has not read all.
struct HandedOut {
    since: Since,
    /// Its end is known, so that the whole of it has one time; else each piece has.
    is_sized: bool,
}

/// When a state began, in milliseconds after the connection began, plus one; zero: it does not last.
#[derive(Default)]
struct Since(AtomicU64);

impl Since {
    fn begin(&self, now: u64) {
        // If it lasts already, its beginning stays.
        let _ = self
            .0
            .compare_exchange(0, now + 1, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    fn lasts(&self, now: u64) -> u64 {
        match self.0.load(Ordering::Relaxed) {
            0 => 0,
            begun => (now + 1).saturating_sub(begun),
        }
    }
}

impl Traffic {
    pub(crate) fn new() -> Arc<Self> {
        let traffic = Self {
            begun: Instant::now(),
            open: AtomicUsize::new(0),
            idle: Since::default(),
            handed_out: Mutex::default(),
            stuck: Since::default(),
            given_up: AtomicBool::new(false),
        };
        traffic.idle.begin(0);
        Arc::new(traffic)
    }

    /// A request that has come; it counts until its answer is handed out or given up.
    pub(crate) fn open(self: &Arc<Self>) -> Open {
        self.open.fetch_add(1, Ordering::Relaxed);
        self.idle.end();
        Open(self.clone())
    }

    /// How long there has been no request.
    pub(crate) fn idle(&self) -> Duration {
        match self.open.load(Ordering::Relaxed) {
            0 => Duration::from_millis(self.idle.lasts(self.now())),
            _ => Duration::ZERO,
        }
    }

    /// Whether the client has not read something for longer than it may.
    pub(crate) fn is_stalled(&self, timeouts: &Timeouts) -> bool {
        let now = self.now();
        let is_late = |since: &Since, time: Duration| Duration::from_millis(since.lasts(now)) > time;
        let (mut late, mut stuck_max) = (false, timeouts.answer);
        let mut handed_out = self.handed_out.lock().unwrap_or_else(PoisonError::into_inner);
        handed_out.retain(|answer| {
            let Some(answer) = answer.upgrade() else { return false };
            let time = if answer.is_sized {
                timeouts.answer
            } else {
                timeouts.stream
            };
            // A client that reads a log page by page may block the connection as long.
            stuck_max = stuck_max.max(time);
            late |= is_late(&answer.since, time);
            true
        });
        late || is_late(&self.stuck, stuck_max)
    }

    /// The connection is to end at once, whatever its client has not read.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// A request under way.
pub(crate) struct Open(Arc<Traffic>);

impl Drop for Open {
    fn drop(&mut self) {
        if self.0.open.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.idle.begin(self.0.now());
        }
    }
}

/// The body of an answer, in pieces.
pub(crate) struct Pieces {
    body: ResponseBody,
    /// What of the body's last frame is still to be handed out.
    rest: Bytes,
    handed_out: Option<Arc<HandedOut>>,
    is_sized: bool,
    open: Open,
}

impl Pieces {
    pub(crate) fn new(body: ResponseBody, open: Open) -> Self {
        Self {
            is_sized: body.size_hint().exact().is_some(),
            body,
            rest: Bytes::new(),
            handed_out: None,
            open,
        }
    }

    /// Something is about to be handed out.
    fn hand_out(&mut self) {
        if self.is_end_stream() {
            // The protocol buffers this piece, and drops the body.
            return;
        }
        let traffic = &self.open.0;
        let is_sized = self.is_sized;
        let handed_out = self.handed_out.get_or_insert_with(|| {
            let since = Since::default();
            let handed_out = Arc::new(HandedOut { since, is_sized });
            let mut all = traffic.handed_out.lock().unwrap_or_else(PoisonError::into_inner);
            if all.len() == all.capacity() {
                all.retain(|answer| answer.strong_count() > 0);
            }
            all.push(Arc::downgrade(&handed_out));
            handed_out
        });
        handed_out.since.begin(traffic.now());
    }
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Some(handed_out) = self.handed_out.as_ref().filter(|_| !self.is_sized) {
            handed_out.since.end();
        }
        if self.rest.is_empty() {
            match std::task::ready!(Pin::new(&mut self.body).poll_frame(cx)) {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => self.rest = data,
                    Err(frame) => return Poll::Ready(Some(Ok(frame))),
                },
                end => return Poll::Ready(end),
            }
        }
        let size = self.rest.len().min(PIECE_BYTES_MAX);
        let piece = self.rest.split_to(size);
        self.hand_out();
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = self.body.size_hint();
        let rest = self.rest.len() as u64;
        match hint.exact() {
            Some(size) => hint.set_exact(size + rest),
            None => hint.set_lower(hint.lower() + rest),
        }
        hint
    }
}

/// The encrypted connection itself.
pub(crate) struct Watched<S: Wire + 'static> {
    stream: TlsStream<S>,
    traffic: Arc<Traffic>,
}

impl<S: Wire + 'static> Watched<S> {
    pub(crate) fn new(stream: TlsStream<S>, traffic: Arc<Traffic>) -> Self {
        Self { stream, traffic }
    }

    fn note<T>(&self, outcome: Poll<T>) -> Poll<T> {
        match outcome {
            Poll::Pending => self.traffic.stuck.begin(self.traffic.now()),
            Poll::Ready(_) => self.traffic.stuck.end(),
        }
        outcome
    }
}

impl<S: Wire + 'static> Drop for Watched<S> {
    fn drop(&mut self) {
        if self.traffic.given_up.load(Ordering::Relaxed) {
            crate::serve::reset(self.stream.get_ref().0);
        }
    }
}

impl<S: Wire + 'static> AsyncRead for Watched<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: Wire + 'static> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.note(outcome)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.note(outcome)
    }
}
