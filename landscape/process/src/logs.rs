//! Logs by configuration.

use api_config::{LogFormat, LogLevel, Process};
use api_meta::Fault;

/// The client library logs failed calls; the caller logs them too.
const QUIET: &str = "kube_runtime::watcher=off,kube_client::client::builder=off,rustls_platform_verifier=off,\
                     hyper=info,hyper_util=info,h2=info,tower=info,rustls=info";

/// Sets up the logs of this process.
///
/// # Errors
/// They are set up already, which is a bug.
pub(crate) fn init(process: &Process) -> Result<(), Fault> {
    let level = match process.log_level {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Error => "error",
    };
    let format = match process.log_format {
        LogFormat::Json => base_telemetry::LogFormat::Json,
        LogFormat::Text => base_telemetry::LogFormat::Text,
    };
    base_telemetry::init_logs(format, &format!("{level},{QUIET}")).map_err(|error| Fault::bug(error.to_string()))
}
