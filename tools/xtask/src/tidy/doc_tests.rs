//! Libraries without doc tests set `doctest = false`: rustdoc reads each library that does not, which takes seconds for nothing.
//! Only the code blocks of doc comments are read.

use std::path::Path;

use cargo_metadata::{Metadata, Package, TargetKind};

use super::{Finding, Source, folder_of};

/// Languages of code blocks that rustdoc runs or compiles; without one it is Rust.
const RUST: [&str; 6] = ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"];

pub(super) fn check(root: &Path, metadata: &Metadata, sources: &[Source]) -> Vec<Finding> {
    let packages = metadata.workspace_packages();
    packages
        .into_iter()
        .filter_map(|package| finding(root, package, sources))
        .collect()
}

fn finding(root: &Path, package: &Package, sources: &[Source]) -> Option<Finding> {
    let library = (package.targets.iter()).find(|target| target.kind.contains(&TargetKind::Lib))?;
    let folder = folder_of(root, package);
    let code = format!("{folder}/src/");
    let mut own = sources.iter().filter(|source| source.path.starts_with(&code));
    let has = own.any(|source| has_doc_test(&source.text));
    let text = match (has, library.doctest) {
        (true, false) => "has code in doc comments that is never run: remove `doctest = false`",
        (false, true) => "has no doc test: say `doctest = false` below [lib]",
        _ => return None,
    };
    Some(Finding::new(format!("{folder}/Cargo.toml"), text))
}

/// Whether a doc comment has a block of Rust.
fn has_doc_test(text: &str) -> bool {
    let mut open = false;
    text.lines().any(|line| {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let Some(fence) = comment.and_then(|comment| comment.trim_start().strip_prefix("```")) else {
            return false;
        };
        open = !open;
        open && RUST.contains(&fence.split(',').next().unwrap_or("").trim())
    })
}

#[cfg(test)]
mod tests {
    use super::has_doc_test;

    #[test]
    fn blocks_of_rust_in_doc_comments_count_and_others_do_not() {
        assert!(has_doc_test("/// Adds.\n/// ```\n/// add(1);\n/// ```\n"));
        assert!(has_doc_test(
            "//! ```text\n//! a\n//! ```\n//! ```no_run\n//! b();\n//! ```\n"
        ));
        assert!(!has_doc_test("/// ```yaml\n/// a: b\n/// ```\nfn f() {}\n"));
        assert!(!has_doc_test("// ```\n// no doc comment\n// ```\n"));
    }
}
