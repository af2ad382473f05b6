//! Where real parts and build results are kept: a folder outside the checkout that may be empty or stale at any time.

use std::path::PathBuf;

use crate::Outcome;

/// The variable that moves the cache; its default is `.cache/orangery` in the home folder.
pub(crate) const VARIABLE: &str = "ORANGERY_CACHE";

/// The cache folder, created when missing.
pub(crate) fn folder() -> Outcome<PathBuf> {
    let folder = match std::env::var_os(VARIABLE) {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()
            .ok_or_else(|| {
                format!("no home folder is known: set {VARIABLE} to a folder that may hold a few gigabytes")
            })?
            .join(".cache/orangery"),
    };
    std::fs::create_dir_all(&folder).map_err(|error| {
        format!(
            "cannot create {}: {error}; set {VARIABLE} to another folder",
            folder.display()
        )
    })?;
    Ok(folder)
}
