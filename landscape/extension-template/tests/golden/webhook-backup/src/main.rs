//! The extension `moon` as a program. What it does stands in the files of its kinds.

mod backup_bucket;
mod backup_entry;
mod webhook;

use std::{process::ExitCode, sync::Arc};

use api_extensions::{BackupBucket, BackupEntry};
use extensions_sdk::{About, Registration, run_with};

/// Type of the objects that are its own.
const TYPE: &str = "moon";

#[tokio::main]
async fn main() -> ExitCode {
    let about = About::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION"));
    run_with(about, |setup, flags| {
        webhook::serve(setup, &flags)?;
        Ok(setup
            .extension()
            .actuator::<BackupBucket>(Registration::of_type(TYPE), Arc::new(backup_bucket::BackupBuckets))
            .actuator::<BackupEntry>(Registration::of_type(TYPE), Arc::new(backup_entry::BackupEntries)))
    })
    .await
}
