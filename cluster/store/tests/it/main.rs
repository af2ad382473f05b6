//! Every body of the store passes the same suite.

#![expect(clippy::unwrap_used, reason = "in these files everything is a test")]

mod bounds;
mod model;
mod suite;

use cluster_store::{Link, MemoryStore};
use std::sync::Arc;

#[tokio::test(start_paused = true)]
async fn memory_store_passes_the_suite() {
    suite::run(|| Arc::new(MemoryStore::new())).await;
}

#[tokio::test(start_paused = true)]
async fn store_behind_an_uncut_link_passes_the_suite() {
    suite::run(|| Arc::new(Link::new(Arc::new(MemoryStore::new())))).await;
}
