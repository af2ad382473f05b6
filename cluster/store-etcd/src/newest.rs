//! Etcd's newest revision, requested once for all callers that wait for it at the same time. An answer is never older than
//! the call: a caller that comes while a request is under way waits for the next one.

use std::sync::Arc;

use cluster_store::{Revision, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::client::Client;
use crate::hub::cheapest_read;
use crate::repeater::unavailable;
use crate::wire::revision_of;

type Answer = oneshot::Sender<Result<Revision, StoreError>>;

/// For callers that need the newest revision.
#[derive(Clone)]
pub(crate) struct Newest {
    calls: mpsc::UnboundedSender<Answer>,
}

impl Newest {
    /// The callers' side, and the task that answers them.
    pub(crate) fn new(client: Arc<Client>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (calls, waiting) = mpsc::unbounded_channel();
        (Newest { calls }, answer(client, waiting))
    }

    /// The newest revision of etcd.
    pub(crate) async fn revision(&self) -> Result<Revision, StoreError> {
        let closed = || StoreError::Unavailable("the store was closed".to_owned());
        let (answer, answered) = oneshot::channel();
        self.calls.send(answer).map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn answer(client: Arc<Client>, mut waiting: mpsc::UnboundedReceiver<Answer>) {
    while let Some(first) = waiting.recv().await {
        let mut callers = vec![first];
        while let Ok(next) = waiting.try_recv() {
            callers.push(next);
        }
        let newest = client.range(cheapest_read()).await;
        let newest = newest
            .map(|answer| Revision(revision_of(answer.header.as_ref())))
            .map_err(unavailable);
        for answer in callers {
            // The caller may have gone away.
            let _ = answer.send(newest.clone());
        }
    }
}
