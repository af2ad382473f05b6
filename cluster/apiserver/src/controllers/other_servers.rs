//! Observes what other servers on the same store write that this one depends on: access rules, admission, definitions of custom
//! resources, APIServices, the first quota. One watch for each; after the end of a watch come a list and another watch.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cluster_store::{Entry, Key, Page, Range, StoreError};
use futures::StreamExt;

use crate::controllers::default_policy;
use crate::state::server_state::ServerState;
use crate::storage::resource_names;

/// The pause between the end of a watch and the next list, so that a store that is down gets few requests.
const PAUSE: Duration = Duration::from_millis(500);

/// Observes all of it until the server stops.
pub(crate) fn start(server: &Arc<ServerState>) {
    let rules = default_policy::RESOURCES.map(|resource| format!("{}/{resource}", resource_names::RBAC));
    let hooks =
        resource_names::ADMISSION_CONFIGURATION.map(|resource| format!("{}/{resource}", resource_names::ADMISSION));
    let single = [
        resource_names::DEFINITIONS,
        resource_names::QUOTAS,
        resource_names::API_SERVICES,
    ]
    .map(str::to_owned);
    for resource in rules.into_iter().chain(hooks).chain(single) {
        let server = server.clone();
        server.tasks.clone().spawn(async move {
            let stop = server.stop.clone();
            stop.run_until_cancelled(follow(&server, &Range::all(resource))).await;
        });
    }
}

async fn follow(server: &Arc<ServerState>, range: &Range) {
    let mut known = BTreeMap::new();
    loop {
        let Err(error) = follow_once(server, range, &mut known).await;
        tracing::debug!(server = %server.name, resource = %range.resource, %error, "a watch of the store ended");
        tokio::time::sleep(PAUSE).await;
    }
}

/// `known`: the objects that exist, so that deletions between two watches are observed as well.
async fn follow_once(
    server: &Arc<ServerState>,
    range: &Range,
    known: &mut BTreeMap<Key, Entry>,
) -> Result<std::convert::Infallible, StoreError> {
    let listing = server.store.list(range, Page::default()).await?;
    let mut gone = std::mem::take(known);
    for entry in listing.entries {
        gone.remove(&entry.key);
        server.observe_stored_write(&entry, false);
        known.insert(entry.key.clone(), entry);
    }
    for entry in gone.into_values() {
        let revision = listing.revision;
        server.observe_stored_write(&Entry { revision, ..entry }, true);
    }
    let mut changes = server.store.watch(range, listing.revision).await?;
    while let Some(change) = changes.next().await {
        let change = change?;
        server.observe_stored_write(&change.entry, change.is_delete());
        if change.is_delete() {
            known.remove(&change.entry.key);
        } else {
            known.insert(change.entry.key.clone(), change.entry.clone());
        }
    }
    Err(StoreError::Unavailable("the watch has ended".to_owned()))
}
