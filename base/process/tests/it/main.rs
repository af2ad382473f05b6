//! Processes around an API server in this process.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod elections;
mod restarts;
