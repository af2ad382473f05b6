//! How many requests a server relays to others at once. It relays none.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::wire::status::Status;

/// Requests that are relayed at once, upgraded connections among them. As many as a listener takes connections would let
/// one sort of request take all of them.
const RELAYED_MAX: usize = 1024;

/// After how long a refused client may try again.
const RETRY_AFTER_SECONDS: u32 = 1;

/// How many more requests may be relayed.
pub(crate) struct RelayLimit(Arc<Semaphore>);

impl Default for RelayLimit {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(RELAYED_MAX)))
    }
}

impl RelayLimit {
    /// The right to relay one, held until its answer has ended.
    ///
    /// # Errors
    /// 429: too many are under way.
    pub(crate) fn acquire(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = self.0.clone().try_acquire_owned();
        permit.map_err(|_| {
            Status::too_many_requests(
                format!("{RELAYED_MAX} requests are relayed already, please try again later"),
                RETRY_AFTER_SECONDS,
            )
        })
    }
}
