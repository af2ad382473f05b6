//! Refuses a dependency whose licence does not go with Apache-2.0. Reads `cargo metadata` alone, so it needs no network.

use cargo_metadata::{CargoOpt, MetadataCommand};

use crate::Outcome;

/// Licences that may be linked into an Apache-2.0 program and shipped with a notice.
const ALLOWED: [&str; 14] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

pub(crate) fn run() -> Outcome {
    let metadata = MetadataCommand::new()
        .features(CargoOpt::AllFeatures)
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    let refused: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| !allowed(package.license.as_deref().unwrap_or("")))
        .map(|package| {
            format!(
                "{} {}: {}",
                package.name,
                package.version,
                package.license.as_deref().unwrap_or("no licence named")
            )
        })
        .collect();
    let from_git: Vec<String> = metadata
        .packages
        .iter()
        .filter(|package| {
            package
                .source
                .as_ref()
                .is_some_and(|source| source.repr.starts_with("git+"))
        })
        .map(|package| format!("{} comes from a git address; take it from the registry", package.name))
        .collect();
    let problems: Vec<String> = refused.into_iter().chain(from_git).collect();
    if problems.is_empty() {
        println!("licences: {} packages, all allowed", metadata.packages.len());
        return Ok(());
    }
    Err(format!(
        "licences that are not on the list in tools/xtask/src/licences.rs:\n  {}",
        problems.join("\n  ")
    ))
}

/// An SPDX expression passes when one side of each `OR` passes; old manifests write `/` for `OR`.
fn allowed(expression: &str) -> bool {
    let expression = expression.replace(['(', ')'], " ").replace('/', " OR ");
    expression
        .split(" AND ")
        .all(|all| all.split(" OR ").any(|one| ALLOWED.contains(&one.trim())))
}

#[cfg(test)]
mod tests {
    use super::allowed;

    #[test]
    fn one_allowed_alternative_is_enough_but_every_conjunct_is_needed() {
        assert!(allowed("MIT OR GPL-3.0"));
        assert!(allowed("Apache-2.0/MIT"));
        assert!(allowed("(MIT OR Apache-2.0) AND Unicode-3.0"));
        assert!(!allowed("MIT AND GPL-3.0"));
        assert!(!allowed(""));
    }
}
