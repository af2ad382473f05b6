//! The cloud and the provider, put to the test.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]
#![expect(clippy::print_stdout, reason = "figures of a sweep, shown with --nocapture")]

mod cloud;
mod conformance;
mod control_plane;
mod crashes;
mod faults;
mod infrastructure;
mod programs;
mod story;
mod workers;
mod world;
