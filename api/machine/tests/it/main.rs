//! The integration tests of `api-machine`: its committed generated files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod definitions;
