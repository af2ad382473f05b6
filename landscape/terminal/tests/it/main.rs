//! The integration tests of `landscape-terminal`: what is shown of a scripted run.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod live;
