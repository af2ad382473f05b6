//! The extension `moon` as a program. What it does stands in the files of its kinds.

mod worker;

use std::{process::ExitCode, sync::Arc};

use api_extensions::Worker;
use extensions_sdk::{About, Registration, run};

/// Type of the objects that are its own.
const TYPE: &str = "moon";

#[tokio::main]
async fn main() -> ExitCode {
    run(About::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")), |setup| {
        Ok(setup
            .extension()
            .actuator::<Worker>(Registration::of_type(TYPE), Arc::new(worker::Workers)))
    })
    .await
}
