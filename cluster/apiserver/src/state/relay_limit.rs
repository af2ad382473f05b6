//! How many requests a server carries to others at once. It carries none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::status::Status;

/// Requests that are carried on at once, the connections among them that have become something else: as many as a listener
/// takes connections at all would let one sort of request take everything.
const CARRIED_MAX: usize = 1024;

/// When a client that was refused is to come again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// How many more requests may be carried on.
pub(crate) struct Carried(Arc<Semaphore>);

impl Default for Carried {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(CARRIED_MAX)))
    }
}

impl Carried {
    /// The right to carry one, held until its answer has ended.
    ///
    /// # Errors
    /// 429: too many are under way.
    pub(crate) fn one_more(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = self.0.clone().try_acquire_owned();
        permit.map_err(|_| {
            Status::too_many_requests(
                format!("{CARRIED_MAX} requests are carried on already, please try again later"),
                RETRY_AFTER_SECONDS,
            )
        })
    }
}
