//! The integration tests of `api-resources`: its committed generated files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use api_resources::crds;

const GROUP: &str = "resources.gardener.cloud";

#[path = "../../../meta/tests/shared/definitions.rs"]
mod definitions;
