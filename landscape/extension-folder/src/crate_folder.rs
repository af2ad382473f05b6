//! What Cargo reports of a crate's folder: its program, and the folders that Cargo builds in.

use std::path::{Path, PathBuf};

use api_meta::Fault;
use cargo_metadata::{Error, MetadataCommand, Package};

/// The program of a crate.
pub(crate) struct Crate {
    /// Its name.
    pub(crate) program: String,
    /// Where the program is run from. Which file `cargo build` makes is known once it has: that depends on its configuration.
    pub(crate) file: PathBuf,
    /// The folders that Cargo writes into.
    pub(crate) made: Vec<PathBuf>,
}

/// The folder of programs, in Cargo's target folder.
const PROGRAMS: &str = "orangery";

/// The program of the crate in a folder. Runs Cargo, which looks nothing up elsewhere.
///
/// # Errors
/// There is no Cargo, or it refuses the manifest, or the crate has no program or several.
pub(crate) fn read(folder: &Path) -> Result<Crate, Fault> {
    let manifest = folder.join("Cargo.toml");
    let metadata = MetadataCommand::new()
        .manifest_path(&manifest)
        .current_dir(folder)
        .no_deps()
        .exec();
    let metadata = metadata.map_err(|error| match error {
        Error::Io(error) => Fault::user(format!("cargo cannot be run: {error}"))
            .hint("install Rust and put cargo into the PATH; or name build and program in orangery-extension.yaml"),
        Error::CargoMetadata { stderr } => {
            Fault::user(stderr.trim().trim_start_matches("error: ").to_owned()).hint("correct Cargo.toml")
        }
        other => Fault::user(format!("cargo metadata cannot be read: {other}")).hint("correct Cargo.toml"),
    })?;
    let shown = manifest.display();
    let here = metadata.packages.iter().find(|package| {
        let theirs = package.manifest_path.as_std_path();
        std::fs::canonicalize(theirs).ok() == std::fs::canonicalize(&manifest).ok()
    });
    let package = here.ok_or_else(|| {
        Fault::user(format!("{shown} has no package")).hint("name the folder of the extension's own crate")
    })?;
    let program =
        program(package).map_err(|why| Fault::user(format!("{shown}: {why}")).hint("name one in default-run"))?;
    let target = metadata.target_directory.into_std_path_buf();
    let file = target.join(PROGRAMS).join(&program);
    let made = std::iter::once(target)
        .chain(metadata.build_directory.map(Into::into))
        .collect();
    Ok(Crate { program, file, made })
}

fn program(package: &Package) -> Result<String, String> {
    if let Some(name) = &package.default_run {
        return Ok(name.clone());
    }
    let programs: Vec<&str> = package
        .targets
        .iter()
        .filter(|target| target.is_bin())
        .map(|target| target.name.as_str())
        .collect();
    match programs.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err("the crate has no program (src/main.rs)".to_owned()),
        several => Err(format!("the crate has several programs: {}", several.join(", "))),
    }
}
