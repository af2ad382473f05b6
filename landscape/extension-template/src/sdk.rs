//! Where the SDK is: a checkout of Orangery. The day that the SDK is published, this goes and versions take its place.

use std::path::{Path, PathBuf};

use api_meta::Fault;

/// The file by which a checkout is known, and what stands in it.
const MANIFEST: (&str, &str) = ("extensions/sdk/Cargo.toml", "name = \"extensions-sdk\"");
/// The checkout that this was built in.
const BUILT_IN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// The checkout of the SDK: the one that is named, else the one around the current folder, else the one that this program was
/// built in.
///
/// # Errors
/// The named one is none, or there is none at all.
pub fn find(named: Option<&Path>, current: &Path) -> Result<PathBuf, Fault> {
    if let Some(named) = named {
        return checkout(named).ok_or_else(|| {
            let why = format!(
                "--sdk {} is no checkout of Orangery: it has no {}",
                named.display(),
                MANIFEST.0
            );
            Fault::user(why).hint("name the folder that `git clone` has made")
        });
    }
    let around = current.ancestors().find_map(checkout);
    around.or_else(|| checkout(Path::new(BUILT_IN))).ok_or_else(|| {
        let why = format!(
            "the SDK is not found: neither {} nor a folder above it is a checkout of Orangery, and the one that this program was \
             built in is gone",
            current.display()
        );
        Fault::user(why).hint("name a checkout with --sdk")
    })
}

/// The folder, absolute, if it is a checkout.
fn checkout(folder: &Path) -> Option<PathBuf> {
    let manifest = std::fs::read_to_string(folder.join(MANIFEST.0)).ok()?;
    manifest.contains(MANIFEST.1).then_some(())?;
    std::fs::canonicalize(folder).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_checkout_counts_before_the_one_around_and_the_one_built_in() {
        let ours = std::fs::canonicalize(BUILT_IN).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let other = folder.path().join("other");
        let manifest = other.join(MANIFEST.0);
        std::fs::create_dir_all(manifest.parent().unwrap()).unwrap();
        std::fs::write(&manifest, "[package]\nname = \"extensions-sdk\"\n").unwrap();
        let other = std::fs::canonicalize(other).unwrap();
        assert_eq!(find(Some(&other), &ours).unwrap(), other);
        assert_eq!(find(None, &other.join("extensions")).unwrap(), other);
        assert_eq!(find(None, folder.path()).unwrap(), ours);
        let fault = find(Some(folder.path()), &ours).unwrap_err();
        assert!(
            fault.to_string().contains("has no extensions/sdk/Cargo.toml"),
            "{fault}"
        );
    }
}
