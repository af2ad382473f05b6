//! The registry that charts are pulled from in tests: distribution, which Debian ships as docker-registry, built from its pinned Go
//! module; and the Helm that pushes to it.

use super::clients::{self, folder};
use super::kubernetes::{Pins, Program, build};
use crate::Outcome;

/// Test code looks for the program here, below the cache folder.
const FOLDER: &str = "real/registry";

const REGISTRY: Program = Program {
    name: "registry",
    pins: &Pins {
        folder: "pins/registry",
        go_mod: include_str!("../../pins/registry/go.mod"),
        go_sum: include_str!("../../pins/registry/go.sum"),
        module: "github.com/distribution/distribution/v3",
        stamped: &[],
    },
    package: "github.com/distribution/distribution/v3/cmd/registry",
};

/// Builds what is missing or stale of both.
pub(super) fn prepare() -> Outcome {
    build(&REGISTRY, &folder(FOLDER)?)?;
    clients::helm()
}

#[cfg(test)]
mod tests {
    use super::REGISTRY;

    #[test]
    fn the_pins_name_the_version_of_the_registry() {
        assert_eq!(REGISTRY.pins.version().as_deref(), Ok("3.0.0"));
    }
}
