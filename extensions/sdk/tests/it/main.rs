//! The reconciler around actuators, against an API server in this process. Each test has a server of its own.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod landscape;
mod life;
mod observers;
mod restraint;
