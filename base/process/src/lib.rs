//! What surrounds the work of a process, whatever it works on: leader election by a Lease, health, metrics, logs, and the
//! end. It reads no flag and no configuration file, and decides nothing about objects: [`Settings`] are values.

mod api_requests;
mod elected;
mod logs;
mod settings;

pub use api_requests::ApiRequests;
pub use elected::{Elected, Readiness, STOP_PATIENCE};
pub use logs::{LogLevel, init_logs};
pub use settings::{Election, Port, Settings};
