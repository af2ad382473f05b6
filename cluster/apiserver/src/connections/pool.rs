//! HTTP/1.1 connections to one server: opened, idle between two requests, and closed when they have been idle for a while,
//! whether or not another request comes. What is sent over them is their user's business.

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use base_client::Connection;
use bytes::Bytes;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep_until, timeout};

use crate::connections::tls::broken;

/// Idle connections to one server that are retained, as kube-apiserver's clients do (client-go v0.35 `transport/cache.go`).
const IDLE_MAX: usize = 25;
/// How long an idle connection is retained, as in Go's client.
const IDLE_TIMEOUT: Duration = Duration::from_secs(90);

/// How long a connection may take to be ready. One that its server has answered early may still send the body of that request.
const READY_MAX: Duration = Duration::from_millis(50);

/// The idle connections to one server.
pub(crate) struct Pool<B>(Arc<Mutex<Idle<B>>>);

struct Idle<B> {
    /// With the time since which each is idle: the longest first.
    connections: Vec<(SendRequest<B>, Instant)>,
    /// Whether a task waits to close them.
    is_timed: bool,
}

impl<B> Default for Pool<B> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Idle {
            connections: Vec::new(),
            is_timed: false,
        })))
    }
}

impl<B: Send + 'static> Pool<B> {
    /// A connection that was idle. It may be closed by its server before a request has been sent.
    pub(crate) async fn ready(&self) -> Option<SendRequest<B>> {
        while let Some(mut connection) = self.take() {
            if let Ok(Ok(())) = timeout(READY_MAX, connection.ready()).await {
                return Some(connection);
            }
        }
        None
    }

    fn take(&self) -> Option<SendRequest<B>> {
        let mut idle = lock(&self.0);
        idle.close_old();
        idle.connections.pop().map(|(connection, _)| connection)
    }

    /// Retains a connection whose last answer has been read.
    pub(crate) fn put_back(&self, connection: SendRequest<B>) {
        // Without a runtime no request follows.
        let Ok(runtime) = Handle::try_current() else { return };
        let mut idle = lock(&self.0);
        idle.close_old();
        if connection.is_closed() || idle.connections.len() >= IDLE_MAX {
            return;
        }
        idle.connections.push((connection, Instant::now()));
        if !std::mem::replace(&mut idle.is_timed, true) {
            runtime.spawn(close_in_time(Arc::downgrade(&self.0)));
        }
    }
}

impl<B> Idle<B> {
    fn close_old(&mut self) {
        self.connections
            .retain(|(connection, since)| !connection.is_closed() && since.elapsed() < IDLE_TIMEOUT);
    }

    /// Closes those that have been idle for long enough. Returns when that is so for the next one.
    fn next_end(&mut self) -> Option<Instant> {
        self.close_old();
        let next = self.connections.first().map(|(_, since)| *since + IDLE_TIMEOUT);
        self.is_timed = next.is_some();
        next
    }
}

/// Closes connections when their time is up, until none is idle or the pool is gone.
async fn close_in_time<B>(idle: Weak<Mutex<Idle<B>>>) {
    while let Some(next) = idle.upgrade().and_then(|idle| lock(&idle).next_end()) {
        sleep_until(next).await;
    }
}

fn lock<B>(idle: &Mutex<Idle<B>>) -> MutexGuard<'_, Idle<B>> {
    idle.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Speaks HTTP over a new connection. Errors: why that is not possible.
pub(crate) async fn open<B>(stream: Connection) -> Result<SendRequest<B>, String>
where
    B: Body<Data: Send, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static,
{
    let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| broken(&error))?;
    // It ends with its sender or the other side; what breaks it is seen by the request that needs it.
    tokio::spawn(connection);
    Ok(sender)
}

/// All of an answer. Errors: it is incomplete, or has more bytes.
pub(crate) async fn read(body: Incoming, bytes_max: usize) -> Result<Bytes, String> {
    let body = Limited::new(body, bytes_max).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() {
            return format!("the answer has more than {bytes_max} bytes");
        }
        error.downcast_ref().map_or_else(|| error.to_string(), broken)
    })?;
    Ok(body.to_bytes())
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures::stream::pending;
    use http::Request;
    use http_body_util::{Full, StreamBody};
    use hyper::body::Frame;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::join;
    use tokio::time::sleep;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn idle_connections_are_closed_in_time_though_no_request_follows() {
        let pool = Pool::<Full<Bytes>>::default();
        let begun = Instant::now();
        let mut servers = Vec::new();
        for _ in 0..2 {
            let (client, server) = duplex(64);
            pool.put_back(open(Box::new(client)).await.unwrap());
            servers.push(server);
            sleep(Duration::from_secs(30)).await;
        }
        for (server, closed) in servers
            .iter_mut()
            .zip([IDLE_TIMEOUT, IDLE_TIMEOUT + Duration::from_secs(30)])
        {
            assert_eq!(server.read(&mut [0; 8]).await.unwrap(), 0);
            assert_eq!(begun.elapsed().as_secs(), closed.as_secs());
        }
        assert!(pool.take().is_none());

        let (client, mut server) = duplex(64);
        pool.put_back(open(Box::new(client)).await.unwrap());
        assert_eq!(
            server.read(&mut [0; 8]).await.unwrap(),
            0,
            "the time of later ones is up too"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_still_sends_a_body_is_not_waited_for() {
        let (client, mut server) = duplex(1024);
        let mut connection = open(Box::new(client)).await.unwrap();
        let upload = StreamBody::new(pending::<Result<Frame<Bytes>, Infallible>>());
        let request = Request::put("/").body(upload).unwrap();
        let early = async {
            assert!(server.read(&mut [0; 1024]).await.unwrap() > 0);
            let answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n";
            server.write_all(answer).await.unwrap();
        };
        let (answer, ()) = join!(connection.send_request(request), early);
        read(answer.unwrap().into_body(), 8).await.unwrap();
        let pool = Pool::default();
        pool.put_back(connection);
        let begun = Instant::now();
        assert!(pool.ready().await.is_none());
        assert!(begun.elapsed() < Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_used_again_stays_open() {
        let pool = Pool::<Full<Bytes>>::default();
        let (client, _server) = duplex(64);
        pool.put_back(open(Box::new(client)).await.unwrap());
        for _ in 0..3 {
            sleep(Duration::from_secs(60)).await;
            let connection = pool.ready().await.expect("idle for less than its time");
            pool.put_back(connection);
        }
    }
}
