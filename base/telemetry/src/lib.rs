//! What a process reports about itself: logs to stderr, metrics as OpenMetrics text. Nothing here is global but the
//! log subscriber, as the `tracing` crate requires: [`Metrics`] is a value that is passed on.
//! It never logs secrets, because it is never given any.

mod logs;
mod metrics;

pub use logs::{LogError, LogFormat, init_logs, init_logs_to};
pub use metrics::{Metrics, OPENMETRICS_CONTENT_TYPE};
