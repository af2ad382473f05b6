//! The integration tests of `landscape-local`: a landscape that is started again, cut off and stopped, in virtual time.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod after_restart;
mod capacity;
mod clock;
mod older_documents;
mod power;
mod stopping;
