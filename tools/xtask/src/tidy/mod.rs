//! What the compiler does not check: layers of crates and of modules, names of packages and tests, headers, sizes, banned words, doc
//! tests. Reads files, never changes code.

mod bans;
mod doc_tests;
mod layers;
mod modules;
mod sizes;
mod test_names;

use std::path::{Path, PathBuf};

use cargo_metadata::{Metadata, MetadataCommand, Package};

use crate::Outcome;
use crate::process::output;

/// One thing to fix: where, and what.
pub(crate) struct Finding {
    place: String,
    text: String,
}

impl Finding {
    fn new(place: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            text: text.into(),
        }
    }
}

/// A source file below the root, read once for all checks.
pub(crate) struct Source {
    /// Relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn run(update_ratchet: bool) -> Outcome {
    let metadata = MetadataCommand::new()
        .no_deps()
        .exec()
        .map_err(|error| format!("cargo metadata failed: {error}"))?;
    let root = PathBuf::from(metadata.workspace_root.as_std_path());
    let sources = sources(&root)?;
    let mut findings = layers::check(&root, &metadata);
    findings.extend(
        sources
            .iter()
            .filter(|source| source.path.ends_with(".rs"))
            .flat_map(header),
    );
    findings.extend(bans::check(&sources));
    findings.extend(test_names::check(&sources));
    findings.extend(modules::check(&root, &metadata, &sources));
    findings.extend(doc_tests::check(&root, &metadata, &sources));
    findings.extend(sizes::check(&root, &sources, update_ratchet)?);
    if findings.is_empty() {
        println!(
            "tidy: {} crates, {} files, nothing to fix",
            crates(&metadata),
            sources.len()
        );
        return Ok(());
    }
    for finding in &findings {
        println!("{}: {}", finding.place, finding.text);
    }
    Err(format!("tidy found {} thing(s) to fix", findings.len()))
}

fn crates(metadata: &Metadata) -> usize {
    metadata.workspace_packages().len()
}

/// Where a package lies, relative to the root.
fn folder_of(root: &Path, package: &Package) -> String {
    let folder = package.manifest_path.parent();
    let folder = folder.map(|path| path.as_std_path().strip_prefix(root).unwrap_or(path.as_std_path()));
    folder
        .map(|path| path.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// The files git tracks or would track.
pub(crate) fn sources(root: &Path) -> Outcome<Vec<Source>> {
    let listed = output(std::process::Command::new("git").current_dir(root).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))?;
    Ok(listed
        .lines()
        .filter_map(|path| {
            // Binary tables and files that a commit is about to remove are no text to check.
            let text = std::fs::read_to_string(root.join(path)).ok()?;
            Some(Source {
                path: path.to_owned(),
                text,
            })
        })
        .collect())
}

fn header(source: &Source) -> Option<Finding> {
    let first = source.text.lines().find(|line| !line.trim().is_empty()).unwrap_or("");
    (!first.starts_with("//!")).then(|| {
        Finding::new(
            &source.path,
            "must open with `//!`: what the file is for and what it never does",
        )
    })
}
