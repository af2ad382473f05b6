//! The kit against an extension that is written here by hand, with a switch for each rule that it breaks, and against a
//! server in this process. Each test has both for itself.
#![expect(clippy::unwrap_used, reason = "a test ends at what it did not expect")]

mod breaks;
mod cloud;
mod extension;
mod hook;
mod page;
mod passes;
mod seed;
