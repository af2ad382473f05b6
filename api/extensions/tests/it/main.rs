//! The integration tests of `api-extensions`: its committed generated files.

mod definitions;
