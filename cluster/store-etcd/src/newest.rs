//! How far etcd has come, asked once for all who want to know it at the same time. An answer is never older than the
//! question: a caller that comes while a request is under way waits for the next one.

use std::sync::Arc;

use cluster_store::{Revision, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::client::Client;
use crate::hub::anything;
use crate::repeater::unavailable;
use crate::wire::revision_of;

type Answer = oneshot::Sender<Result<Revision, StoreError>>;

/// Where questions are put.
#[derive(Clone)]
pub(crate) struct Newest {
    questions: mpsc::UnboundedSender<Answer>,
}

impl Newest {
    /// The place for questions, and the work of answering them.
    pub(crate) fn new(client: Arc<Client>) -> (Self, impl Future<Output = ()> + Send + 'static) {
        let (questions, waiting) = mpsc::unbounded_channel();
        (Newest { questions }, answer(client, waiting))
    }

    /// The newest revision of etcd.
    pub(crate) async fn revision(&self) -> Result<Revision, StoreError> {
        let closed = || StoreError::Unavailable("the store was closed".to_owned());
        let (answer, answered) = oneshot::channel();
        self.questions.send(answer).map_err(|_| closed())?;
        answered.await.map_err(|_| closed())?
    }
}

async fn answer(client: Arc<Client>, mut waiting: mpsc::UnboundedReceiver<Answer>) {
    while let Some(first) = waiting.recv().await {
        let mut callers = vec![first];
        while let Ok(next) = waiting.try_recv() {
            callers.push(next);
        }
        let newest = client.range(anything()).await;
        let newest = newest
            .map(|answer| Revision(revision_of(answer.header.as_ref())))
            .map_err(unavailable);
        for answer in callers {
            // The caller may have gone away.
            let _ = answer.send(newest.clone());
        }
    }
}
