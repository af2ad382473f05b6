//! Helm, and Go's text/template with Sprig's functions, as programs that answer tests.

use super::clients::folder;
use super::kubernetes::{Pins, build_ours};
use crate::Outcome;

/// What each of them is called in its folder.
const PROGRAM: &str = "oracle";
const HELM: &str = "helm.sh/helm/v4";

/// Where tests look for the programs, below the cache folder, and what they are built from.
const ORACLES: [(&str, Pins); 2] = [
    (
        "real/gotemplate",
        Pins {
            folder: "../../tests/gotemplate/oracle",
            go_mod: include_str!("../../../../tests/gotemplate/oracle/go.mod"),
            go_sum: include_str!("../../../../tests/gotemplate/oracle/go.sum"),
            module: HELM,
            stamped: &[],
        },
    ),
    (
        "real/helm-oracle",
        Pins {
            folder: "../../tests/helm/oracle",
            go_mod: include_str!("../../../../tests/helm/oracle/go.mod"),
            go_sum: include_str!("../../../../tests/helm/oracle/go.sum"),
            module: HELM,
            stamped: &[],
        },
    ),
];

/// Builds them.
pub(super) fn prepare() -> Outcome {
    for (place, pins) in &ORACLES {
        build_ours(pins, &folder(place)?.join(PROGRAM))?;
        println!("{place}/{PROGRAM}: Helm {}", pins.version()?);
    }
    Ok(())
}
