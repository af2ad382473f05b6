//! A connection that is no HTTP any more: the server that answered 101 gets it. It still counts against the limit of
//! connections, and is cut as the others are. The protocol on it is not known here.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use base_client::{Connection, Upgrade};
use http::Request;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tokio_util::task::task_tracker::TaskTrackerToken;

use crate::cut::reset;
use crate::registry::Server;

/// The place of a connection among all of them, held until it ends, whatever it has become.
pub(crate) struct Place {
    /// Ends all connections of the port.
    pub(crate) stop: CancellationToken,
    pub(crate) _permit: OwnedSemaphorePermit,
    pub(crate) _open: TaskTrackerToken,
}

/// A connection that may be taken over.
pub(crate) struct Takeover {
    becomes: OnUpgrade,
    give: oneshot::Sender<Connection>,
    server: Arc<Server>,
    place: Arc<Place>,
}

/// The request, with the right to its connection if it requests an upgrade.
pub(crate) fn taken_over(
    mut request: Request<Incoming>,
    server: &Arc<Server>,
    place: &Arc<Place>,
) -> (Request<Incoming>, Option<Takeover>) {
    let takeover = request.extensions_mut().remove::<OnUpgrade>().map(|becomes| {
        let (give, upgrade) = Upgrade::offer();
        request.extensions_mut().insert(upgrade);
        Takeover {
            becomes,
            give,
            server: server.clone(),
            place: place.clone(),
        }
    });
    (request, takeover)
}

impl Takeover {
    /// Hands the connection over as soon as 101 is written.
    pub(crate) fn begin(self) {
        tokio::spawn(async move {
            let stop = self.place.stop.clone();
            let open = self.server.open.token();
            let Some(Ok(connection)) = stop.run_until_cancelled(self.becomes).await else {
                return;
            };
            // The receiver may be gone by now; then the connection ends here.
            let _ = self.give.send(Box::new(Taken {
                connection: TokioIo::new(connection),
                cuts: [self.server.cut.clone(), stop].map(|cut| Box::pin(cut.cancelled_owned())),
                _place: self.place,
                _open: open,
            }));
        });
    }
}

/// A connection that was taken over.
struct Taken {
    connection: TokioIo<hyper::upgrade::Upgraded>,
    cuts: [Pin<Box<WaitForCancellationFutureOwned>>; 2],
    _place: Arc<Place>,
    _open: TaskTrackerToken,
}

impl Taken {
    fn cut(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let cut = self.cuts.iter_mut().any(|cut| cut.as_mut().poll(context).is_ready());
        if cut { Err(reset()) } else { Ok(()) }
    }
}

impl AsyncRead for Taken {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        self.cut(context)?;
        Pin::new(&mut self.connection).poll_read(context, into)
    }
}

impl AsyncWrite for Taken {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.cut(context)?;
        Pin::new(&mut self.connection).poll_write(context, from)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut(context)?;
        Pin::new(&mut self.connection).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.cut(context)?;
        Pin::new(&mut self.connection).poll_shutdown(context)
    }
}
