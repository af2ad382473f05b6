//! `orangery new extension`: makes the arguments into what `landscape-extension-template` takes, has the files written, and
//! prints what to type next.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use landscape_extension_template::{Request, Settings, files, find_sdk, write};

use crate::cli;

/// Runs the command; returns what it prints.
///
/// # Errors
/// A name or type that is none, no SDK, or a file that is there already.
pub(crate) fn run(arguments: &cli::NewExtension) -> Result<String, Fault> {
    let current = std::env::current_dir()
        .map_err(|error| Fault::user(format!("the current folder is gone: {error}")).hint("change to another one"))?;
    let cli::NewExtension {
        name,
        kinds,
        type_,
        webhook,
        path,
        sdk,
    } = arguments;
    let sdk = find_sdk(sdk.as_deref(), &current)?;
    let settings = Settings::new(Request {
        name: name.clone(),
        type_: type_.clone(),
        kinds: kinds.clone(),
        webhook: *webhook,
        sdk: sdk.clone(),
    })?;
    let files = files(&settings);
    let folder = path.clone().unwrap_or_else(|| PathBuf::from(name));
    write(&folder, &files, &sdk)?;
    let paths: String = files
        .iter()
        .map(|file| format!("  {}\n", shown(&folder, &file.path)))
        .collect();
    Ok(format!(
        "{paths}\nnext:\n  orangery up --extension {}\n    builds it, installs it, prints its logs, reloads it when a file changes\n\
         more in {}\n",
        folder.display(),
        shown(&folder, "README.md")
    ))
}

fn shown(folder: &Path, path: &str) -> String {
    folder.join(path).display().to_string()
}
