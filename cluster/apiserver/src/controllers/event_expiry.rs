//! Deletes Events an hour after they were last seen: new ones keep coming, and no other controller deletes them.
//! (kubernetes/kubernetes v1.35 pkg/controlplane/apiserver/options, `--event-ttl`)

use std::sync::{Arc, Weak};
use std::time::Duration;

use cluster_store::{Object, Page, Range, Store, StoreError};
use jiff::Timestamp;
use serde::Deserialize;

use crate::state::server_state::ServerState;

/// How long an Event is retained: upstream's default of `--event-ttl`.
const AGE_MAX: Duration = Duration::from_secs(3600);
/// The shortest pause between two sweeps, so that a stream of Events does not cause a sweep for each.
const PAUSE_MIN: Duration = Duration::from_secs(300);
/// How many Events one sweep deletes: watches must get these deletions before the history is full of them.
const SWEPT_AT_ONCE_MAX: usize = 500;
/// The pause before the rest is swept: hundreds of thousands of Events are deleted within minutes, with time for other work
/// in between.
const PAUSE_BETWEEN: Duration = Duration::from_secs(1);

/// Begins to sweep, until the server stops or is gone.
pub(crate) fn start(server: &Arc<ServerState>) {
    let (stop, tasks) = (server.stop.clone(), server.tasks.clone());
    let server = Arc::downgrade(server);
    tasks.spawn(async move { stop.run_until_cancelled(sweep_again(server)).await });
}

async fn sweep_again(server: Weak<ServerState>) {
    while let Some(pause) = sweep_once(&server).await {
        tokio::time::sleep(pause).await;
    }
}

/// Sweeps, and returns the pause before the next sweep; none when the server is gone.
async fn sweep_once(server: &Weak<ServerState>) -> Option<Duration> {
    let server = server.upgrade()?;
    let pause = sweep(&server).await.unwrap_or_else(|error| {
        tracing::debug!(server = %server.name, %error, "old Events stay for now");
        PAUSE_MIN
    });
    Some(pause)
}

/// Deletes old Events; returns the pause before the next sweep. Those in the main store from a time when Events had no
/// store of their own are no longer read, and expire like all others.
async fn sweep(server: &ServerState) -> Result<Duration, StoreError> {
    let mut next = AGE_MAX;
    for store in server.store.with_former("events") {
        next = next.min(sweep_store(&**store, server.clock.now()).await?);
    }
    Ok(next)
}

async fn sweep_store(store: &dyn Store, now: Timestamp) -> Result<Duration, StoreError> {
    let events = store.list(&Range::all("events"), Page::default()).await?;
    let mut next = AGE_MAX;
    let mut swept = 0;
    for entry in events.entries {
        let Some(seen) = last_seen(&entry.object, now) else {
            continue;
        };
        let age = Duration::try_from(now.duration_since(seen)).unwrap_or(Duration::ZERO);
        match AGE_MAX.checked_sub(age).filter(|left| !left.is_zero()) {
            Some(left) => next = next.min(left),
            None if swept == SWEPT_AT_ONCE_MAX => return Ok(PAUSE_BETWEEN),
            None => {
                swept += 1;
                match store.delete(&entry.key, entry.revision).await {
                    // It is gone, or has just been seen again.
                    Ok(_) | Err(StoreError::Missing { .. } | StoreError::Conflict { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        // Reading thousands takes long too.
        tokio::task::consume_budget().await;
    }
    Ok(next.max(PAUSE_MIN))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Times {
    metadata: Created,
    event_time: Option<String>,
    first_timestamp: Option<String>,
    last_timestamp: Option<String>,
    series: Option<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Created {
    creation_timestamp: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<String>,
}

/// When the Event last happened, by its own times; those in the future are ignored.
fn last_seen(event: &Object, now: Timestamp) -> Option<Timestamp> {
    let times: Times = serde_json::from_slice(event.bytes()).ok()?;
    let given = [
        times.metadata.creation_timestamp,
        times.event_time,
        times.first_timestamp,
        times.last_timestamp,
        times.series.and_then(|series| series.last_observed_time),
    ];
    let given = given.into_iter().flatten().filter_map(|time| time.parse().ok());
    given.filter(|time| *time <= now).max()
}
