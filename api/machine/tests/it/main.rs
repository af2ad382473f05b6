//! The integration tests of `api-machine`: its committed generated files.

mod definitions;
