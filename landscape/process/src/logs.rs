//! Logs by configuration.

use api_config::{LogFormat, LogLevel, Process};
use api_meta::Fault;

/// Sets up the logs of this process.
///
/// # Errors
/// They are set up already, which is a bug.
pub(crate) fn init(process: &Process) -> Result<(), Fault> {
    let level = match process.log_level {
        LogLevel::Debug => base_process::LogLevel::Debug,
        LogLevel::Info => base_process::LogLevel::Info,
        LogLevel::Error => base_process::LogLevel::Error,
    };
    let format = match process.log_format {
        LogFormat::Json => base_telemetry::LogFormat::Json,
        LogFormat::Text => base_telemetry::LogFormat::Text,
    };
    base_process::init_logs(level, format)
}
