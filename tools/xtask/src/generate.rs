//! Rewrites the committed generated files. Each is made and guarded by a test of the crate it belongs to;
//! with `UPDATE_GOLDENS=1` that test writes instead of comparing, so there is one piece of code for both.

use crate::Outcome;
use crate::process::{call, cargo};

/// Crates whose tests named `generated_...` guard committed files.
const GUARDS: [&str; 10] = [
    "api-extensions",
    "api-resources",
    "api-machine",
    "cluster-apiserver",
    "control-plane-shoot-flow",
    "extensions-conformance",
    "landscape-extension-template",
    "landscape-process",
    "programs-orangery",
    "tools-xtask",
];

pub(crate) fn run() -> Outcome {
    for package in GUARDS {
        run_guard(package)?;
    }
    Ok(())
}

fn run_guard(package: &str) -> Outcome {
    call(
        cargo()
            .args(["test", "--quiet", "--package", package, "generated_"])
            .env("UPDATE_GOLDENS", "1"),
    )
}
