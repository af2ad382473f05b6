//! The integration tests of `api-machine`: its committed generated files.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use api_machine::crds;

const GROUP: &str = "machine.sapcloud.io";

#[path = "../../../meta/tests/shared/definitions.rs"]
mod definitions;
