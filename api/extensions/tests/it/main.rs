//! The integration tests of `api-extensions`: its committed generated files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod definitions;
