//! The integration tests of `api-extensions`: its committed generated files, and its table of kinds beside them.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use api_extensions::crds;

const GROUP: &str = "extensions.gardener.cloud";

#[path = "../../../meta/tests/shared/definitions.rs"]
mod definitions;
mod table;
