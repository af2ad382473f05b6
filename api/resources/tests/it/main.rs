//! The integration tests of `api-resources`: its committed generated files.

mod definitions;
