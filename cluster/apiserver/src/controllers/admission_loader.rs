//! Loads the admission configuration that is stored when a server starts.

use std::num::NonZeroUsize;

use cluster_store::{Page, Range};

use crate::state::server_state::ServerState;
use crate::storage::errors::store_status;
use crate::storage::resource_names::{ADMISSION, ADMISSION_CONFIGURATION, QUOTAS};
use crate::wire::status::Status;

/// Applies all stored webhooks and policies, and notes whether there is a quota.
pub(crate) async fn load(server: &ServerState) -> Result<(), Status> {
    for resource in ADMISSION_CONFIGURATION {
        let range = Range::all(format!("{ADMISSION}/{resource}"));
        let listing = server.store.list(&range, Page::default()).await.map_err(store_status)?;
        for entry in &listing.entries {
            server.admission.recompile(entry, false);
        }
    }
    let one = Page {
        limit: NonZeroUsize::new(1),
        ..Page::default()
    };
    let quotas = server
        .store
        .list(&Range::all(QUOTAS), one)
        .await
        .map_err(store_status)?;
    if !quotas.entries.is_empty() {
        server.admission.note_quota();
    }
    Ok(())
}
