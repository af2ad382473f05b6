//! A connection that stops being HTTP: a server takes it over after it has answered 101. The holder of the client's end puts
//! an [`Upgrade`] into the request's extensions. It reads and writes nothing itself.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::{fmt, io};

use futures::future::BoxFuture;
use http::header::{CONNECTION, HeaderMap};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::oneshot;

/// Bytes in both directions.
pub trait Wire: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Wire for T {}

/// A connection over any transport.
pub type Connection = Box<dyn Wire>;

/// Makes connections to one place that this process reaches otherwise than by address, such as a port of a pod whose program
/// has a network namespace of its own. Clones lead to the same place.
#[derive(Clone)]
pub struct Dialer(Arc<dyn Fn() -> BoxFuture<'static, io::Result<Connection>> + Send + Sync>);

impl Dialer {
    /// A dialer that calls `dial` for each connection.
    pub fn new(dial: impl Fn() -> BoxFuture<'static, io::Result<Connection>> + Send + Sync + 'static) -> Self {
        Dialer(Arc::new(dial))
    }

    /// A connection of its own. Errors: nothing listens there, or the place is gone.
    pub async fn connect(&self) -> io::Result<Connection> {
        (self.0)().await
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// What a server gets with a request that may change its protocol: the connection, once 101 has been answered. Clones share it;
/// the first call of [`Upgrade::accepted`] gets it.
#[derive(Clone)]
pub struct Upgrade {
    given: Arc<Mutex<Option<oneshot::Receiver<Connection>>>>,
    /// Dropped with the connection.
    held: Vec<Arc<dyn Send + Sync>>,
}

impl Upgrade {
    /// A new one, and where the connection is to be put.
    pub fn offer() -> (oneshot::Sender<Connection>, Self) {
        let (give, given) = oneshot::channel();
        let given = Arc::new(Mutex::new(Some(given)));
        (
            give,
            Self {
                given,
                held: Vec::new(),
            },
        )
    }

    /// The same; the connection holds `keep` until it is dropped.
    #[must_use]
    pub fn holding(mut self, keep: impl Send + Sync + 'static) -> Self {
        self.held.push(Arc::new(keep));
        self
    }

    /// The connection. `None`: it is gone, or another caller has it.
    pub async fn accepted(&self) -> Option<Connection> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let connection = given.await.ok()?;
        if self.held.is_empty() {
            return Some(connection);
        }
        let _held = self.held.clone();
        Some(Box::new(Holding { connection, _held }))
    }
}

/// A connection with what is dropped when it ends.
struct Holding {
    connection: Connection,
    _held: Vec<Arc<dyn Send + Sync>>,
}

impl AsyncRead for Holding {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_read(context, into)
    }
}

impl AsyncWrite for Holding {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.connection).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}

/// Whether a request asks for another protocol on its connection
/// (kubernetes/kubernetes v1.35 staging/src/k8s.io/streaming/pkg/httpstream/httpstream.go, IsUpgradeRequest).
pub fn requests_upgrade(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(CONNECTION).iter();
    all.any(|value| {
        value
            .as_bytes()
            .to_ascii_lowercase()
            .windows(7)
            .any(|part| part == b"upgrade")
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn upgraded_connection_is_given_out_once() {
        let (give, upgrade) = Upgrade::offer();
        let (one, _other) = tokio::io::duplex(8);
        assert!(give.send(Box::new(one)).is_ok());
        assert!(upgrade.clone().accepted().await.is_some());
        assert!(upgrade.accepted().await.is_none());
        let (give, upgrade) = Upgrade::offer();
        drop(give);
        assert!(upgrade.accepted().await.is_none());
    }

    #[test]
    fn upgrade_is_requested_by_the_connection_header_alone() {
        let of = |name: &'static str, value| {
            let mut headers = HeaderMap::new();
            headers.insert(name, HeaderValue::from_static(value));
            requests_upgrade(&headers)
        };
        assert!(of("connection", "keep-alive, Upgrade"));
        assert!(!of("connection", "keep-alive"));
        assert!(!of("upgrade", "websocket"));
    }
}
