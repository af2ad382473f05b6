//! The file store under `kill -9`: a process that writes to a folder is killed at random moments, over and over. What was
//! acknowledged is there afterwards, nothing is there that was never sent, and watches resume without a gap. Nothing here
//! knows how the store does it.

pub mod kill;
mod ledger;
pub mod writing;

use cluster_store::{FileError, FileOptions, FileStore};

/// What cannot be done, or went wrong, is a sentence for the person at the terminal.
pub type Outcome<T = ()> = Result<T, String>;

/// What is written to and watched.
pub(crate) const RESOURCES: [&str; 3] = ["coordination.k8s.io/leases", "nodes", "pods"];

/// Opens the folder as both the writing process and the one that checks do.
pub(crate) async fn open(folder: &std::path::Path) -> Result<FileStore, FileError> {
    let options = FileOptions {
        // Every process copies the file all the time, so that many die over that.
        compact_above_bytes: 0,
        ..FileOptions::default()
    };
    FileStore::open(folder, options).await
}
