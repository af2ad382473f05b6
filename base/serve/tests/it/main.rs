//! The HTTPS port on loopback, with real connections.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod client;
mod ends;
mod limits;
mod replaced;
