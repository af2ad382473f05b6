//! Helm's way with YAML, values and charts, as a program that answers tests.

use super::clients::folder;
use super::kubernetes::{Pins, build_ours};
use crate::Outcome;

/// `tests/helm` looks for the program here, below the cache folder.
const FOLDER: &str = "real/helm-oracle";
const PROGRAM: &str = "oracle";

const ORACLE: Pins = Pins {
    folder: "../../tests/helm/oracle",
    go_mod: include_str!("../../../../tests/helm/oracle/go.mod"),
    go_sum: include_str!("../../../../tests/helm/oracle/go.sum"),
    module: "helm.sh/helm/v4",
    stamped: &[],
};

/// Builds it.
pub(super) fn prepare() -> Outcome {
    build_ours(&ORACLE, &folder(FOLDER)?.join(PROGRAM))?;
    println!("{PROGRAM} of charts: Helm {}", ORACLE.version()?);
    Ok(())
}
