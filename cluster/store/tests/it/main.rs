//! Every backend of the store passes the same suite.

#![expect(clippy::unwrap_used, clippy::panic, reason = "in these files everything is a test")]

mod bounds;
mod compaction;
mod damage;
mod file;
mod memory;
mod model;
mod race;
mod suite;

#[tokio::test(start_paused = true)]
async fn memory_store_passes_the_suite() {
    suite::run(&memory::Memory).await;
}

#[tokio::test(start_paused = true)]
async fn store_behind_an_uncut_link_passes_the_suite() {
    suite::run(&memory::Linked).await;
}

#[tokio::test(start_paused = true)]
async fn file_store_passes_the_suite() {
    suite::run(&file::Files::in_memory()).await;
}
