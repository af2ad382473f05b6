//! The extension `moon` as a program. What it does stands in the files of its kinds.

mod operating_system_config;

use std::{process::ExitCode, sync::Arc};

use api_extensions::OperatingSystemConfig;
use extensions_sdk::{About, Registration, run};

/// Type of the objects that are its own.
const TYPE: &str = "moon";

#[tokio::main]
async fn main() -> ExitCode {
    run(About::new(env!("CARGO_PKG_NAME"), env!("CARGO_PKG_VERSION")), |setup| {
        Ok(setup.extension().actuator::<OperatingSystemConfig>(
            Registration::of_type(TYPE),
            Arc::new(operating_system_config::OperatingSystemConfigs),
        ))
    })
    .await
}
