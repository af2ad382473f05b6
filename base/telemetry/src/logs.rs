//! Setting up logs, once per process, by its main function.

use std::io::{self, IsTerminal};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

/// How a log line looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For collectors: one JSON object per line.
    Json,
}

/// Why logs could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The filter is not one.
    #[error("log filter {filter:?} is invalid")]
    Filter {
        /// What was given.
        filter: String,
        /// Why not.
        source: tracing_subscriber::filter::ParseError,
    },
    /// Logs of this process are set up already.
    #[error("logs are set up already")]
    AlreadySet(#[source] TryInitError),
}

/// Off, whatever the filter: here the client library logs whole answers that it cannot decode, and so Secrets. The caller
/// logs what went wrong.
const NEVER: &str = "kube_client::client=off";

/// Sends logs of this process to stderr. `filter` is what `RUST_LOG` would hold (`info,base_controller=debug`);
/// the environment variable `RUST_LOG`, when set, comes before it.
pub fn init_logs(format: LogFormat, filter: &str) -> Result<(), LogError> {
    init_logs_to(format, filter, io::stderr)
}

/// The same with what `writer` makes for each line: for programs that draw on the terminal of stderr.
///
/// # Errors
/// As [`init_logs`].
pub fn init_logs_to<W: io::Write>(
    format: LogFormat,
    filter: &str,
    writer: impl Fn() -> W + Send + Sync + 'static,
) -> Result<(), LogError> {
    let invalid = |filter: &str| {
        let filter = filter.to_owned();
        |source| LogError::Filter { filter, source }
    };
    let filter = match EnvFilter::try_from_default_env() {
        Ok(from_environment) => from_environment,
        Err(_) => EnvFilter::try_new(filter).map_err(invalid(filter))?,
    };
    let filter = filter.add_directive(NEVER.parse().map_err(invalid(NEVER))?);
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        // Colours are for terminals: in a file or a pipe they are noise.
        .with_ansi(io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .with_writer(writer);
    match format {
        LogFormat::Text => lines.finish().try_init(),
        LogFormat::Json => lines.json().flatten_event(true).finish().try_init(),
    }
    .map_err(LogError::AlreadySet)
}
