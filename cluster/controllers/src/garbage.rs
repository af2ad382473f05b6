//! Garbage collection: deletes objects whose owners are all gone, and carries out foreground deletion and orphaning.
//! It deletes nothing of which the API server does not confirm that the owner is gone.
//! After kubernetes v1.35 `pkg/controller/garbagecollector`.

mod act;
mod decide;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base_controller::Backoff;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::Context;
use act::act;
use decide::{GarbageAction, decide};

/// Items that failed, by when they are tried again.
#[derive(Default)]
struct Later {
    due: BTreeSet<(Instant, String)>,
    failures: BTreeMap<String, u32>,
}

pub(crate) async fn run(context: Context, stop: CancellationToken) {
    context.inventory.start();
    stop.run_until_cancelled(collect(context)).await;
}

async fn collect(context: Context) {
    let backoff = Backoff::default();
    let mut later = Later::default();
    let mut waiting = BTreeSet::new();
    loop {
        let mut todo: BTreeSet<String> = context.inventory.graph().take_dirty_items();
        // Items that waited for a kind to be listed are looked at whenever anything has changed.
        todo.append(&mut waiting);
        let now = Instant::now();
        while let Some((at, _)) = later.due.first()
            && *at <= now
        {
            todo.extend(later.due.pop_first().map(|(_, uid)| uid));
        }
        for uid in todo {
            let action = decide(&context.inventory.graph(), &uid);
            if action == GarbageAction::Wait {
                waiting.insert(uid);
                continue;
            }
            match act(&context, &uid, action).await {
                Ok(()) => drop(later.failures.remove(&uid)),
                Err(fault) => {
                    let failures = later.failures.entry(uid.clone()).or_default();
                    *failures = failures.saturating_add(1);
                    tracing::debug!(controller = "garbagecollector", uid, class = %fault.class, "{}", fault.chain());
                    later
                        .due
                        .insert((Instant::now() + backoff.delay(fault.class, *failures), uid));
                }
            }
        }
        let next = later.due.first().map(|(at, _)| *at);
        tokio::select! {
            biased;
            () = context.inventory.items_changed() => {}
            () = tokio::time::sleep_until(next.unwrap_or_else(|| Instant::now() + Duration::from_secs(1))), if next.is_some() => {}
        }
    }
}
