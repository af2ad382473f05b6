//! Logs of a process by level and format.

use api_meta::Fault;
use base_telemetry::LogFormat;

/// What the client library logs about failed calls, which their caller logs too, and what its layers log about each call.
const QUIET: &str = "kube_runtime::watcher=off,kube_client::client::builder=off,rustls_platform_verifier=off,\
                     hyper=info,hyper_util=info,h2=info,tower=info,rustls=info";

/// What is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What is worth a line in an ordinary run.
    #[default]
    Info,
    /// Errors alone.
    Error,
}

impl LogLevel {
    fn filter(self) -> String {
        let level = match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error => "error",
        };
        format!("{level},{QUIET}")
    }
}

/// Sets up the logs of this process. `RUST_LOG`, where it is set, comes before `level`.
///
/// # Errors
/// A bug: they are set up already.
pub fn init_logs(level: LogLevel, format: LogFormat) -> Result<(), Fault> {
    base_telemetry::init_logs(format, &level.filter()).map_err(|error| Fault::bug(error.to_string()))
}
