//! Go's text/template with Sprig's functions, and Helm's engine, as a program that answers tests.

use super::clients::folder;
use super::kubernetes::{Pins, build_ours};
use crate::Outcome;

/// `tests/gotemplate` looks for the program here, below the cache folder.
const FOLDER: &str = "real/gotemplate";
const PROGRAM: &str = "oracle";

const ORACLE: Pins = Pins {
    folder: "../../tests/gotemplate/oracle",
    go_mod: include_str!("../../../../tests/gotemplate/oracle/go.mod"),
    go_sum: include_str!("../../../../tests/gotemplate/oracle/go.sum"),
    module: "helm.sh/helm/v4",
    stamped: &[],
};

/// Builds it.
pub(super) fn prepare() -> Outcome {
    build_ours(&ORACLE, &folder(FOLDER)?.join(PROGRAM))?;
    println!("{PROGRAM} of templates: Helm {}", ORACLE.version()?);
    Ok(())
}
