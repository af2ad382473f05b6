//! The reconciler around actuators, against an API server in this process. Each test has a server of its own.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod again;
mod inventory;
mod landscape;
mod life;
mod limits;
mod managed;
mod observers;
mod restraint;
mod run;
mod script;
mod state;
mod watches;
